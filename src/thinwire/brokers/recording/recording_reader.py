"""One log of a recording: all its segments as one table of blocks, and where to look for what.

A recording, read: the logs and documents of a broker that need not be there any more.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import numpy as np

from thinwire.brokers.protocol import Block, Span, Stored
from thinwire.brokers.recording.block_format import (
    BUCKETS,
    LOGS,
    BlockColumns,
    ByteLocation,
    bucket_folder,
    check_marker,
    log_folder,
    names,
    segments,
    stored_of,
)
from thinwire.brokers.recording.segment import BLOCK, ROW, Table, TruncatedTail, cut_of, find, open_segment, read_block
from thinwire.brokers.subjects import check_pattern, matches
from thinwire.errors import UnknownLog

_KEPT = 4
"""blocks that are kept for the next question"""


class RecordedLog:
    """Answers from the index, and reads as few blocks as can be; one file is open at a time."""

    def __init__(self, folder: Path) -> None:
        found = [find(file) for file in segments(folder)]
        self.cuts = [cut for cut in map(cut_of, found) if cut is not None]
        self.segments = [segment for segment in found if len(segment.index.blocks)]
        self._blocks = _stacked([segment.index.blocks for segment in self.segments], BLOCK)
        self._begins = np.cumsum([0, *(len(segment.index.blocks) for segment in self.segments)]).tolist()
        self._check_order()
        self._open: tuple[Path, IO[bytes]] | None = None
        self._kept: OrderedDict[int, BlockColumns] = OrderedDict()

    def span(self) -> Span:
        """What is here. Nothing is ever changed, so the first block tells a recording from any other."""
        if not len(self._blocks):
            return Span(1, 0, 0, 0)
        blocks = self._blocks
        first, last = int(blocks["first"][0]), int(blocks["last"][-1])
        messages, size = int(blocks["messages"].sum()), int(blocks["size"].sum())
        return Span(first, last, messages, size, made=repr(float(blocks["newest"][0])))

    def times(self) -> tuple[float, float] | None:
        """When the first and the last message were stored."""
        if not len(self._blocks):
            return None
        return float(self._block(0).times[0]), float(self._block(len(self._blocks) - 1).times[-1])

    def subjects(self, pattern: str) -> dict[str, int]:
        """Messages by subject."""
        return {name: int(rows["messages"].sum()) for name, rows in self._rows.items() if matches(pattern, name)}

    def last(self, pattern: str, up_to: int | None) -> Stored | None:
        """The newest message under subjects that match, at or before an offset."""
        check_pattern(pattern)
        end = self.span().last if up_to is None else up_to
        found = -1
        for name, rows in self._rows.items():
            if matches(pattern, name):
                row = int(np.searchsorted(rows["first"], end, "right")) - 1
                found = max(found, int(rows["block"][row]) if row >= 0 else -1)
        if found < 0:
            return None
        part = self._block(found).where(0, end, lambda name: matches(pattern, name))
        if not len(part.offsets):
            raise self._place(found).corrupt("a block without the messages that the index tells of")
        return part.stored(-1)

    def offset_at(self, time: float) -> int:
        """The first message stored at this time or later."""
        latest = np.maximum.accumulate(self._blocks["newest"])
        number = int(np.searchsorted(latest, time))
        if number == len(self._blocks):
            return self.span().last + 1
        columns = self._block(number)
        return int(columns.offsets[np.argmax(columns.times >= time)])

    def read(self, first: int, last: int, patterns: Sequence[str]) -> Iterator[Block]:
        """The messages between two offsets, both included."""
        for pattern in patterns:
            check_pattern(pattern)
        wanted = _wanted(patterns)
        left = int(np.searchsorted(self._blocks["last"], first))
        right = int(np.searchsorted(self._blocks["first"], last, "right"))
        for number in self._hold_group(left, right, wanted):
            part = self._load(number).where(first, last, wanted)
            if len(part.offsets):
                yield part.block()

    def gaps(self) -> list[tuple[int, int]]:
        """Stretches of offsets between the first and the last that are not here: first and last of each."""
        found: list[tuple[int, int]] = []
        before = self.span().first - 1
        for number, block in enumerate(self._blocks):
            first, last = int(block["first"]), int(block["last"])
            inside = last - first + 1 > block["messages"]
            offsets = [before, *(self._load(number).offsets.tolist() if inside else (first,))]
            found += [(end + 1, start - 1) for end, start in pairwise(offsets) if start > end + 1]
            before = last
        return found

    def close(self) -> None:
        """Let go of the file."""
        if self._open is not None:
            self._open[1].close()
            self._open = None

    @cached_property
    def _rows(self) -> dict[str, Table]:
        """The rows of the index by subject, with blocks counted over all segments."""
        found: dict[str, list[Table]] = {}
        for begin, segment in zip(self._begins, self.segments, strict=False):
            rows = segment.index.rows.copy()
            rows["block"] += begin
            order = np.argsort(rows["subject"], kind="stable")
            cuts = np.searchsorted(rows["subject"][order], np.arange(1, len(segment.index.subjects)))
            for name, part in zip(segment.index.subjects, np.split(rows[order], cuts), strict=True):
                found.setdefault(name, []).append(part)
        return {name: _stacked(parts, ROW) for name, parts in found.items()}

    def _hold_group(self, left: int, right: int, wanted: Callable[[str], bool] | None) -> list[int]:
        """Which of the blocks have messages that are wanted."""
        if wanted is None:
            return list(range(left, right))
        chosen = [rows["block"] for name, rows in self._rows.items() if wanted(name)]
        numbers = np.unique(np.concatenate(chosen)) if chosen else np.zeros(0, np.int64)
        return [int(number) for number in numbers[(numbers >= left) & (numbers < right)]]

    def _block(self, number: int) -> BlockColumns:
        """A block that may be asked for again."""
        columns = self._kept.pop(number, None) or self._load(number)
        self._kept[number] = columns
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return columns

    def _load(self, number: int) -> BlockColumns:
        """A block, which must be the one that the index tells of."""
        block, place = self._blocks[number], self._place(number)
        columns = read_block(self._file(place.file), place, int(block["size"]))
        if (columns.offsets[0], columns.offsets[-1]) != (block["first"], block["last"]):
            raise place.corrupt("a block that is not the one the index tells of")
        return columns

    def _place(self, number: int) -> ByteLocation:
        segment = self.segments[bisect_right(self._begins, number) - 1]
        return ByteLocation(segment.file, int(self._blocks["place"][number]))

    def _file(self, file: Path) -> IO[bytes]:
        if self._open is None or self._open[0] != file:
            self.close()
            self._open = (file, open_segment(file))
        return self._open[1]

    def _check_order(self) -> None:
        for before, behind in pairwise(self.segments):
            if behind.index.blocks["first"][0] <= before.index.blocks["last"][-1]:
                raise ByteLocation(behind.file).corrupt("a segment that begins before the one before it ends")


def _stacked(tables: Sequence[Table], kind: np.dtype[np.void]) -> Table:
    return np.concatenate(tables) if tables else np.zeros(0, kind)


def _wanted(patterns: Sequence[str]) -> Callable[[str], bool] | None:
    if not patterns:
        return None
    return lambda name: any(matches(pattern, name) for pattern in patterns)


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

    def cuts(self, log: str) -> list[TruncatedTail]:
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
