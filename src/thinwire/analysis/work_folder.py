"""Events in the order of their time, in Parquet files one after the other: a row an event, with where it stood.

Columns: `seconds` (null where events do not tell their time), `file`, `line`, and `event`, which `lines.kept` makes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from thinwire.analysis.event_columns import Floats
from thinwire.analysis.event_files import again, kept
from thinwire.errors import ConfigError

COLUMNS = pa.schema([("seconds", pa.float64()), ("file", pa.string()), ("line", pa.int64()), ("event", pa.string())])
BATCH = 10_000


class Stood(NamedTuple):
    """An event, when it happened, and where it stood."""

    seconds: float | None
    file: str
    line: int
    event: dict[str, Any]


class SortedEvents:
    """The files of a folder, in the order of their names."""

    def __init__(self, folder: Path) -> None:
        self._files = sorted(folder.glob("*.parquet"))
        counts = [pq.read_metadata(file).num_rows for file in self._files]
        self._starts: list[int] = [0, *accumulate(counts)]

    def __len__(self) -> int:
        return self._starts[-1]

    def read(self, first: int, last: int, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of a range, some at a time."""
        at = max(0, bisect_right(self._starts, first) - 1)
        for start, path in zip(self._starts[at:], self._files[at:], strict=False):
            if start >= last:
                return
            with pq.ParquetFile(path) as file:
                yield from _within(file, columns, first - start, last - start)

    def events(self, first: int, last: int) -> Iterator[list[Stood]]:
        """The same, as events."""
        for batch in self.read(first, last):
            rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
            yield [Stood(seconds, file, line, again(text)) for seconds, file, line, text in rows]

    def sample(self, first: int, last: int, limit: int) -> list[dict[str, Any]]:
        """At most so many events of a range: all, or every second, third, ..."""
        step, at, found = max(1, -(-(last - first) // limit)), first, list[dict[str, Any]]()
        for batch in self.read(first, last, ["event"]):
            texts = batch.column(0).slice((first - at) % step).to_pylist()[::step]
            found += map(again, texts)
            at += batch.num_rows
        return found

    def cut(self, share: float, *, timed: bool = True) -> int:
        """The first row that is held out: so that no instant is on both sides."""
        if not 0 < share < 1:
            raise ConfigError("the share of the training part is a number between 0 and 1", share=share)
        row = int(share * len(self))
        if timed and len(self):
            at, start = self._seconds(row), self._seconds(0)
            row = self._position(at, "left") if at > start else self._position(start, "right")
        if not 0 < row < len(self):
            raise ConfigError("too few instants to hold any out: give more events", events=len(self))
        return row

    def _seconds(self, row: int) -> float:
        [batch] = self.read(row, row + 1, ["seconds"])
        return float(batch.column(0)[0].as_py())

    def _position(self, seconds: float, side: Any) -> int:
        """How many rows are before this instant (left), or before and at it (right)."""
        batches = self.read(0, len(self), ["seconds"])
        return sum(int(np.searchsorted(_floats(batch), seconds, side=side)) for batch in batches)


def write_sorted(folder: Path, rows: list[Stood]) -> None:
    """Put events in order, by time, file and line, and write them."""
    folder.mkdir(parents=True)
    rows = sorted(rows, key=lambda row: (row.seconds or 0.0, row.file, row.line))
    with pq.ParquetWriter(folder / "part-00000.parquet", COLUMNS) as writer:
        for at in range(0, len(rows), BATCH):
            some = [{**row._asdict(), "event": kept(row.event)} for row in rows[at : at + BATCH]]
            writer.write_batch(pa.RecordBatch.from_pylist(some, schema=COLUMNS))


def _within(file: pq.ParquetFile, columns: Sequence[str] | None, first: int, last: int) -> Iterator[pa.RecordBatch]:
    """The rows of a range of one file; groups of rows that lie outside are not read."""
    start = 0
    for group in range(file.num_row_groups):
        count = file.metadata.row_group(group).num_rows
        if start < last and start + count > first:
            at = start
            for batch in file.iter_batches(BATCH, row_groups=[group], columns=columns):
                some = batch.slice(max(0, first - at), max(0, last - max(first, at)))
                at += batch.num_rows
                if some.num_rows:
                    yield some
        start += count


def _floats(batch: pa.RecordBatch) -> Floats:
    return np.asarray(batch.column(0).to_numpy(zero_copy_only=False), dtype=np.float64)
