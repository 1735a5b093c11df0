"""`Recording` implements `LogSource` on files; `RecordedLog` reads one log through its indexes."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import IO, Self

import numpy as np

from thinwire.brokers.protocol import Block, LogSource, Span, StoredMessage
from thinwire.brokers.recording.block_format import (
    BUCKETS,
    LOGS,
    BlockColumns,
    ByteLocation,
    bucket_folder,
    check_marker,
    list_names,
    log_folder,
    segments,
)
from thinwire.brokers.recording.segment import BLOCK, ROW, Table, load_segment, open_segment, read_block
from thinwire.brokers.subjects import SubjectFilter, check_pattern, matches
from thinwire.errors import UnknownLog

_CACHED_BLOCKS = 4


class RecordedLog:
    """One log. Queries are answered from the indexes with few block reads; at most one file is open.

    truncated: segments that end with an incomplete block, which a killed writer left; the block is not part of the log
    """

    def __init__(self, folder: Path) -> None:
        loaded = [load_segment(file) for file in segments(folder)]
        self.truncated = [segment for segment in loaded if segment.truncated]
        self.segments = [segment for segment in loaded if len(segment.index.blocks)]
        self._blocks = _stacked([segment.index.blocks for segment in self.segments], BLOCK)
        self._first_blocks = np.cumsum([0, *(len(segment.index.blocks) for segment in self.segments)]).tolist()
        self._check_order()
        self._open_file: tuple[Path, IO[bytes]] | None = None
        self._cache: OrderedDict[int, BlockColumns] = OrderedDict()

    def span(self) -> Span:
        """Return the content of the log. Its identity is the newest time of the first block, which never changes."""
        if not len(self._blocks):
            return Span(1, 0, 0, 0)
        blocks = self._blocks
        first, last = int(blocks["first"][0]), int(blocks["last"][-1])
        messages, size = int(blocks["messages"].sum()), int(blocks["size"].sum())
        return Span(first, last, messages, size, log_id=repr(float(blocks["newest"][0])))

    def times(self) -> tuple[float, float] | None:
        """Return the times of the first and the last message."""
        if not len(self._blocks):
            return None
        return float(self._block(0).times[0]), float(self._block(len(self._blocks) - 1).times[-1])

    def subjects(self, pattern: str) -> dict[str, int]:
        """Return the number of messages by subject."""
        return {name: int(rows["messages"].sum()) for name, rows in self._rows.items() if matches(pattern, name)}

    def last(self, pattern: str, up_to: int | None) -> StoredMessage | None:
        """Return the newest message whose subject matches, at or before offset `up_to` if given."""
        check_pattern(pattern)
        end = self.span().last if up_to is None else up_to
        newest = -1
        for name, rows in self._rows.items():
            if matches(pattern, name):
                row = int(np.searchsorted(rows["first"], end, "right")) - 1
                newest = max(newest, int(rows["block"][row]) if row >= 0 else -1)
        if newest < 0:
            return None
        part = self._block(newest).select(0, end, lambda name: matches(pattern, name))
        if not len(part.offsets):
            raise self._location(newest).corrupt("a block does not contain the messages that the index lists")
        return part.message(-1)

    def offset_at(self, time: float) -> int:
        """Return the offset of the first message stored at or after `time`."""
        latest = np.maximum.accumulate(self._blocks["newest"])
        number = int(np.searchsorted(latest, time))
        if number == len(self._blocks):
            return self.span().last + 1
        columns = self._block(number)
        return int(columns.offsets[np.argmax(columns.times >= time)])

    def read(self, first: int, last: int, patterns: Sequence[str]) -> Iterator[Block]:
        """Yield the messages between two offsets, both included."""
        is_wanted = SubjectFilter(patterns).__getitem__ if patterns else None
        left = int(np.searchsorted(self._blocks["last"], first))
        right = int(np.searchsorted(self._blocks["first"], last, "right"))
        for number in self._matching_blocks(left, right, is_wanted):
            part = self._load(number).select(first, last, is_wanted)
            if len(part.offsets):
                yield part.block()

    def gaps(self) -> list[tuple[int, int]]:
        """Return first and last offset of each missing range between the first and the last message."""
        found: list[tuple[int, int]] = []
        before = self.span().first - 1
        for number, block in enumerate(self._blocks):
            first, last = int(block["first"]), int(block["last"])
            has_gaps = last - first + 1 > block["messages"]
            offsets = [before, *(self._load(number).offsets.tolist() if has_gaps else (first,))]
            found += [(end + 1, start - 1) for end, start in pairwise(offsets) if start > end + 1]
            before = last
        return found

    def close(self) -> None:
        if self._open_file is not None:
            self._open_file[1].close()
            self._open_file = None

    @cached_property
    def _rows(self) -> dict[str, Table]:
        """Index rows by subject, with block numbers over all segments."""
        found: dict[str, list[Table]] = {}
        for begin, segment in zip(self._first_blocks, self.segments, strict=False):
            rows = segment.index.rows.copy()
            rows["block"] += begin
            order = np.argsort(rows["subject"], kind="stable")
            cuts = np.searchsorted(rows["subject"][order], np.arange(1, len(segment.index.subjects)))
            for name, part in zip(segment.index.subjects, np.split(rows[order], cuts), strict=True):
                found.setdefault(name, []).append(part)
        return {name: _stacked(parts, ROW) for name, parts in found.items()}

    def _matching_blocks(self, left: int, right: int, is_wanted: Callable[[str], bool] | None) -> list[int]:
        """Return the blocks that contain wanted subjects."""
        if is_wanted is None:
            return list(range(left, right))
        chosen = [rows["block"] for name, rows in self._rows.items() if is_wanted(name)]
        numbers = np.unique(np.concatenate(chosen)) if chosen else np.zeros(0, np.int64)
        return [int(number) for number in numbers[(numbers >= left) & (numbers < right)]]

    def _block(self, number: int) -> BlockColumns:
        """Return a block through the cache."""
        columns = self._cache.pop(number, None) or self._load(number)
        self._cache[number] = columns
        if len(self._cache) > _CACHED_BLOCKS:
            self._cache.popitem(last=False)
        return columns

    def _load(self, number: int) -> BlockColumns:
        """Read a block and compare it with the index."""
        block, location = self._blocks[number], self._location(number)
        columns = read_block(self._file(location.file), location, int(block["size"]))
        if (columns.offsets[0], columns.offsets[-1]) != (block["first"], block["last"]):
            raise location.corrupt("a block differs from the index")
        return columns

    def _location(self, number: int) -> ByteLocation:
        segment = self.segments[bisect_right(self._first_blocks, number) - 1]
        return ByteLocation(segment.file, int(self._blocks["position"][number]))

    def _file(self, file: Path) -> IO[bytes]:
        if self._open_file is None or self._open_file[0] != file:
            self.close()
            self._open_file = (file, open_segment(file))
        return self._open_file[1]

    def _check_order(self) -> None:
        for before, after in pairwise(self.segments):
            if after.index.blocks["first"][0] <= before.index.blocks["last"][-1]:
                raise ByteLocation(after.file).corrupt("a segment overlaps the previous one")


def _stacked(tables: Sequence[Table], kind: np.dtype[np.void]) -> Table:
    return np.concatenate(tables) if tables else np.zeros(0, kind)


def open_recording(path: str | Path) -> Recording:
    """Open the recording in a folder. Raise `MissingData` if there is none.

    >>> from tempfile import TemporaryDirectory
    >>> from thinwire.brokers.recording import RecordingWriter
    >>> with TemporaryDirectory() as folder:
    ...     with RecordingWriter(folder) as out:
    ...         out.append("rooms", StoredMessage(7, "rooms.p1.k", b"...", 1_700_000_000.5))
    ...     with open_recording(folder) as recording:
    ...         recording.last("rooms", "rooms.*.k")
    StoredMessage(offset=7, subject='rooms.p1.k', payload=b'...', time=1700000000.5)
    """
    return Recording(Path(path))


class Recording(LogSource):
    """Implements `LogSource` on files. Messages that are appended after the first access to a log are not visible."""

    def __init__(self, path: Path) -> None:
        check_marker(path)
        self.path = path
        self._logs: dict[str, RecordedLog] = {}
        self._buckets: dict[str, RecordedLog] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def logs(self) -> list[str]:
        return list_names(self.path, LOGS)

    def span(self, log: str) -> Span:
        """As in the protocol; `stored_bytes` are bytes on disk."""
        return self.log(log).span()

    def last(self, log: str, pattern: str, *, up_to: int | None = None) -> StoredMessage | None:
        return self.log(log).last(pattern, up_to)

    def subjects(self, log: str, pattern: str = ">") -> dict[str, int]:
        return self.log(log).subjects(pattern)

    def offset_at(self, log: str, time: float) -> int:
        return self.log(log).offset_at(time)

    def read_blocks(self, log: str, first: int, last: int, *, subjects: Sequence[str] = ()) -> Iterator[Block]:
        return self.log(log).read(first, last, subjects)

    def log(self, log: str) -> RecordedLog:
        """Return a log, which also has its times, gaps and truncated segments."""
        if log not in self._logs:
            folder = log_folder(self.path, log)
            if not folder.is_dir():
                raise UnknownLog("not recorded", log=log, path=str(self.path), recorded=self.logs())
            self._logs[log] = RecordedLog(folder)
        return self._logs[log]

    def buckets(self) -> list[str]:
        """Return the recorded buckets."""
        return list_names(self.path, BUCKETS)

    def document(self, bucket: str, key: str) -> bytes | None:
        stored = self._bucket(bucket).last(key, None)
        return None if stored is None else stored.payload

    def documents(self, bucket: str, pattern: str = ">") -> dict[str, bytes]:
        """As in the protocol: the last recorded version of each document."""
        found: dict[str, bytes] = {}
        documents = self._bucket(bucket)
        for block in documents.read(0, documents.span().last, [pattern]):
            found.update(zip(block.subjects, block.payloads, strict=True))
        return found

    def close(self) -> None:
        for part in (*self._logs.values(), *self._buckets.values()):
            part.close()

    def _bucket(self, bucket: str) -> RecordedLog:
        if bucket not in self._buckets:
            self._buckets[bucket] = RecordedLog(bucket_folder(self.path, bucket))
        return self._buckets[bucket]
