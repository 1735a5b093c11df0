"""Columns of a table of events: which Arrow type each property has, and how records become columns.

A column holds the value that the event itself holds. Numbers with a step are doubles, whole or not, since a value off
the grid may come at any time; timestamps are what the event carries: instants (`datetime`), text (`iso`) or counts
(`epoch`).

Written timestamps in columns: ticks to text, all rows at once, letter for letter what `events.timestamps` writes.

All texts of a form have the same length, so that a column is a matrix of letters: day, clock and fraction are looked up
in small tables.

Arrow batches as kernels take them: one line a property, one 64-bit cell an event.

Rows that kernels cannot take are marked: nulls, values of another type than the schema's, and texts that change.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from thinwire.codec.kernels.rule_table import is_whole
from thinwire.codec.ticks import ABSENT
from thinwire.codec.value_conversion import restorer, step_of
from thinwire.schema import Kind, Property, Schema
from thinwire.schema.property import TOLERANT_KINDS
from thinwire.schema.timestamps import ticks_per_second, to_ticks, writer

Ints = npt.NDArray[np.int64]
Letters = npt.NDArray[np.uint8]

_DAY = 86_400
_DAYS_AT_ONCE = 4_096
_DATE, _CLOCK = 10, 8


def stamps(form: str, ticks: Ints, absent: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """The instants in this form; null where absent.

    >>> stamps("iso:T3Z", np.array([1516706417250])).to_pylist()
    ['2018-01-23T11:20:17.250Z']
    """
    unit = ticks_per_second(form)
    assert unit is not None, form
    seconds, fraction = np.divmod(ticks, unit)
    days, second = np.divmod(seconds, _DAY)
    sample = np.frombuffer(str(writer(form)(0)).encode(), dtype=np.uint8)
    letters = np.empty((len(ticks), len(sample)), dtype=np.uint8)
    letters[:] = sample
    letters[:, :_DATE] = _dates(form, unit, days)
    letters[:, _DATE + 1 : _DATE + 1 + _CLOCK] = _clocks()[second]
    _write_fraction(letters, fraction, unit)
    return _texts(letters, absent)


def _dates(form: str, unit: int, days: Ints) -> Letters:
    """The date of each row: nearly always a few days in a row, so that none has to be searched for."""
    first = int(days.min()) if len(days) else 0
    span = int(days.max()) - first + 1 if len(days) else 0
    if span <= _DAYS_AT_ONCE:
        listed, which = list(range(first, first + span)), days - first
    else:
        unique, which = np.unique(days, return_inverse=True)
        listed = unique.tolist()
    write = writer(form)
    texts = "".join(str(write(day * _DAY * unit))[:_DATE] for day in listed)
    return np.frombuffer(texts.encode(), dtype=np.uint8).reshape(-1, _DATE)[which]


def _write_fraction(letters: Letters, fraction: Ints, unit: int) -> None:
    """Three digits at a time, from the last on."""
    digits = len(str(unit)) - 1
    at = _DATE + 1 + _CLOCK + 1 + digits
    while digits > 0:
        size = min(3, digits)
        fraction, group = np.divmod(fraction, 10**size)
        letters[:, at - size : at] = _groups(size)[group]
        at, digits = at - size, digits - size


def _texts(letters: Letters, absent: npt.NDArray[np.bool_] | None) -> pa.Array:
    rows, width = letters.shape
    places = np.arange(0, (rows + 1) * width, width, dtype=np.int32)[: rows + 1]
    valid = None if absent is None else pa.array(~absent).buffers()[1]
    return pa.StringArray.from_buffers(rows, pa.py_buffer(places), pa.py_buffer(letters.ravel()), valid)


@lru_cache(maxsize=1)
def _clocks() -> Letters:
    """All seconds of a day."""
    text = "".join(f"{s // 3600:02d}:{s // 60 % 60:02d}:{s % 60:02d}" for s in range(_DAY))
    return np.frombuffer(text.encode(), dtype=np.uint8).reshape(_DAY, _CLOCK)


@lru_cache(maxsize=3)
def _groups(size: int) -> Letters:
    """All numbers of so many digits."""
    text = "".join(f"{number:0{size}d}" for number in range(10**size))
    return np.frombuffer(text.encode(), dtype=np.uint8).reshape(-1, size)


Bools = npt.NDArray[np.bool_]

INSTANT = pa.timestamp("us", tz="UTC")
TEXT_KINDS = frozenset({Kind.ENUM, Kind.STRING})

_EXACT = 1 << 53
_TYPES = {
    Kind.BOOLEAN: pa.bool_(),
    Kind.INTEGER: pa.int64(),
    Kind.NUMBER: pa.float64(),
    Kind.FLOAT: pa.float64(),
    Kind.ENUM: pa.string(),
    Kind.STRING: pa.string(),
    Kind.GEO: pa.list_(pa.float64()),
    Kind.ARRAY: pa.list_(pa.float64()),
    Kind.OPAQUE: pa.string(),
}


def arrow_schema(schema: Schema, columns: Collection[str] | None = None) -> pa.Schema:
    """The columns of a table of this schema's events: those of the event, then what is known about it.

    columns: the only ones that are wanted, if not all

    >>> rooms = Schema("rooms", [Property("room", "string", "dimension"), Property("t", "number", step="0.1")])
    >>> arrow_schema(rooms).names
    ['room', 't', '_source', '_ordinal', '_offset', '_time', '_virtual', '_bound']
    """
    fields = [pa.field(p.name, arrow_type(p)) for p in schema if not p.confidential]
    about = {
        "_source": pa.string(),
        "_ordinal": pa.int64(),
        "_offset": pa.int64(),
        "_time": INSTANT,
        "_virtual": pa.bool_(),
    }
    # whoever makes rows of columns need not look for nulls where it is said that there are none
    fields += [pa.field(name, kind, nullable=False) for name, kind in about.items()]
    fields.append(pa.field("_bound", bound_type(schema)))
    return pa.schema([field for field in fields if columns is None or field.name in columns])


def arrow_type(p: Property) -> pa.DataType:
    """The type of a property's column."""
    if p.kind is not Kind.TIMESTAMP:
        return _TYPES[p.kind]
    if p.form == "datetime":
        return INSTANT
    if is_written(p):
        return pa.string()
    return pa.int64() if step_of(p).denominator == 1 else pa.float64()


