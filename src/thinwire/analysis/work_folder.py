"""The files of an analysis: all events in the order of their time, and the held-out events divided into chunks.

    sorted/          events in Parquet files, with seconds (null without a time), file, line and the serialized event
    chunk-0.arrow    rows of a chunk
    tail-0.arrow     the last rows of each source in a chunk
    warm-0.arrow     the last rows of each source before a chunk: the warm-up of its publisher

Driver and executors reach the folder by the same path.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from thinwire.analysis.event_columns import SourceNumbers, rank_by_code
from thinwire.analysis.event_files import RecordedEvent, deserialize_event, serialize_event
from thinwire.codec.arrow_columns import arrow_type
from thinwire.errors import ConfigError
from thinwire.schema import Schema

COLUMNS = pa.schema([("seconds", pa.float64()), ("file", pa.string()), ("line", pa.int64()), ("event", pa.string())])
BATCH_ROWS = 10_000


class SortedEvents:
    """The Parquet files of a folder, in the order of their names, as one sequence of events."""

    def __init__(self, folder: Path) -> None:
        self._length = 0
        self._groups: list[tuple[int, Path, int, int]] = []
        """first row, file, number in the file and number of rows of each row group"""
        for file in sorted(folder.glob("*.parquet")):
            meta = pq.read_metadata(file)
            for group in range(meta.num_row_groups):
                count = meta.row_group(group).num_rows
                self._groups.append((self._length, file, group, count))
                self._length += count

    def __len__(self) -> int:
        return self._length

    def read(self, first: int, end: int, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows from `first` up to, not including, `end` in batches. Other row groups are not read."""
        for start, path, group, count in self._groups:
            if start < end and start + count > first:
                row = start
                with pq.ParquetFile(path) as file:
                    for batch in file.iter_batches(BATCH_ROWS, row_groups=[group], columns=columns):
                        part = batch.slice(max(0, first - row), max(0, end - max(first, row)))
                        row += batch.num_rows
                        if part.num_rows:
                            yield part

    def events(self, first: int, end: int) -> Iterator[list[RecordedEvent]]:
        """Yield the events from `first` up to, not including, `end` in lists."""
        for batch in self.read(first, end):
            rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
            yield [RecordedEvent(seconds, file, line, deserialize_event(text)) for seconds, file, line, text in rows]

    def sample(self, first: int, end: int, limit: int) -> list[dict[str, Any]]:
        """Return at most `limit` events of a range: all, or every second, third, ..."""
        step, row, found = max(1, -(-(end - first) // limit)), first, list[dict[str, Any]]()
        for batch in self.read(first, end, ["event"]):
            texts = batch.column(0).slice((first - row) % step).to_pylist()[::step]
            found += map(deserialize_event, texts)
            row += batch.num_rows
        return found

    def find_first_held_out(self, share: float, *, has_times: bool = True) -> int:
        """Return the index of the first held-out event. All events of one instant are in the same part.

        share: share of the events that form the training part
        """
        if not 0 < share < 1:
            raise ConfigError("the share of the training part is a number between 0 and 1", share=share)
        row = int(share * len(self))
        if has_times and len(self):
            batches = self.read(0, len(self), ["seconds"])
            seconds = np.concatenate([batch.column(0).to_numpy(zero_copy_only=False) for batch in batches])
            row = int(np.searchsorted(seconds, seconds[row]) or np.searchsorted(seconds, seconds[0], "right"))
        if not 0 < row < len(self):
            raise ConfigError(
                "too few instants to divide the events into a training and a held-out part: give more events",
                events=len(self),
            )
        return row


def write_sorted(folder: Path, events: list[RecordedEvent]) -> None:
    """Sort events by time, file and line, and write them for `SortedEvents`."""
    folder.mkdir(parents=True)
    events = sorted(events, key=lambda row: (row.seconds or 0.0, row.file, row.line))
    with pq.ParquetWriter(folder / "part-00000.parquet", COLUMNS) as writer:
        for first in range(0, len(events), BATCH_ROWS):
            rows = [
                {**row._asdict(), "event": serialize_event(row.event)} for row in events[first : first + BATCH_ROWS]
            ]
            writer.write_batch(pa.RecordBatch.from_pylist(rows, schema=COLUMNS))


class WorkFolder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.sorted_folder = path / "sorted"

    @property
    def events(self) -> SortedEvents:
        return SortedEvents(self.sorted_folder)

    def write(self, name: str, schema: Schema, batches: Sequence[pa.RecordBatch]) -> None:
        """Write rows under a name. The file is renamed when it is complete, because Spark may run a task twice."""
        table = pa.Table.from_batches(batches, chunk_columns(schema))
        unfinished = self.path / f"{name}.unfinished"
        with pa.ipc.new_file(str(unfinished), table.schema) as writer:
            writer.write_table(table)
        unfinished.replace(self.path / f"{name}.arrow")

    def read(self, name: str) -> list[pa.RecordBatch]:
        """Return the rows under a name, memory-mapped."""
        file = pa.ipc.open_file(pa.memory_map(str(self.path / f"{name}.arrow")))
        return [file.get_batch(number) for number in range(file.num_record_batches)]

    def write_warm_up_rows(self, schema: Schema, chunks: Iterable[int], count: int) -> None:
        """Write the last `count` rows of each source before every chunk, from the tails of the chunks before it."""
        last: list[pa.RecordBatch] = []
        for number in chunks:
            self.write(f"warm-{number}", schema, last)
            last = [last_rows([*last, *self.read(f"tail-{number}")], schema, count)]


@contextmanager
def open_work_folder(path: Path | None = None) -> Iterator[WorkFolder]:
    """Yield an empty folder, by default a temporary folder. The folder is deleted afterwards."""
    folder = Path(mkdtemp(prefix="thinwire-analyze-")) if path is None else path
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise ConfigError("the work folder must be empty: choose another folder", work=str(folder))
    try:
        yield WorkFolder(folder)
    finally:
        rmtree(folder, ignore_errors=True)


def chunk_columns(schema: Schema) -> pa.Schema:
    return pa.schema([pa.field(p.name, arrow_type(p)) for p in schema])


def last_rows(batches: Sequence[pa.RecordBatch], schema: Schema, count: int) -> pa.RecordBatch:
    """Return the last `count` rows of each source, in their order."""
    if not batches:
        return pa.RecordBatch.from_pylist([], schema=chunk_columns(schema))
    rows = pa.concat_batches(batches)
    codes = SourceNumbers([p.name for p in schema.dimensions]).codes(rows)
    later, _, _ = rank_by_code(codes[::-1])
    return rows.take(pa.array(np.flatnonzero(later[::-1] < count)))
