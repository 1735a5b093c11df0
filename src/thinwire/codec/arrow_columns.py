"""Arrow types of properties, and Arrow columns from decoded records.

A column contains the values of events. Numbers with a step are doubles, because a value off the grid may occur at any
time. Timestamps keep the form of the event: instants (`datetime`), text (`iso`) or integers (`epoch`).

Timestamp texts are written for all rows at once. All texts of a form have the same length, so a column is a matrix of
characters; date and time of day are looked up in small tables.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from thinwire.codec.kernels.rule_table import is_integral
from thinwire.codec.ticks import ABSENT
from thinwire.codec.value_conversion import restorer, step_of
from thinwire.schema import Kind, Property, Schema
from thinwire.schema.kind import TOLERANT_KINDS
from thinwire.schema.timestamps import ticks_per_second, to_ticks, writer

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Letters = npt.NDArray[np.uint8]

_DAY = 86_400
_DAYS_AT_ONCE = 4_096
_DATE, _CLOCK = 10, 8


def timestamp_texts(form: str, ticks: Ints, absent: Bools | None = None) -> pa.Array:
    """Return timestamps as text in this form; null where absent.

    >>> timestamp_texts("iso:T3Z", np.array([1516706417250])).to_pylist()
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
    """Return the date of each row. The rows usually cover few days, which are indexed without a search."""
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
    """Write the digits of the fraction, starting with the last. It is below 10**9 and fits 32 bits."""
    rest = fraction.astype(np.uint32)
    digits = len(str(unit)) - 1
    first = _DATE + 1 + _CLOCK + 1
    for at in reversed(range(first, first + digits)):
        letters[:, at] = rest % 10 + ord("0")
        rest = rest // 10


def _texts(letters: Letters, absent: Bools | None) -> pa.Array:
    rows, width = letters.shape
    offsets = np.arange(0, (rows + 1) * width, width, dtype=np.int32)[: rows + 1]
    valid = None if absent is None else pa.array(~absent).buffers()[1]
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(letters.ravel()), valid)


@lru_cache(maxsize=1)
def _clocks() -> Letters:
    """Return the texts of all seconds of a day."""
    text = "".join(f"{s // 3600:02d}:{s // 60 % 60:02d}:{s % 60:02d}" for s in range(_DAY))
    return np.frombuffer(text.encode(), dtype=np.uint8).reshape(_DAY, _CLOCK)


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
    """Return the Arrow schema of a table of events: the properties, then the metadata columns.

    columns: the requested columns, or None for all

    >>> rooms = Schema("rooms", [Property("room", "string", "dimension"), Property("t", "number", step="0.1")])
    >>> arrow_schema(rooms).names
    ['room', 't', '_source', '_ordinal', '_offset', '_time', '_virtual', '_bound']
    """
    fields = [pa.field(p.name, arrow_type(p)) for p in schema if not p.confidential]
    metadata = {
        "_source": pa.string(),
        "_ordinal": pa.int64(),
        "_offset": pa.int64(),
        "_time": INSTANT,
        "_virtual": pa.bool_(),
    }
    # readers skip null checks for columns that are not nullable
    fields += [pa.field(name, kind, nullable=False) for name, kind in metadata.items()]
    fields.append(pa.field("_bound", bound_type(schema)))
    return pa.schema([field for field in fields if columns is None or field.name in columns])


def arrow_type(p: Property) -> pa.DataType:
    """Return the Arrow type of a property."""
    if p.kind is not Kind.TIMESTAMP:
        return _TYPES[p.kind]
    if p.form == "datetime":
        return INSTANT
    if is_written(p):
        return pa.string()
    return pa.int64() if step_of(p).denominator == 1 else pa.float64()


def bound_type(schema: Schema) -> pa.StructType:
    """Return a struct with one double per property that may have a tolerance."""
    return pa.struct([pa.field(p.name, pa.float64()) for p in schema.wire if p.kind in TOLERANT_KINDS])


def is_written(p: Property) -> bool:
    """Check whether events contain the timestamp as text or as a datetime."""
    return p.kind is Kind.TIMESTAMP and p.form not in (None, "epoch")


def column_of(p: Property, cells: Ints, irregular: Bools) -> tuple[pa.Array, dict[int, Any]]:
    """Return the column of a property from cells of records, and by row the values that do not fit its type.

    irregular: rows whose cells are ticks, see `kernels.frame_decoder`
    """
    rows = np.flatnonzero(irregular)
    absent: Bools | None = None
    if len(rows):
        absent = np.zeros(len(cells), dtype=np.bool_)
        absent[rows] = cells[rows] == ABSENT
        cells = np.where(absent, 0, cells)
    if p.kind is Kind.BOOLEAN:
        return pa.array(cells.astype(np.bool_), mask=absent), {}
    if is_written(p):
        return _timestamps(p, cells, absent), {}
    if is_integral(p):
        values = cells.view(np.float64) if p.kind is Kind.FLOAT else cells
        return pa.array(values, mask=absent), {}
    return _numbers(p, cells, absent, rows)


def _timestamps(p: Property, ticks: Ints, absent: Bools | None) -> pa.Array:
    if p.form != "datetime":
        return timestamp_texts(p.form or "", ticks, absent)
    within = np.clip(ticks, _FIRST, _LAST)
    return pa.array(within, mask=absent).cast(INSTANT)


def _numbers(p: Property, cells: Ints, absent: Bools | None, rows: Ints) -> tuple[pa.Array, dict[int, Any]]:
    """Return numbers with a step. The kernel has multiplied them, except in irregular rows."""
    kind, step = arrow_type(p), step_of(p)
    values: npt.NDArray[Any] = cells if step.denominator == 1 else cells.view(np.float64)
    values = values.astype(np.float64, copy=False) if kind == pa.float64() else values
    unfit: dict[int, Any] = {}
    if absent is not None:
        ticks = cells[rows]
        small = np.abs(ticks) < _EXACT // step.numerator
        products = np.where(small, ticks, 0) * step.numerator
        values[rows] = products if step.denominator == 1 else products / step.denominator
        for row, count in zip(rows[~small].tolist(), ticks[~small].tolist(), strict=True):
            value = restorer(p)(count)
            fits = float(value) == value if kind == pa.float64() else -(1 << 63) <= value < 1 << 63
            if fits:
                values[row] = value
            else:
                absent[row], unfit[row] = True, value
    return pa.array(values, mask=absent), unfit


_FIRST = to_ticks(datetime.min.replace(tzinfo=UTC), "datetime")
_LAST = to_ticks(datetime.max.replace(tzinfo=UTC), "datetime")