def bound_type(schema: Schema) -> pa.StructType:
    """One double for each property that may be off within a tolerance."""
    return pa.struct([pa.field(p.name, pa.float64()) for p in schema.wire if p.kind in TOLERANT_KINDS])


def is_written(p: Property) -> bool:
    """Is it a timestamp that events carry as text?"""
    return p.kind is Kind.TIMESTAMP and p.form not in (None, "epoch", "datetime")


def column_of(p: Property, cells: Ints, irregular: Bools) -> tuple[pa.Array, dict[int, Any]]:
    """A property's column out of the cells of records, and by row the values that it cannot hold.

    irregular: the rows whose cells are ticks, as `kernels.decode` leaves them
    """
    rows = np.flatnonzero(irregular)
    absent: Bools | None = None
    if len(rows):
        absent = np.zeros(len(cells), dtype=np.bool_)
        absent[rows] = cells[rows] == ABSENT
        cells = np.where(absent, 0, cells)
    if p.kind is Kind.BOOLEAN:
        return pa.array(cells.astype(np.bool_), mask=absent), {}
    if p.kind is Kind.TIMESTAMP and p.form not in (None, "epoch"):
        return _instants(p, cells, absent), {}
    if is_whole(p):
        values = cells.view(np.float64) if p.kind is Kind.FLOAT else cells
        return pa.array(values, mask=absent), {}
    return _numbers(p, cells, absent, rows)


def _instants(p: Property, ticks: Ints, absent: Bools | None) -> pa.Array:
    if p.form != "datetime":
        return stamps(p.form or "", ticks, absent)
    within = np.clip(ticks, _FIRST, _LAST)
    return pa.array(within, mask=absent).cast(INSTANT)


def _numbers(p: Property, cells: Ints, absent: Bools | None, rows: Ints) -> tuple[pa.Array, dict[int, Any]]:
    """Numbers with a step: counted by the kernel, but for the rows it left as ticks."""
    kind, step = arrow_type(p), step_of(p)
    values: npt.NDArray[Any] = cells if step.denominator == 1 else cells.view(np.float64)
    large: dict[int, Any] = {}
    if absent is not None:
        ticks = cells[rows]
        small = np.abs(ticks) < _EXACT // step.numerator
        products = np.where(small, ticks, 0) * step.numerator
        values[rows] = products if step.denominator == 1 else products / step.denominator
        large = {int(row): restorer(p)(int(count)) for row, count in zip(rows[~small], ticks[~small], strict=True)}
    values = values.astype(np.float64, copy=False) if kind == pa.float64() else values
    unfit = {row: value for row, value in large.items() if not _holds(kind, value)}
    for row, value in large.items():
        if row in unfit:
            absent[row] = True  # type: ignore[index]  # there are large ones only where some row is irregular
        else:
            values[row] = value
    return pa.array(values, mask=absent), unfit


def _holds(kind: pa.DataType, value: int | float) -> bool:
    """Can a column of this type hold the number as it is?"""
    return float(value) == value if kind == pa.float64() else -(1 << 63) <= value < 1 << 63


_FIRST = to_ticks(datetime.min.replace(tzinfo=UTC), "datetime")
_LAST = to_ticks(datetime.max.replace(tzinfo=UTC), "datetime")


_UNITS = {0: "s", 3: "ms", 6: "us", 9: "ns"}


