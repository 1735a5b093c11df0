"""Writing a recording: messages of logs, and the documents that are needed to read them."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Self, get_args

from thinwire.brokers.protocol_broker import Stored
from thinwire.brokers.recording.block_format_layout import MARKER, bucket_folder, check_marker, log_folder, write_marker
from thinwire.brokers.recording.recording_reader_recording import open_recording
from thinwire.brokers.recording.recording_writer import Appender, Sync
from thinwire.errors import ConfigError, ThinwireError

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
        self._logs: dict[str, Appender] = {}
        self._buckets: dict[str, Appender] = {}
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

    def _parts(self) -> list[Appender]:
        return [*self._logs.values(), *self._buckets.values()]

    def _log(self, log: str) -> Appender:
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

    def _appender(self, folder: Path) -> Appender:
        return Appender(folder, block=self.block, segment=self.segment, sync=self.sync)

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
