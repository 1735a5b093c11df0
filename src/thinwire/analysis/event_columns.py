"""Conversion of events to Arrow columns and back, and the sources and times of the rows.

A batch has one column per property, with the property's dotted name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from thinwire.codec.arrow_columns import arrow_type
from thinwire.codec.arrow_rows import ArrowRows
from thinwire.codec.kernels.rule_table import is_integral
from thinwire.errors import ConfigError, EventRejected
from thinwire.schema import Kind, Property, Schema
from thinwire.schema.event import flatten, nest
from thinwire.schema.timestamps import ticks_per_second, to_ticks

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_CONVERSION_ERRORS = (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError, OverflowError)


class ConvertedEvents(NamedTuple):
    """A batch, and the index and reason of every event that does not fit the schema."""

    batch: pa.RecordBatch
    rejected: list[tuple[int, str]]


def to_batch(events: Sequence[Mapping[str, Any]], schema: Schema) -> ConvertedEvents:
    """Convert events to a batch without the events that do not fit the schema.

    >>> rooms = Schema("rooms", [Property("room", "string", "dimension"), Property("air.heat", "number", step="0.1")])
    >>> found = to_batch([{"room": "a", "air": {"heat": 20.5}}, {"room": "a", "air": {"heat": "warm"}}], rooms)
    >>> found.batch.to_pydict(), found.rejected[0][0]
    ({'room': ['a'], 'air.heat': [20.5]}, 1)
    """
    rows: list[tuple[int, dict[str, Any]]] = []
    rejected: list[tuple[int, str]] = []
    for index, event in enumerate(events):
        try:
            rows.append((index, flatten(event, schema)))
        except EventRejected as problem:
            rejected.append((index, str(problem)))
    try:
        return ConvertedEvents(_rows_to_batch([row for _, row in rows], schema), rejected)
    except _CONVERSION_ERRORS:
        return _convert_one_by_one(rows, rejected, schema)


def to_events(batch: pa.RecordBatch, schema: Schema) -> list[dict[str, Any]]:
    """Convert rows to events. Nested events have no null values, like the JSON of such an event."""
    names = [p.name for p in schema if p.name in batch.schema.names]
    opaque = [p.name for p in schema if p.kind is Kind.OPAQUE]
    rows: list[dict[str, Any]] = batch.select(names).to_pylist()
    for row in rows:
        for name in opaque:
            if row.get(name) is not None:
                row[name] = json.loads(row[name])
    if not schema.nested:
        return rows
    return [nest({name: value for name, value in row.items() if value is not None}) for row in rows]


def _rows_to_batch(rows: Sequence[Mapping[str, Any]], schema: Schema) -> pa.RecordBatch:
    arrays = [pa.array([_column_value(p, row.get(p.name)) for row in rows], type=arrow_type(p)) for p in schema]
    return pa.RecordBatch.from_arrays(arrays, names=[p.name for p in schema])


def _convert_one_by_one(
    rows: Sequence[tuple[int, dict[str, Any]]], rejected: list[tuple[int, str]], schema: Schema
) -> ConvertedEvents:
    fitting: list[dict[str, Any]] = []
    for index, row in rows:
        try:
            _rows_to_batch([row], schema)
        except _CONVERSION_ERRORS as problem:
            rejected.append((index, f"a value does not fit its column: {problem}"))
        else:
            fitting.append(row)
    return ConvertedEvents(_rows_to_batch(fitting, schema), sorted(rejected))


def _column_value(p: Property, value: Any) -> Any:
    return json.dumps(value) if p.kind is Kind.OPAQUE and value is not None else value


class SourceNumbers:
    """Numbers sources in the order of their first event, and events within their source (ordinals).

    >>> rooms = SourceNumbers(["room"])
    >>> codes = rooms.codes(pa.RecordBatch.from_pydict({"room": ["a", "b", "a"]}))
    >>> codes.tolist(), rooms.ordinals(codes).tolist(), rooms.ordinals(codes).tolist()
    ([0, 1, 0], [1, 1, 2], [3, 2, 4])
    """

    def __init__(self, dimensions: Sequence[str]) -> None:
        self.dimensions = list(dimensions)
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._last: Ints = np.zeros(16, dtype=np.int64)

    def codes(self, batch: pa.RecordBatch) -> Ints:
        """Return the number of every row's source."""
        combined: Ints = np.zeros(batch.num_rows, dtype=np.int64)
        columns = [pc.dictionary_encode(batch.column(name), null_encoding="encode") for name in self.dimensions]
        for column in columns:
            combined = combined * len(column.dictionary) + column.indices.to_numpy(zero_copy_only=False)
            # Renumbering prevents an overflow with many dimensions.
            combined = np.unique(combined, return_inverse=True)[1].astype(np.int64)
        _, first, inverse = np.unique(combined, return_index=True, return_inverse=True)
        values = [column.take(pa.array(first)).to_pylist() for column in columns]
        sources = list(zip(*values, strict=True)) if values else [()] * len(first)
        numbers = [self._numbers.setdefault(source, len(self._numbers)) for source in sources]
        return np.array(numbers, dtype=np.int64)[inverse]

    def ordinals(self, codes: Ints) -> Ints:
        """Return the ordinal of every row within its source, and count the rows."""
        missing = len(self._numbers) - len(self._last)
        if missing > 0:
            self._last = np.concatenate([self._last, np.zeros(missing + len(self._last), dtype=np.int64)])
        ranks, numbers, counts = rank_by_code(codes)
        found: Ints = self._last[codes] + ranks + 1
        self._last[numbers] += counts
        return found