class Rows:
    """A record batch taken apart for a schema: cells, source of each row, and which rows are not ordinary."""

    def __init__(self, batch: pa.RecordBatch, schema: Schema) -> None:
        self.batch = batch
        self.count = batch.num_rows
        self.cells: Ints = np.zeros((len(schema.wire), self.count), dtype=np.int64)
        self.odd: Bools = np.zeros(self.count, dtype=np.bool_)
        self.sources, self.keys = _sources(batch, schema)
        for index, p in enumerate(schema.wire):
            self._fill(index, p)

    @cached_property
    def _order(self) -> Ints:
        """All rows, those of a source together."""
        return np.argsort(self.sources, kind="stable")

    @cached_property
    def _starts(self) -> Ints:
        """Where each source begins in that order."""
        return np.searchsorted(self.sources[self._order], np.arange(len(self.keys) + 1))

    def members(self, source: int) -> Ints:
        """The rows of a source, in order."""
        return self._order[self._starts[source] : self._starts[source + 1]]

    def following(self, row: int) -> int | None:
        """The next row of the same source."""
        members = self.members(int(self.sources[row]))
        place = int(np.searchsorted(members, row)) + 1
        return int(members[place]) if place < len(members) else None

    def event(self, row: int) -> dict[str, Any]:
        """A row as the event it is."""
        event: dict[str, Any] = self.batch.slice(row, 1).to_pylist()[0]
        return event

    def texts(self, p: Property) -> tuple[Ints, list[Any]]:
        """A text column as codes and the texts they stand for; marks rows whose text differs from the one before."""
        codes, texts = _codes(self.batch.column(p.name))
        ordered = codes[self._order]
        changed = np.zeros(self.count, dtype=np.bool_)
        changed[self._order[1:]] = ordered[1:] != ordered[:-1]
        self.odd |= changed
        return codes, texts

    def firsts(self) -> Ints:
        """The first row of every source."""
        return self._order[self._starts[:-1]]

    def _fill(self, index: int, p: Property) -> None:
        column = self.batch.column(p.name)
        if p.kind in (Kind.ENUM, Kind.STRING):
            return
        if column.null_count:
            self.odd |= column.is_null().to_numpy(zero_copy_only=False)
        whole = is_whole(p) and p.kind is not Kind.FLOAT
        values = _instants_arrow(column, p) if _written(p) else _plain(column, whole, p)
        if values is None:
            self.odd[:] = True
        elif whole:
            self.cells[index] = values
        else:
            self.cells.view(np.float64)[index] = values


def _plain(column: pa.Array, whole: bool, p: Property) -> npt.NDArray[Any] | None:
    """Numbers and flags; None where the column has another type than the property."""
    kind = column.type
    if p.kind is Kind.BOOLEAN:
        fits = pa.types.is_boolean(kind)
    elif whole:
        fits = pa.types.is_signed_integer(kind) or (p.form == "datetime" and pa.types.is_timestamp(kind))
    else:
        fits = pa.types.is_float64(kind)
    if not fits:
        return None
    if column.null_count:
        column = pc.fill_null(column, pa.scalar(0, type=kind))
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _written(p: Property) -> bool:
    return p.kind is Kind.TIMESTAMP and p.form not in (None, "epoch")


def _instants_arrow(column: pa.Array, p: Property) -> npt.NDArray[Any] | None:
    """Written timestamps as ticks; None where any is not written in the property's form."""
    form = p.form or ""
    if form == "datetime":
        if not pa.types.is_timestamp(column.type) or column.type.tz is None:
            return None
        return np.asarray(column.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).fill_null(0).to_numpy())
    if not pa.types.is_string(column.type):
        return None
    digits, suffix = int(form[5]), form[6:]
    fraction = rf"\.\d{{{digits}}}" if digits else ""
    shape = rf"^\d{{4}}-\d\d-\d\d{form[4]}\d\d:\d\d:[0-5]\d{fraction}{re.escape(suffix)}$"
    if digits not in _UNITS or not pc.all(pc.match_substring_regex(column, shape)).as_py():
        return None
    text = pc.utf8_slice_codeunits(column, 0, 19 + (digits + 1 if digits else 0))
    try:
        return np.asarray(text.cast(pa.timestamp(_UNITS[digits])).cast(pa.int64()).fill_null(0).to_numpy())
    except pa.ArrowInvalid:
        return None


def _sources(batch: pa.RecordBatch, schema: Schema) -> tuple[Ints, list[tuple[Any, ...]]]:
    """The source of each row as a small number, and the dimension values it stands for."""
    if not schema.dimensions:
        return np.zeros(batch.num_rows, dtype=np.int64), [()]
    codes, values = _codes(batch.column(schema.dimensions[0].name))
    keys = [(value,) for value in values]
    for p in schema.dimensions[1:]:
        more, values = _codes(batch.column(p.name))
        codes, pairs = _codes(pa.array(codes * len(values) + more))
        keys = [(*keys[pair // len(values)], values[pair % len(values)]) for pair in pairs]
    return codes, keys


def _codes(column: pa.Array) -> tuple[Ints, list[Any]]:
    """A column as small numbers and the values they stand for; null is a value like any other."""
    encoded = column.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), encoded.dictionary.to_pylist()
