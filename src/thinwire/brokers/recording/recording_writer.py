"""The writing end of one log of a recording: blocks into a segment, a new segment when it is full."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, Literal

from thinwire.brokers.protocol_broker import Stored
from thinwire.brokers.recording.block_format import decode, encode
from thinwire.brokers.recording.block_format_layout import INDEX, UNFINISHED, Place, segment_name, segments, sync_folder
from thinwire.brokers.recording.segment import IndexBuilder
from thinwire.brokers.recording.segment_segments import FRONT, Segment, find, seal
from thinwire.brokers.subjects import check_subject
from thinwire.errors import PayloadTooLarge, TransportError

Sync = Literal["block", "segment", "never"]
MAX_PAYLOAD = 64 << 20
"""bytes of one message: the largest that a NATS server can be told to take"""
MAX_MESSAGES = 16_384
"""messages of a block"""


class Appender:
    """Appends to a log, after whatever was recorded of it before.

    last: the offset of the last message taken, 0 for none; written: bytes that are in files
    """

    def __init__(self, folder: Path, *, block: int, segment: int, sync: Sync) -> None:
        self.folder, self.block, self.segment, self.sync = folder, block, segment, sync
        folder.mkdir(parents=True, exist_ok=True)
        self.last = _take_over(folder, sync)
        self.written = 0
        self._pending: list[Stored] = []
        self._waiting = 0
        self._torn = False
        self._file: IO[bytes] | None = None
        self._index = IndexBuilder()

    def append(self, stored: Stored) -> None:
        """Take a message; it is in the file when its block is full, or after `flush`."""
        if stored.offset <= self.last:
            raise TransportError("offsets of a log grow", offset=stored.offset, last=self.last, log=self.folder.name)
        if len(stored.payload) > MAX_PAYLOAD:
            raise PayloadTooLarge(offset=stored.offset, bytes=len(stored.payload), limit=MAX_PAYLOAD)
        check_subject(stored.subject)
        self._pending.append(stored)
        self._waiting += len(stored.payload)
        self.last = stored.offset
        if self._waiting >= self.block or len(self._pending) >= MAX_MESSAGES:
            self.flush()

    def flush(self) -> None:
        """Write what waits as one block; whoever reads finds it then, even if this process is killed."""
        if not self._pending:
            return
        file = self._file or self._begin(self._pending[0].offset)
        place, data = file.tell(), encode(self._pending)
        self._write(file, data)
        self._index.add(place, decode(data, Place(Path(file.name), place)))
        self._pending, self._waiting = [], 0
        if place + len(data) >= self.segment:
            self._finish(file)

    def close(self) -> None:
        """Write what waits, and finish the segment."""
        self.flush()
        if self._file is not None:
            self._finish(self._file)

    def abandon(self) -> None:
        """Leave everything as it is, as if this process had been killed."""
        if self._file is not None:
            self._file.close()

    def _write(self, file: IO[bytes], data: bytes) -> None:
        """Nothing may follow half a block: after a disk that was full, only another writer goes on."""
        if self._torn:
            raise TransportError("an earlier block could not be written: open the recording again", file=file.name)
        self._torn = True
        file.write(data)
        file.flush()
        if self.sync == "block":
            os.fsync(file.fileno())
        self._torn = False
        self.written += len(data)

    def _begin(self, first: int) -> IO[bytes]:
        # never over another's: a segment is written once
        self._file = (self.folder / segment_name(first)).open("xb")
        self._write(self._file, FRONT)
        return self._file

    def _finish(self, file: IO[bytes]) -> None:
        length = file.tell()
        if self.sync == "segment":
            os.fsync(file.fileno())
        file.close()
        seal(Segment(Path(file.name), self._index.build(length)), sync=self.sync != "never")
        self._file, self._index = None, IndexBuilder()


def _take_over(folder: Path, sync: Sync) -> int:
    """Finish what a writer that was killed left behind; the last offset there is.

    A segment that was begun and has no whole block tells nothing, and would be in the way of one that begins there.
    """
    for stray in folder.glob(f"*{UNFINISHED}"):
        stray.unlink()
    last = 0
    for file in segments(folder):
        segment = find(file)
        if not len(segment.index.blocks):
            file.unlink()
            continue
        if not file.with_suffix(INDEX).is_file():
            seal(segment, sync=sync != "never")
        last = int(segment.index.blocks["last"][-1])
    if sync != "never":
        sync_folder(folder)
    return last
