"""Comparison of decoded with published columns: is every event delivered, and how large are the errors?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thinwire.analysis.event_columns import Floats, SourceNumbers
from thinwire.analysis.strategies import NUMBERS
from thinwire.codec import geo_distance as geo
from thinwire.ledger.row import Deviation
from thinwire.schema import Kind, Property, Schema

SLACK = 1e-12
"""rounding error of a comparison of decimals as doubles, relative to the larger value"""


def number_error(delivered: float, actual: float) -> float:
    """Return the distance of two numbers without rounding errors of their decimals."""
    return max(0.0, float(abs(delivered - actual) - SLACK * max(abs(delivered), abs(actual))))


_OBJECT_KINDS = frozenset({Kind.GEO, Kind.ARRAY, Kind.OPAQUE})
"""kinds whose values are compared one by one as Python objects; other kinds are compared as Arrow columns"""


def column_errors(p: Property, delivered: pa.Array, actual: pa.Array) -> Floats:
    """Return the error of each row in the property's unit; infinite for different values without a distance.

    >>> heat = Property("heat", "number", step="0.1")
    >>> column_errors(heat, pa.array([20.5, None, 20.0]), pa.array([20.0, None, None])).round(6).tolist()
    [0.5, 0.0, inf]
    """
    if delivered.type != actual.type and p.kind not in _OBJECT_KINDS:
        actual = actual.cast(delivered.type)
    if delivered.equals(actual):
        return np.zeros(len(actual))
    if p.kind in _OBJECT_KINDS:
        pairs = zip(delivered.to_pylist(), actual.to_pylist(), strict=True)
        return np.array([value_error(p, *pair) for pair in pairs])
    only_one_is_null = np.asarray(pc.xor(delivered.is_null(), actual.is_null()))
    differ = np.asarray(pc.fill_null(pc.not_equal(delivered, actual), False)) | only_one_is_null
    if p.kind not in NUMBERS:
        return np.where(differ, np.inf, 0.0)
    a, b = _to_floats(delivered), _to_floats(actual)
    slack = SLACK * np.maximum(np.abs(a), np.abs(b))
    errors = np.where(differ, np.maximum(0.0, np.abs(a - b) - slack), 0.0)
    return np.where(only_one_is_null, np.inf, errors)


def _to_floats(column: pa.Array) -> Floats:
    return np.asarray(pc.fill_null(column.cast(pa.float64()), 0.0))


def value_error(p: Property, delivered: Any, actual: Any) -> float:
    """Return the error of a position, an array or an opaque value in JSON; infinite if there is no distance."""
    if delivered == actual:
        return 0.0
    if delivered is None or actual is None:
        return float("inf")
    if p.kind is Kind.OPAQUE:
        return 0.0 if json.loads(delivered) == json.loads(actual) else float("inf")
    if p.kind is Kind.GEO:
        a, b = geo.to_ticks(delivered, p.name), geo.to_ticks(actual, p.name)
        return geo.distance(a[0] - b[0], geo.wrap(a[1] - b[1]), b[0])
    if len(delivered) != len(actual):
        return float("inf")
    return max(map(number_error, delivered, actual), default=0.0)


_MAX_ORDINALS = 1 << 36
"""the key of an event is the number of its source times this number, plus its ordinal"""
_KEY, _COUNTS = "\x00key", "\x00counts"
"""columns of stored rows: the key, and whether the errors of the row count"""


class ColumnChecker:
    """Stores published rows until they are delivered, then compares the delivered rows with them.

    An event is identified by source and ordinal, because suppressed events are delivered later than sent events.

    errors: errors of the delivered values by property
    unexpected: number of delivered events that were not published, or had been delivered before
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.errors = {p.name: Deviation() for p in schema.wire}
        self.unexpected = 0
        self._sources = SourceNumbers([p.name for p in schema.dimensions])
        self._names = [p.name for p in schema.wire]
        self._pending: list[pa.Table] = []

    def add_published(self, batch: pa.RecordBatch, rejected: Sequence[int], *, is_warm_up: bool) -> None:
        """Store the rows of a batch except the rejected rows. Errors of warm-up rows do not count."""
        if rejected:
            batch = batch.take(pa.array(np.delete(np.arange(batch.num_rows), rejected)))
        if batch.num_rows:
            codes = self._sources.codes(batch)
            keys = _MAX_ORDINALS * codes + self._sources.ordinals(codes)
            rows = pa.Table.from_batches([batch.select(self._names)]).append_column(_KEY, pa.array(keys))
            self._pending.append(rows.append_column(_COUNTS, pa.array(np.full(len(keys), not is_warm_up))))

    def compare_delivered(self, batch: pa.RecordBatch, bound: Mapping[str, float | None]) -> None:
        """Compare decoded rows with the published rows, and remove those from the stored rows."""
        keys = _MAX_ORDINALS * self._sources.codes(batch) + batch.column("_ordinal").to_numpy()
        if not self._pending:
            self.unexpected += len(keys)
            return
        pending = pa.concat_tables(self._pending).combine_chunks()
        _, rows = np.unique(keys, return_index=True)
        indexes = pc.index_in(pa.array(keys[rows]), value_set=pending.column(_KEY)).to_numpy(zero_copy_only=False)
        found = np.isfinite(indexes)
        rows, indexes = rows[found], indexes[found].astype(np.int64)
        self.unexpected += len(keys) - len(rows)
        self._compare(pending.take(indexes), batch.take(rows), bound)
        self._pending = [pending.take(np.delete(np.arange(pending.num_rows), indexes))]

    @property
    def missing(self) -> int:
        """Number of events that were published and not delivered yet."""
        return sum(rows.num_rows for rows in self._pending)

    def _compare(self, actual: pa.Table, delivered: pa.RecordBatch, bound: Mapping[str, float | None]) -> None:
        counts = actual.column(_COUNTS).combine_chunks()
        for p in self.schema.wire:
            pair = (delivered.column(p.name), actual.column(p.name).combine_chunks())
            errors = column_errors(p, *(column.filter(counts) for column in pair))
            self.errors[p.name].add_many(errors, bound.get(p.name) or 0.0)