def rank_by_code(codes: Ints) -> tuple[Ints, Ints, Ints]:
    """Return how many equal codes precede each row, the distinct codes, and their counts.

    >>> [part.tolist() for part in rank_by_code(np.array([7, 3, 7, 7]))]
    [[0, 0, 1, 2], [3, 7], [1, 3]]
    """
    order = np.argsort(codes, kind="stable")
    numbers, first, counts = np.unique(codes[order], return_index=True, return_counts=True)
    ranks: Ints = np.empty(len(codes), dtype=np.int64)
    ranks[order] = np.arange(len(codes)) - np.repeat(first, counts)
    return ranks, numbers, counts


TIME_UNITS = (1, 10**3, 10**6, 10**9)
"""units per second of a time that is a count since 1970; the size of the count decides between them"""
YEAR_2100 = 4_102_444_800


class EventClock:
    """Reads the times of consecutive batches in seconds, which never decrease.

    An event with an earlier time than the event before it has the time of that event, at which it was published.

    rate: events per second, for events without a time
    earlier_events: number of events of the stream before the first batch

    >>> stamp = Property("time", "timestamp", "header", form="iso:T0Z")
    >>> clock = EventClock(Schema("rooms", [stamp]))
    >>> clock.read(pa.RecordBatch.from_pydict({"time": ["1970-01-01T00:01:00Z", "1970-01-01T00:00:59Z"]})).tolist()
    [60.0, 60.0]
    """

    def __init__(self, schema: Schema, rate: float | None = None, earlier_events: int = 0) -> None:
        if schema.time is None and not rate:
            raise ConfigError(
                "the events have no time: name its property (--time), or the events per second (--rate)",
                schema=schema.name,
            )
        self.property = schema.time
        self._rate = rate
        self._time_schema = schema.select([schema.time.name]) if schema.time is not None else schema
        self._unit = 0.0  # until the first batch is read
        self._now = -np.inf
        self._count = earlier_events

    def read(self, batch: pa.RecordBatch) -> Floats:
        """Return the time of each event, at least that of the previous event."""
        seconds = self.event_times(batch)
        if not batch.num_rows:
            return seconds
        seconds = np.maximum.accumulate(np.maximum(seconds, self._now))
        self._now = float(seconds[-1])
        return seconds

    def event_times(self, batch: pa.RecordBatch) -> Floats:
        """Return the time that each event contains; minus infinity for an event whose time cannot be read."""
        if self.property is None or self._rate:
            seconds = (self._count + np.arange(batch.num_rows)) / float(self._rate or 1)
        else:
            seconds = self._read_seconds(batch.select([self.property.name]), self.property)
        self._count += batch.num_rows
        return seconds

    def _read_seconds(self, batch: pa.RecordBatch, stamp: Property) -> Floats:
        rows = ArrowRows(batch, self._time_schema)
        ticks = rows.cells[0].astype(np.float64) if is_integral(stamp) else rows.cells.view(np.float64)[0].copy()
        for row in np.flatnonzero(rows.irregular).tolist():
            ticks[row] = _irregular_ticks(batch.column(0)[row].as_py(), stamp)
        return np.asarray(ticks / self._ticks_per_second(stamp, ticks), dtype=np.float64)

    def _ticks_per_second(self, stamp: Property, ticks: Floats) -> float:
        """Return the ticks per second. Those of a count since 1970 follow from the largest value of the first batch."""
        if not self._unit:
            largest = float(np.max(ticks, initial=0.0))
            plausible = (unit for unit in TIME_UNITS if largest / unit < YEAR_2100)
            self._unit = float(ticks_per_second(stamp.form) or next(plausible, TIME_UNITS[-1]))
        return self._unit


def _irregular_ticks(value: object, stamp: Property) -> float:
    """Return the ticks of a time that `ArrowRows` cannot read; minus infinity for a value that is not a time."""
    if stamp.form in (None, "epoch"):
        return float(value) if isinstance(value, int | float) else -np.inf
    ticks = to_ticks(value, stamp.form or "")
    return -np.inf if ticks is None else float(ticks)
