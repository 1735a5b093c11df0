"""Building of record batches from kernel records and single events.

Most rows are records of a kernel. Events of the stream decoder have rows in between; their values are read from the
events when the batch is built.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from thinwire.codec.arrow_columns import INSTANT, TEXT_KINDS, Ints, arrow_schema, arrow_type, column_of
from thinwire.codec.expander import Expander
from thinwire.codec.interned_values import InternedTexts, MetadataCodes, codes_of, value_text
from thinwire.schema import Event, Kind, Property, Schema
from thinwire.schema.event import About

MAX_RECORD_BYTES = 1 << 23
"""maximum bytes of the records of a batch"""

MAX_ROWS = 1 << 16
MAX_EVENTS = 1 << 12
"""maximum number of single events in a batch; fewer if each may be large"""

_LARGE_EVENTS = 1 << 7
_LARGE = frozenset({Kind.ARRAY, Kind.OPAQUE})
MAX_CHARACTERS = 1 << 28
"""maximum number of characters in a batch"""

_UNFIT_ERRORS = (pa.ArrowException, TypeError, ValueError, OverflowError)
_METADATA_INDEX, _ORDINAL, _IRREGULAR, RECORD = range(4)


class UnfitValue(NamedTuple):
    """A value that does not fit the type of its column, such as a fraction in an integer column. The row has null."""

    offset: int
    row: int
    property: str
    value: Any


class RecordBatchBuilder:
    """Rows of one decoder state and events of any, until they are flushed as record batches.

    schema: the columns of the table; expander: the source of the records
    columns: the requested columns, or None for all
    """

    def __init__(self, schema: Schema, expander: Expander | None, columns: Collection[str] | None = None) -> None:
        self.schema = schema
        self._arrow = arrow_schema(schema, columns)
        self.expander = expander
        rules = expander.rules.rules if expander is not None else ()
        self._wire = {rule.property.name: (index, rule.property) for index, rule in enumerate(rules)}
        self.capacity = max(1, min(MAX_ROWS, MAX_RECORD_BYTES // (8 * (RECORD + len(rules)))))
        self.records: Ints = np.zeros((self.capacity, RECORD + len(rules)), dtype=np.int64)
        large = any(p.kind in _LARGE for p in schema)
        self._max_events = min(_LARGE_EVENTS if large else MAX_EVENTS, self.capacity)
        self._texts = [p for p in schema.wire if p.kind in TEXT_KINDS]
        self._message: Ints = np.zeros(self.capacity, dtype=np.int64)
        self._metadata_of = np.zeros(self.capacity, dtype=np.int32)
        self._texts_of = {p.name: np.zeros(self.capacity, dtype=np.int32) for p in self._texts}
        self._clear()

    def _clear(self) -> None:
        self.count = 0
        self._events: list[Event] = []
        self._rows: list[int] = []
        self._metadata = MetadataCodes()
        self._tables = {p.name: InternedTexts() for p in self._texts}

    @property
    def is_full(self) -> bool:
        """Whether the builder must be flushed."""
        return self.count >= self.capacity or len(self._events) >= self._max_events

    def add_records(self, message: Ints) -> None:
        """Add the records that a kernel wrote; `message` has the message number of each."""
        assert self.expander is not None
        first, last = self.count, self.count + len(message)
        indexes = self.records[first:last, _METADATA_INDEX]
        self._message[first:last] = message
        self._metadata_of[first:last] = codes_of(indexes, self.expander.event_metadata, self._metadata.code)
        rows = indexes >> 1
        for p in self._texts:
            texts = self.expander.table.objects[self._wire[p.name][0]] if p.name in self._wire else []
            codes = codes_of(rows, texts, self._tables[p.name].code) if texts else self._tables[p.name].code(None)
            self._texts_of[p.name][first:last] = codes
        self.count = last

    def add_suppressed(self, count: int, message: int, metadata: About | None, texts: list[Any]) -> None:
        """Add the records of suppressed events of one source, which share metadata and texts."""
        first, last = self.count, self.count + count
        self._message[first:last] = message
        self._metadata_of[first:last] = self._metadata.code(metadata)
        for p in self._texts:
            text = texts[self._wire[p.name][0]] if p.name in self._wire else None
            self._texts_of[p.name][first:last] = self._tables[p.name].code(text)
        self.count = last

    def add_event(self, event: Event, message: int) -> None:
        """Add an event of the stream decoder."""
        row = self.count
        self.records[row] = 0
        self.records[row, _ORDINAL] = event.ordinal
        self._message[row] = message
        self._metadata_of[row] = self._metadata.code(event._about)
        for p in self._texts:
            self._texts_of[p.name][row] = self._tables[p.name].code(value_at(event, p.name))
        self._events.append(event)
        self._rows.append(row)
        self.count += 1

    def flush(self, offsets: Ints, times: Ints) -> Iterator[tuple[pa.RecordBatch, list[UnfitValue]]]:
        """Return the rows as batches, usually one, and clear the builder.

        offsets, times: of each message; times in microseconds
        """
        unfit: list[tuple[int, str, Any]] = []
        properties = {p.name: p for p in self.schema}
        columns = [
            self._column(properties[name], unfit) if name in properties else self._metadata_column(name, offsets, times)
            for name in self._arrow.names
        ]
        for rows in self._parts():
            batch = pa.RecordBatch.from_arrays([column(rows) for column in columns], schema=self._arrow)
            values = [
                UnfitValue(int(offsets[self._message[row]]), row - rows.start, name, value)
                for row, name, value in unfit
                if rows.start <= row < rows.stop
            ]
            yield batch, values
        self._clear()

    def _metadata_column(self, name: str, offsets: Ints, times: Ints) -> Callable[[slice], pa.Array]:
        """Return a function from a range of rows to a metadata column."""
        message, codes = self._message[: self.count], self._metadata_of[: self.count]
        match name:
            case "_source":
                return lambda rows: self._metadata.sources(codes[rows])
            case "_ordinal":
                return _sliced(pa.array(self.records[: self.count, _ORDINAL].copy()))
            case "_offset":
                return _sliced(pa.array(offsets[message]))
            case "_time":
                return _sliced(pa.array(times[message]).cast(INSTANT))
            case "_virtual":
                return _sliced(self._metadata.virtual(codes))
        return _sliced(self._metadata.bounds(self.schema, codes))

    def _parts(self) -> list[slice]:
        """Return the rows in as few parts as the size of their texts allows."""
        texts = [(self._metadata.sizes(), self._metadata_of)]
        texts += ((table.sizes(), self._texts_of[name]) for name, table in self._tables.items())
        if self.count * sum(sizes.max(initial=0) for sizes, _ in texts) <= MAX_CHARACTERS:
            return [slice(0, self.count)]
        row_sizes = sum(sizes[codes[: self.count]] for sizes, codes in texts)
        bounds = np.flatnonzero(np.diff(np.cumsum(row_sizes) // MAX_CHARACTERS)) + 1
        ends = [0, *bounds.tolist(), self.count]
        return [slice(first, last) for first, last in pairwise(ends)]

    def _column(self, p: Property, unfit: list[tuple[int, str, Any]]) -> Callable[[slice], pa.Array]:
        """Return a function from a range of rows to the column of a property. Texts may be long and are written on
        demand."""
        if p in self.schema.dimensions:
            codes, position = self._metadata_of[: self.count], self.schema.dimensions.index(p)
            unfit += ((row, p.name, value) for row, value in self._metadata.unfit(p, position, codes))
            return lambda rows: self._metadata.dimension(p, position, codes[rows])
        if p.kind in TEXT_KINDS:
            table, texts_of = self._tables[p.name], self._texts_of[p.name]
            return lambda rows: table.column(texts_of[rows])
        column, values = self._mixed_column(p)
        unfit += ((row, p.name, value) for row, value in values.items())
        return _sliced(column)

    def _mixed_column(self, p: Property) -> tuple[pa.Array, dict[int, Any]]:
        """Return the column of a property from records and events, and the values that do not fit."""
        column, unfit = self._record_column(p)
        if self._rows:
            listed, event_unfit = _event_column(p, self._events)
            order = np.arange(self.count)
            order[self._rows] = self.count + np.arange(len(self._rows))
            column = pa.concat_arrays([column, listed]).take(pa.array(order))
            unfit |= {self._rows[number]: value for number, value in event_unfit.items()}
        return column, unfit

    def _record_column(self, p: Property) -> tuple[pa.Array, dict[int, Any]]:
        index, sent = self._wire.get(p.name, (0, None))
        if sent is None or arrow_type(sent) != arrow_type(p):
            return pa.nulls(self.count, arrow_type(p)), {}
        cells = np.ascontiguousarray(self.records[: self.count, RECORD + index])
        return column_of(sent, cells, self.records[: self.count, _IRREGULAR] != 0)


def value_at(event: Event, path: str) -> Any:
    """Return the value at a path of an event, or None."""
    value: Any = event
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _event_column(p: Property, events: list[Event]) -> tuple[pa.Array, dict[int, Any]]:
    """Return the column of a property from events, and by index the values that do not fit."""
    values = [value_at(event, p.name) for event in events]
    if p.kind is Kind.OPAQUE:
        values = [None if value is None else value_text(value) for value in values]
    kind = arrow_type(p)
    with suppress(*_UNFIT_ERRORS):
        if kind != pa.int64() or not any(isinstance(value, float) for value in values):
            return pa.array(values, type=kind), {}
    unfit = {number: value for number, value in enumerate(values) if not _fits(value, kind)}
    return pa.array([None if number in unfit else value for number, value in enumerate(values)], type=kind), unfit


def _fits(value: Any, kind: pa.DataType) -> bool:
    """Check whether a column can represent a value. Arrow would truncate a fraction."""
    if kind == pa.int64() and isinstance(value, float) and not value.is_integer():
        return False
    try:
        pa.scalar(value, type=kind)
    except _UNFIT_ERRORS:
        return False
    return True


def _sliced(column: pa.Array) -> Callable[[slice], pa.Array]:
    return lambda rows: column[rows]
