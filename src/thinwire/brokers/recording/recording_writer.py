"""Writing a recording: messages of logs, and the documents that are needed to read them."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import IO, Literal, Self, get_args

from thinwire.brokers.protocol import StoredMessage
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
from thinwire.brokers.recording.segment import SEGMENT_HEADER, IndexBuilder, Segment, load_segment, write_index
from thinwire.brokers.subjects import check_subject
from thinwire.errors import ConfigError, PayloadTooLarge, ThinwireError, TransportError

Sync = Literal["block", "segment", "never"]
MAX_PAYLOAD = 64 << 20
"""bytes of one message: the largest limit that a NATS server can be configured with"""
MAX_MESSAGES = 16_384
"""messages of a block"""


class RecordingAppender:
    """Appends to one recorded log: blocks to a segment, and a new segment when it is full.

    block: bytes of payloads after which a block is written; segment: bytes after which a segment is complete
    last: offset of the last message, 0 if there is none; written: bytes written to files
    """

    def __init__(self, folder: Path, *, block: int, segment: int, sync: Sync) -> None:
        self.folder, self.block, self.segment, self.sync = folder, block, segment, sync
        folder.mkdir(parents=True, exist_ok=True)
        self.last = _recover(folder, sync)
        self.written = 0
        self._pending: list[StoredMessage] = []
        self._pending_bytes = 0
        self._has_failed = False
        self._file: IO[bytes] | None = None
        self._index = IndexBuilder()

    def append(self, stored: StoredMessage) -> None:
        """Buffer a message. It is written when its block is full, or by `flush`."""
        if stored.offset <= self.last:
            raise TransportError("offsets must increase", offset=stored.offset, last=self.last, log=self.folder.name)
        if len(stored.payload) > MAX_PAYLOAD:
            raise PayloadTooLarge(offset=stored.offset, bytes=len(stored.payload), limit=MAX_PAYLOAD)
        check_subject(stored.subject)
        self._pending.append(stored)
        self._pending_bytes += len(stored.payload)
        self.last = stored.offset
        if self._pending_bytes >= self.block or len(self._pending) >= MAX_MESSAGES:
            self.flush()

    def flush(self) -> None:
        """Write the buffered messages as one block, which is then readable even if this process is killed."""
        if not self._pending:
            return
        file = self._file or self._begin(self._pending[0].offset)
        position, data = file.tell(), encode(self._pending)
        self._write(file, data)
        self._index.add(position, decode(data, ByteLocation(Path(file.name), position)))
        self._pending, self._pending_bytes = [], 0
        if position + len(data) >= self.segment:
            self._finish(file)

    def close(self) -> None:
        """Write the buffered messages and complete the segment."""
        self.flush()
        if self._file is not None:
            self._finish(self._file)

    def abandon(self) -> None:
        """Close the file without completing the segment."""
        if self._file is not None:
            self._file.close()

    def _write(self, file: IO[bytes], data: bytes) -> None:
        """Write to the segment. After a failed write its last block may be incomplete; then all writes are refused."""
        if self._has_failed:
            raise TransportError("an earlier block could not be written: open the recording again", file=file.name)
        self._has_failed = True
        file.write(data)
        file.flush()
        if self.sync == "block":
            os.fsync(file.fileno())
        self._has_failed = False
        self.written += len(data)

    def _begin(self, first: int) -> IO[bytes]:
        # exclusive: an existing segment is never overwritten
        self._file = (self.folder / segment_name(first)).open("xb")
        self._write(self._file, SEGMENT_HEADER)
        return self._file

    def _finish(self, file: IO[bytes]) -> None:
        length = file.tell()
        if self.sync == "segment":
            os.fsync(file.fileno())
        file.close()
        write_index(Segment(Path(file.name), self._index.build(length)), sync=self.sync != "never")
        self._file, self._index = None, IndexBuilder()


def _recover(folder: Path, sync: Sync) -> int:
    """Complete the segments of a killed writer. Return the last offset.

    A segment without a complete block is removed; it would block a new segment of the same name.
    """
    for unfinished in folder.glob(f"*{UNFINISHED}"):
        unfinished.unlink()
    last = 0
    for file in segments(folder):
        segment = load_segment(file)
        if not len(segment.index.blocks):
            file.unlink()
            continue
        if not file.with_suffix(INDEX).is_file():
            write_index(segment, sync=sync != "never")
        last = int(segment.index.blocks["last"][-1])
    if sync != "never":
        sync_folder(folder)
    return last


BLOCK = 1 << 18
"""default bytes of payloads in a block"""
SEGMENT = 1 << 26
"""default bytes of a segment"""
_LOCK = ".lock"


class RecordingWriter:
    """Creates a recording, or continues one after the last offset of each log.

    block: bytes of payloads in a block; segment: bytes of a segment
    sync: when data is written through to the disk: "block" (flushed messages survive a power failure), "segment"
        (when a file is complete) or "never". In all modes flushed messages survive if the process is killed.
    """

    def __init__(self, path: str | Path, *, block: int = BLOCK, segment: int = SEGMENT, sync: Sync = "segment") -> None:
        if sync not in get_args(Sync):
            raise ConfigError("unknown sync mode", sync=sync, choose_from=list(get_args(Sync)))
        if block < 1 or segment < 1:
            raise ConfigError("sizes are at least 1 byte", block=block, segment=segment)
        self.path, self.block, self.segment, self.sync = Path(path), block, segment, sync
        self._logs: dict[str, RecordingAppender] = {}
        self._buckets: dict[str, RecordingAppender] = {}
        self._digests: dict[str, dict[str, bytes]] = {}
        self._open_folder()
        self._lock = _lock(self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # a failed write on close must not replace the error of the block
        with suppress(*(() if error is None else (OSError, ThinwireError))):
            self.close()

    @property
    def written(self) -> int:
        """Bytes written by this writer."""
        return sum(part.written for part in self._parts())

    def last(self, log: str) -> int:
        """Return the last offset of a log; 0 if nothing is recorded."""
        return self._log(log).last

    def append(self, log: str, stored: StoredMessage) -> None:
        """Append a message to a log. Offsets increase and may have gaps."""
        self._log(log).append(stored)

    def put_document(self, bucket: str, key: str, value: bytes, *, time: float = 0.0) -> None:
        """Store a document of a bucket. An unchanged document is not written again; a changed one replaces it."""
        digests, digest = self._document_digests(bucket), _digest(value)
        if digests.get(key) != digest:
            documents = self._buckets[bucket]
            documents.append(StoredMessage(documents.last + 1, key, value, time))
            digests[key] = digest

    def flush(self) -> None:
        """Write all buffered messages."""
        for part in self._parts():
            part.flush()

    def close(self) -> None:
        """Write all buffered messages, complete all files and release the lock."""
        parts = self._parts()
        try:
            for part in parts:
                part.close()
        finally:
            # on a full disk the complete blocks remain; the next writer completes the segment
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

    def _document_digests(self, bucket: str) -> dict[str, bytes]:
        """Return the digests of the recorded documents by key."""
        if bucket not in self._digests:
            self._buckets[bucket] = self._appender(bucket_folder(self.path, bucket))
            with open_recording(self.path) as recording:
                documents = recording.documents(bucket)
            self._digests[bucket] = {key: _digest(value) for key, value in documents.items()}
        return self._digests[bucket]

    def _appender(self, folder: Path) -> RecordingAppender:
        return RecordingAppender(folder, block=self.block, segment=self.segment, sync=self.sync)

    def _open_folder(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        if (self.path / MARKER).exists():
            check_marker(self.path)
        elif any(entry.name != _LOCK and not entry.name.startswith(MARKER) for entry in self.path.iterdir()):
            raise ConfigError("the folder is not empty: give an empty or a new one", to=str(self.path))
        else:
            write_marker(self.path)


def _digest(value: bytes) -> bytes:
    return blake2b(value, digest_size=16).digest()


def _lock(path: Path) -> int | None:
    """Lock the recording against other writers. Return None on a file system without locks."""
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
