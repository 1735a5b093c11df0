"""Arrow record batches as cells for kernels: one line per property, one 64-bit cell per event."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from thinwire.codec.arrow_columns import TEXT_KINDS, Bools, Ints, is_written
from thinwire.codec.kernels.rule_table import is_integral
from thinwire.schema import Kind, Property, Schema

_UNITS = {0: "s", 3: "ms", 6: "us", 9: "ns"}


class ArrowRows:
    """A record batch for the encoding kernels: cells, the source of each row, and the irregular rows.

    Rows are irregular if they have nulls, values of another type than the schema, or changed texts.
    """

    def __init__(self, batch: pa.RecordBatch, schema: Schema) -> None:
        self.batch = batch
        self.count = batch.num_rows
        self.cells: Ints = np.zeros((len(schema.wire), self.count), dtype=np.int64)
        self.irregular: Bools = np.zeros(self.count, dtype=np.bool_)
        self.sources, self.keys = _sources(batch, schema)
        for index, p in enumerate(schema.wire):
            self._fill(index, p)

    @cached_property
    def _order(self) -> Ints:
        """All rows, grouped by source."""
        return np.argsort(self.sources, kind="stable")

    @cached_property
    def _starts(self) -> Ints:
        """Start of each source in that order."""
        return np.searchsorted(self.sources[self._order], np.arange(len(self.keys) + 1))

    def members(self, source: int) -> Ints:
        """Return the rows of a source in order."""
        return self._order[self._starts[source] : self._starts[source + 1]]

    def following(self, row: int) -> int | None:
        """Return the next row of the same source."""
        members = self.members(int(self.sources[row]))
        index = int(np.searchsorted(members, row)) + 1
        return int(members[index]) if index < len(members) else None

    def event(self, row: int) -> dict[str, Any]:
        """Return a row as an event."""
        event: dict[str, Any] = self.batch.slice(row, 1).to_pylist()[0]
        return event

    def texts(self, p: Property) -> tuple[Ints, list[Any]]:
        """Return a text column as codes and texts. Rows with another text than the previous one become irregular."""
        codes, texts = _codes(self.batch.column(p.name))
        ordered = codes[self._order]
        changed = np.zeros(self.count, dtype=np.bool_)
        changed[self._order[1:]] = ordered[1:] != ordered[:-1]
        self.irregular |= changed
        return codes, texts

    def firsts(self) -> Ints:
        """Return the first row of every source."""
        return self._order[self._starts[:-1]]

    def _fill(self, index: int, p: Property) -> None:
        column = self.batch.column(p.name)
        if p.kind in TEXT_KINDS:
            return
        if column.null_count:
            self.irregular |= column.is_null().to_numpy(zero_copy_only=False)
        integral = is_integral(p) and p.kind is not Kind.FLOAT
        values = _timestamps(column, p) if is_written(p) else _plain(column, integral, p)
        if values is None:
            self.irregular[:] = True
        elif integral:
            self.cells[index] = values
        else:
            self.cells.view(np.float64)[index] = values


def _plain(column: pa.Array, integral: bool, p: Property) -> npt.NDArray[Any] | None:
    """Return numbers and flags; None if the column has another type than the property."""
    kind = column.type
    if p.kind is Kind.BOOLEAN:
        fits = pa.types.is_boolean(kind)
    elif integral:
        fits = pa.types.is_signed_integer(kind) or (p.form == "datetime" and pa.types.is_timestamp(kind))
    else:
        fits = pa.types.is_float64(kind)
    if not fits:
        return None
    if column.null_count:
        column = pc.fill_null(column, pa.scalar(0, type=kind))
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _timestamps(column: pa.Array, p: Property) -> npt.NDArray[Any] | None:
    """Return written timestamps as ticks; None if any is not in the form of the property."""
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
    """Return the source of each row as a code, and the dimension values of each code."""
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
    """Return a column as codes and the distinct values; null is one of them."""
    encoded = column.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), encoded.dictionary.to_pylist()
