"""The writing end of one log of a recording: blocks into a segment, a new segment when it is full.

Writing a recording: messages of logs, and the documents that are needed to read them.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import IO, Literal, Self, get_args

from thinwire.brokers.protocol import Stored
from thinwire.brokers.recording.block_format import (
    INDEX,
    MARKER,
    UNFINISHED,
    ByteLocation,
    bucket_folder,
    check_marker,
    decode,
    encode,
    log_folder,
    segment_name,
    segments,
    sync_folder,
    write_marker,
)
from thinwire.brokers.recording.recording_reader import open_recording
from thinwire.brokers.recording.segment import FRONT, IndexBuilder, Segment, find, seal
from thinwire.brokers.subjects import check_subject
from thinwire.errors import ConfigError, PayloadTooLarge, ThinwireError, TransportError

Sync = Literal["block", "segment", "never"]
MAX_PAYLOAD = 64 << 20
"""bytes of one message: the largest that a NATS server can be told to take"""
MAX_MESSAGES = 16_384
"""messages of a block"""


class RecordingAppender:
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
        self._index.add(place, decode(data, ByteLocation(Path(file.name), place)))
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


BLOCK = 1 << 18
SEGMENT = 1 << 26
_LOCK = ".lock"


class RecordingWriter:
    """A recording to append to: a new one, or one that goes on after the last offset of each log.

    block: bytes of payloads after which a block is written; segment: bytes after which a new file begins
    sync: when the disk is waited for: "block" (nothing that was flushed is lost in a power failure), "segment" (when a
        file is finished) or "never"; a process that is killed loses only what was not flushed in any case
    """

    def __init__(self, path: str | Path, *, block: int = BLOCK, segment: int = SEGMENT, sync: Sync = "segment") -> None:
        if sync not in get_args(Sync):
            raise ConfigError("no such way to wait for the disk", sync=sync, choose_from=list(get_args(Sync)))
        if block < 1 or segment < 1:
            raise ConfigError("sizes are at least 1 byte", block=block, segment=segment)
        self.path, self.block, self.segment, self.sync = Path(path), block, segment, sync
        self._logs: dict[str, RecordingAppender] = {}
        self._buckets: dict[str, RecordingAppender] = {}
        self._known: dict[str, dict[str, bytes]] = {}
        self._make_folder()
        self._lock = _locked(self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # what went wrong first says more than what cannot be written after it
        with suppress(*(() if error is None else (OSError, ThinwireError))):
            self.close()

    @property
    def written(self) -> int:
        """Bytes written so far, by this writer."""
        return sum(part.written for part in self._parts())

    def last(self, log: str) -> int:
        """The offset after which a log goes on; 0 where nothing is recorded of it."""
        return self._log(log).last

    def append(self, log: str, stored: Stored) -> None:
        """The next message of a log; offsets grow, and may jump where the broker has no more what was between."""
        self._log(log).append(stored)

    def put_document(self, bucket: str, key: str, value: bytes, *, time: float = 0.0) -> None:
        """A document of a bucket; one that is recorded already is not written again, a changed one takes its place."""
        known, digest = self._documents(bucket), _digest(value)
        if known.get(key) != digest:
            documents = self._buckets[bucket]
            documents.append(Stored(documents.last + 1, key, value, time))
            known[key] = digest

    def flush(self) -> None:
        """Write what waits for a block to be full; what is written survives this process."""
        for part in self._parts():
            part.flush()

    def close(self) -> None:
        """Write everything, finish all files, let others write."""
        parts = self._parts()
        try:
            for part in parts:
                part.close()
        finally:
            # where the disk is full, what is complete stays: the next writer finishes it
            for part in parts:
                with suppress(OSError):
                    part.abandon()
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None

    def _parts(self) -> list[RecordingAppender]:
        return [*self._logs.values(), *self._buckets.values()]

    def _log(self, log: str) -> RecordingAppender:
        if log not in self._logs:
            self._logs[log] = self._appender(log_folder(self.path, log))
        return self._logs[log]

    def _documents(self, bucket: str) -> dict[str, bytes]:
        """What is known of a bucket, so that nothing is written twice."""
        if bucket not in self._known:
            self._buckets[bucket] = self._appender(bucket_folder(self.path, bucket))
            with open_recording(self.path) as recording:
                documents = recording.documents(bucket)
            self._known[bucket] = {key: _digest(value) for key, value in documents.items()}
        return self._known[bucket]

    def _appender(self, folder: Path) -> RecordingAppender:
        return RecordingAppender(folder, block=self.block, segment=self.segment, sync=self.sync)

    def _make_folder(self) -> None:
        """Make the recording, or make sure that the folder is one."""
        self.path.mkdir(parents=True, exist_ok=True)
        if (self.path / MARKER).exists():
            check_marker(self.path)
        elif any(entry.name != _LOCK and not entry.name.startswith(MARKER) for entry in self.path.iterdir()):
            raise ConfigError("there is something else in this folder: name an empty or a new one", to=str(self.path))
        else:
            write_marker(self.path)


def _digest(value: bytes) -> bytes:
    return blake2b(value, digest_size=16).digest()


def _locked(path: Path) -> int | None:
    """One writer at a time; a file system that knows no locks is taken at its word that there is no other."""
    lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise ConfigError("another process writes to this recording: stop it first", to=str(path)) from None
    except OSError:
        os.close(lock)
        return None
    return lock
