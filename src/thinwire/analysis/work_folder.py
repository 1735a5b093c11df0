"""Events in the order of their time, in Parquet files one after the other: a row an event, with where it stood.

Columns: `seconds` (null where events do not tell their time), `file`, `line`, and `event`, which `lines.kept` makes.

The folder where an analysis does its work: what every cell must know, and the held-out events in chunks.

sorted/      all events in the order of their time (`SortedEvents`)
task.json    schema, ranges, strategies
chunk-0.arrow, tail-0.arrow, warm-0.arrow ...
             rows of the schema; the last of each source in a chunk; the last of each source before it
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from thinwire.analysis.event_columns import Floats, Sources, ranked
from thinwire.analysis.event_files import again, kept
from thinwire.analysis.strategies import Ranges, Strategy
from thinwire.analysis.strategy_choice import strategy_in, strategy_out
from thinwire.codec.arrow_columns import arrow_type
from thinwire.errors import ConfigError
from thinwire.schema import Schema

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


@dataclass(frozen=True)
class Chunk:
    """A piece of the held-out part: its rows among all that are sorted, and how many of them fit the schema."""

    number: int
    first: int
    last: int
    rows: int = 0


@dataclass(frozen=True)
class Task:
    """What every cell must know.

    begin: when the held-out part begins; None where events do not tell their time
    warm: events of each source that a publisher is warmed up with
    """

    schema: Schema
    strategies: Sequence[Strategy]
    chunks: Sequence[Chunk]
    rate: float | None = None
    warm: int = 20
    begin: float | None = None
    ranges: Ranges = field(default_factory=dict)


class Workplace:
    """One such folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def sorted_folder(self) -> Path:
        return self.path / "sorted"

    @property
    def events(self) -> SortedEvents:
        """All events."""
        return SortedEvents(self.sorted_folder)

    def save(self, task: Task) -> None:
        """Keep the task, whole or not at all."""
        document = {
            **vars(task),
            "schema": task.schema.to_document(),
            "strategies": [strategy_out(one) for one in task.strategies],
            "chunks": [vars(chunk) for chunk in task.chunks],
        }
        unfinished = self.path / "task.json.unfinished"
        unfinished.write_text(json.dumps(document))
        unfinished.replace(self.path / "task.json")

    def load(self) -> Task:
        """The task."""
        document: dict[str, Any] = json.loads((self.path / "task.json").read_text())
        found = {
            "schema": Schema.from_document(document["schema"]),
            "strategies": [strategy_in(one) for one in document["strategies"]],
            "chunks": [Chunk(**one) for one in document["chunks"]],
            "ranges": {name: (low, high) for name, (low, high) in document["ranges"].items()},
        }
        return Task(**{**document, **found})

    def write(self, name: str, schema: Schema, batches: Iterable[pa.RecordBatch]) -> None:
        """Rows under a name, whole or not at all: a task that is run twice harms nothing."""
        path = self.path / f"{name}.arrow"
        unfinished = path.with_suffix(".unfinished")
        with pa.OSFile(str(unfinished), "wb") as sink, pa.ipc.new_file(sink, columns_of(schema)) as writer:
            for batch in batches:
                writer.write_batch(batch)
        unfinished.replace(path)

    def read(self, name: str) -> Iterator[pa.RecordBatch]:
        """The rows under a name; they stay in the file until they are used."""
        with pa.memory_map(str(self.path / f"{name}.arrow")) as source:
            reader = pa.ipc.open_file(source)
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number)

    def warm_up(self, task: Task) -> None:
        """For every chunk the last events of each source before it, out of the tails of those before."""
        last: pa.RecordBatch | None = None
        for chunk in task.chunks:
            self.write(f"warm-{chunk.number}", task.schema, [last] if last is not None else [])
            parts = [*([last] if last is not None else []), *self.read(f"tail-{chunk.number}")]
            last = tail(parts, task.schema, task.warm)


def columns_of(schema: Schema) -> pa.Schema:
    """The columns of a chunk."""
    return pa.schema([pa.field(p.name, arrow_type(p)) for p in schema])


def tail(batches: Sequence[pa.RecordBatch], schema: Schema, count: int) -> pa.RecordBatch:
    """The last so many rows of each source, in their order."""
    if not batches:
        return pa.RecordBatch.from_pylist([], schema=columns_of(schema))
    rows = pa.concat_batches(batches)
    codes = Sources([p.name for p in schema.dimensions]).codes(rows)
    later, _, _ = ranked(codes[::-1])
    return rows.take(pa.array(np.flatnonzero(later[::-1] < count)))
