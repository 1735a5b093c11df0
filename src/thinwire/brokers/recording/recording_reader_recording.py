"""A recording, read: the logs and documents of a broker that need not be there any more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from thinwire.brokers.protocol_broker import Span, Stored
from thinwire.brokers.protocol_source import Block
from thinwire.brokers.recording.block_format import stored_of
from thinwire.brokers.recording.block_format_layout import BUCKETS, LOGS, bucket_folder, check_marker, log_folder, names
from thinwire.brokers.recording.recording_reader import RecordedLog
from thinwire.brokers.recording.segment_segments import Cut
from thinwire.errors import UnknownLog


def open_recording(path: str | Path) -> Recording:
    """The recording in a folder, as it is now; `NoRecording` if there is none.

    >>> from tempfile import TemporaryDirectory
    >>> from thinwire.brokers.recording import RecordingWriter
    >>> with TemporaryDirectory() as folder:
    ...     with RecordingWriter(folder) as out:
    ...         out.append("rooms", Stored(7, "rooms.p1.k", b"...", 1_700_000_000.5))
    ...     with open_recording(folder) as recording:
    ...         recording.last("rooms", "rooms.*.k")
    Stored(offset=7, subject='rooms.p1.k', payload=b'...', time=1700000000.5)
    """
    return Recording(Path(path))


class Recording:
    """A `LogSource` on files. What is appended after a log was first asked about is not seen."""

    def __init__(self, path: Path) -> None:
        check_marker(path)
        self.path = path
        self._logs: dict[str, RecordedLog] = {}
        self._buckets: dict[str, RecordedLog] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def logs(self) -> list[str]:
        """The names of all logs."""
        return names(self.path, LOGS)

    def span(self, log: str) -> Span:
        """What is recorded of a log; `stored_bytes` are those on disk."""
        return self._log(log).span()

    def last(self, log: str, pattern: str, *, up_to: int | None = None) -> Stored | None:
        """The newest message under subjects that match, at or before an offset where given."""
        return self._log(log).last(pattern, up_to)

    def subjects(self, log: str, pattern: str = ">") -> dict[str, int]:
        """The subjects that have messages in the log, with how many."""
        return self._log(log).subjects(pattern)

    def offset_at(self, log: str, time: float) -> int:
        """The offset of the first message stored at this time or later; one past the last where there is none."""
        return self._log(log).offset_at(time)

    def read(self, log: str, first: int, last: int, *, subjects: Sequence[str] = ()) -> Iterator[list[Stored]]:
        """The messages from an offset to another, both included, in order, in blocks of bounded size."""
        return map(stored_of, self.read_blocks(log, first, last, subjects=subjects))

    def read_blocks(self, log: str, first: int, last: int, *, subjects: Sequence[str] = ()) -> Iterator[Block]:
        """The same, in columns."""
        return self._log(log).read(first, last, subjects)

    def buckets(self) -> list[str]:
        """The buckets of which documents were recorded."""
        return names(self.path, BUCKETS)

    def document(self, bucket: str, key: str) -> bytes | None:
        """The document under a key of a bucket; None where there is none."""
        stored = self._bucket(bucket).last(key, None)
        return None if stored is None else stored.payload

    def documents(self, bucket: str, pattern: str = ">") -> dict[str, bytes]:
        """All documents whose key matches, as they were when they were recorded last."""
        found: dict[str, bytes] = {}
        documents = self._bucket(bucket)
        for block in documents.read(0, documents.span().last, [pattern]):
            found.update(zip(block.subjects, block.payloads, strict=True))
        return found

    def times(self, log: str) -> tuple[float, float] | None:
        """When the first and the last message of a log were stored; None where there is none."""
        return self._log(log).times()

    def gaps(self, log: str) -> list[tuple[int, int]]:
        """What is missing in the middle of a log: the first and the last offset of every stretch."""
        return self._log(log).gaps()

    def cuts(self, log: str) -> list[Cut]:
        """Where the log's writer was stopped in the middle of a block; everything before it counts."""
        return self._log(log).cuts

    def close(self) -> None:
        """Let go of all files."""
        for part in (*self._logs.values(), *self._buckets.values()):
            part.close()

    def _log(self, log: str) -> RecordedLog:
        if log not in self._logs:
            folder = log_folder(self.path, log)
            if not folder.is_dir():
                raise UnknownLog("it was not recorded", log=log, path=str(self.path), recorded=self.logs())
            self._logs[log] = RecordedLog(folder)
        return self._logs[log]

    def _bucket(self, bucket: str) -> RecordedLog:
        if bucket not in self._buckets:
            self._buckets[bucket] = RecordedLog(bucket_folder(self.path, bucket))
        return self._buckets[bucket]
