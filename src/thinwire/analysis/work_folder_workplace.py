"""The folder where an analysis does its work: what every cell must know, and the held-out events in chunks.

sorted/      all events in the order of their time (`SortedEvents`)
task.json    schema, ranges, strategies
chunk-0.arrow, tail-0.arrow, warm-0.arrow ...
             rows of the schema; the last of each source in a chunk; the last of each source before it
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from thinwire.analysis.event_columns_sources import Sources, ranked
from thinwire.analysis.strategies_strategy import Ranges, Strategy
from thinwire.analysis.strategy_choice_documents import strategy_in, strategy_out
from thinwire.analysis.work_folder import SortedEvents
from thinwire.codec.arrow_columns import arrow_type
from thinwire.schema import Schema


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
