"""Columns of a table of events: which Arrow type each property has, and how records become columns.

A column holds the value that the event itself holds. Numbers with a step are doubles, whole or not, since a value off
the grid may come at any time; timestamps are what the event carries: instants (`datetime`), text (`iso`) or counts
(`epoch`).
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from thinwire.codec.arrow_columns_table_stamps import stamps
from thinwire.codec.kernels.rule_table import is_whole
from thinwire.codec.ticks import ABSENT
from thinwire.codec.value_conversion import restorer, step_of
from thinwire.schema import Kind, Property, Schema
from thinwire.schema.property import TOLERANT_KINDS
from thinwire.schema.timestamps import to_ticks

Ints = npt.NDArray[np.int64]
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
