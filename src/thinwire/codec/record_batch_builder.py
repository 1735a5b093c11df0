"""A page of a table: rows as they come, until there are enough of them for a record batch.

Most rows are records that a kernel left. Events that came the long way have rows of their own in between; their values
are looked up in the events when the page is turned.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from thinwire.codec.arrow_columns import INSTANT, TEXT_KINDS, arrow_schema, arrow_type, column_of
from thinwire.codec.expander import Expander
from thinwire.codec.interned_values import MetadataCodes, Texts, codes_of, value_text
from thinwire.schema import Event, Kind, Property, Schema
from thinwire.schema.event import About

ROOM = 1 << 23
"""bytes of records in a page, at most"""

MAX_ROWS = 1 << 16
MAX_EVENTS = 1 << 12
"""events that came the long way in a page, at most; far fewer where each may be large"""

_LARGE_EVENTS = 1 << 7
_LARGE = frozenset({Kind.ARRAY, Kind.OPAQUE})
MAX_LETTERS = 1 << 28
"""letters in a batch, at most"""

_PLACE, _ORDINAL, _IRREGULAR, RECORD = range(4)

Ints = npt.NDArray[np.int64]


class Unfit(NamedTuple):
    """A value that its column cannot hold, such as a fraction among counts: it is null there, and told here."""

    offset: int
    row: int
    property: str
    value: Any


class Page:
    """Rows of one replica, and events of any.

    schema: whose columns the table has; expander: whose records the rows are
    columns: the only ones that are made, if not all
    """

    def __init__(self, schema: Schema, expander: Expander | None, columns: Collection[str] | None = None) -> None:
        self.schema = schema
        self._arrow = arrow_schema(schema, columns)
        self.expander = expander
        rules = expander.rules.rules if expander is not None else ()
        self._wire = {rule.property.name: (index, rule.property) for index, rule in enumerate(rules)}
        self.room = max(1, min(MAX_ROWS, ROOM // (8 * (RECORD + len(rules)))))
        self.records: Ints = np.zeros((self.room, RECORD + len(rules)), dtype=np.int64)
        large = any(p.kind in _LARGE for p in schema)
        self._max_events = min(_LARGE_EVENTS if large else MAX_EVENTS, self.room)
        self._texts = [p for p in schema.wire if p.kind in TEXT_KINDS]
        self._message: Ints = np.zeros(self.room, dtype=np.int64)
        self._metadata_codes_of = np.zeros(self.room, dtype=np.int32)
        self._texts_of = {p.name: np.zeros(self.room, dtype=np.int32) for p in self._texts}
        self._begin()

    def _begin(self) -> None:
        self.count = 0
        self._events: list[Event] = []
        self._rows: list[int] = []
        self._metadata_codes = MetadataCodes()
        self._tables = {p.name: Texts() for p in self._texts}

    @property
    def full(self) -> bool:
        """Is it time to turn it?"""
        return self.count >= self.room or len(self._events) >= self._max_events

    def add_records(self, message: Ints) -> None:
        """Records were left at the end of the page; `message` is the number of each one's message."""
        assert self.expander is not None
        first, last = self.count, self.count + len(message)
        places = self.records[first:last, _PLACE]
        self._message[first:last] = message
        self._metadata_codes_of[first:last] = codes_of(places, self.expander.metadata_codes, self._metadata_codes.code)
        rows = places >> 1
        for p in self._texts:
            texts = self.expander.columns.objects[self._wire[p.name][0]] if p.name in self._wire else []
            codes = codes_of(rows, texts, self._tables[p.name].code) if texts else self._tables[p.name].code(None)
            self._texts_of[p.name][first:last] = codes
        self.count = last

    def add_silent(self, count: int, message: int, about: About | None, texts: list[Any]) -> None:
        """The same for records of one source's silence, which share these."""
        first, last = self.count, self.count + count
        self._message[first:last] = message
        self._metadata_codes_of[first:last] = self._metadata_codes.code(about)
        for p in self._texts:
            text = texts[self._wire[p.name][0]] if p.name in self._wire else None
            self._texts_of[p.name][first:last] = self._tables[p.name].code(text)
        self.count = last

    def add_event(self, event: Event, message: int) -> None:
        """An event that came the long way."""
        row = self.count
        self.records[row] = 0
        self.records[row, _ORDINAL] = event.ordinal
        self._message[row] = message
        self._metadata_codes_of[row] = self._metadata_codes.code(event._about)
        for p in self._texts:
            self._texts_of[p.name][row] = self._tables[p.name].code(value_at(event, p.name))
        self._events.append(event)
        self._rows.append(row)
        self.count += 1

    def turn(self, offsets: Ints, times: Ints) -> Iterator[tuple[pa.RecordBatch, list[Unfit]]]:
        """The rows as batches, nearly always one; the page is empty then.

        offsets, times: of each message; times in microseconds
        """
        odd: list[tuple[int, str, Any]] = []
        properties = {p.name: p for p in self.schema}
        makers = [
            self._maker(properties[name], odd) if name in properties else self._about_maker(name, offsets, times)
            for name in self._arrow.names
        ]
        for rows in self._parts():
            batch = pa.RecordBatch.from_arrays([make(rows) for make in makers], schema=self._arrow)
            inside = [one for one in odd if rows.start <= one[0] < rows.stop]
            yield batch, [Unfit(int(offsets[self._message[row]]), row - rows.start, *what) for row, *what in inside]
        self._begin()

    def _about_maker(self, name: str, offsets: Ints, times: Ints) -> Callable[[slice], pa.Array]:
        """A column of what is known about events, for any part of the rows."""
        message, codes = self._message[: self.count], self._metadata_codes_of[: self.count]
        match name:
            case "_source":
                return lambda rows: self._metadata_codes.sources(codes[rows])
            case "_ordinal":
                return _sliced(pa.array(self.records[: self.count, _ORDINAL].copy()))
            case "_offset":
                return _sliced(pa.array(offsets[message]))
            case "_time":
                return _sliced(pa.array(times[message]).cast(INSTANT))
            case "_virtual":
                return _sliced(self._metadata_codes.virtual(codes))
        return _sliced(self._metadata_codes.bounds(self.schema, codes))

    def _parts(self) -> list[slice]:
        """The rows in as few parts as their texts allow."""
        longest = self._metadata_codes.longest + sum(table.longest for table in self._tables.values())
        if self.count * longest <= MAX_LETTERS:
            return [slice(0, self.count)]
        sizes = self._metadata_codes.sizes(self._metadata_codes_of[: self.count])
        for name, table in self._tables.items():
            sizes = sizes + table.sizes(self._texts_of[name][: self.count])
        bounds = np.flatnonzero(np.diff(np.cumsum(sizes) // MAX_LETTERS)) + 1
        ends = [0, *bounds.tolist(), self.count]
        return [slice(first, last) for first, last in pairwise(ends)]

    def _maker(self, p: Property, odd: list[tuple[int, str, Any]]) -> Callable[[slice], pa.Array]:
        """A property's column, for any part of the rows; texts, which may be long, are written when asked for."""
        if p in self.schema.dimensions:
            codes, place = self._metadata_codes_of[: self.count], self.schema.dimensions.index(p)
            odd += ((row, p.name, value) for row, value in self._metadata_codes.unfit(p, place, codes))
            return lambda rows: self._metadata_codes.dimension(p, place, codes[rows])
        if p.kind in TEXT_KINDS:
            table, texts_of = self._tables[p.name], self._texts_of[p.name]
            return lambda rows: table.column(texts_of[rows])
        column, unfit = self._mixed(p)
        odd += ((row, p.name, value) for row, value in unfit.items())
        return _sliced(column)

    def _mixed(self, p: Property) -> tuple[pa.Array, dict[int, Any]]:
        """A column of records and events."""
        if len(self._rows) == self.count:
            column, odd = _listed(p, self._events)
            return column, {self._rows[number]: value for number, value in odd.items()}
        column, unfit = self._recorded(p)
        if self._rows:
            listed, odd = _listed(p, self._events)
            order = np.arange(self.count)
            order[self._rows] = self.count + np.arange(len(self._rows))
            column = pa.concat_arrays([column, listed]).take(pa.array(order))
            unfit |= {self._rows[number]: value for number, value in odd.items()}
        return column, unfit

    def _recorded(self, p: Property) -> tuple[pa.Array, dict[int, Any]]:
        index, told = self._wire.get(p.name, (0, None))
        if told is None or arrow_type(told) != arrow_type(p):
            return pa.nulls(self.count, arrow_type(p)), {}
        cells = np.ascontiguousarray(self.records[: self.count, RECORD + index])
        return column_of(told, cells, self.records[: self.count, _IRREGULAR] != 0)


def value_at(event: Event, path: str) -> Any:
    """The value at a path of an event; None where there is none."""
    value: Any = event
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _listed(p: Property, events: list[Event]) -> tuple[pa.Array, dict[int, Any]]:
    """A property's column out of events, and by number the values that it cannot hold."""
    values = [value_at(event, p.name) for event in events]
    if p.kind is Kind.OPAQUE:
        values = [None if value is None else value_text(value) for value in values]
    kind = arrow_type(p)
    try:
        if kind != pa.int64() or not any(isinstance(value, float) for value in values):
            return pa.array(values, type=kind), {}
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        pass
    odd = {number: value for number, value in enumerate(values) if not _fits(value, kind)}
    return pa.array([None if number in odd else value for number, value in enumerate(values)], type=kind), odd


def _fits(value: Any, kind: pa.DataType) -> bool:
    """Can a column hold the value as it is? Arrow itself would cut a fraction off to make it fit."""
    if kind == pa.int64() and isinstance(value, float) and not value.is_integer():
        return False
    try:
        pa.scalar(value, type=kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return False
    return True


def _sliced(column: pa.Array) -> Callable[[slice], pa.Array]:
    return lambda rows: column[rows]
