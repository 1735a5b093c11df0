"""How far a subscriber's values are from the truth: every event that was published against the one it became.

Both sides are columns. An event is known by its source and its number there, so one that comes long after it was
published (silence is told at its end) finds its row again.

By how much two columns of a property differ, value by value, in the property's own unit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from thinwire.analysis.event_columns import Floats, Ints, Sources
from thinwire.analysis.promise_check import SLACK
from thinwire.analysis.strategies import NUMBERS
from thinwire.codec import geo_distance as geo
from thinwire.ledger.row import Deviation
from thinwire.schema import Kind, Property, Schema

_SLOW = frozenset({Kind.GEO, Kind.ARRAY, Kind.OPAQUE})


def distances(p: Property, told: pa.Array, true: pa.Array) -> Floats:
    """One for each row; infinite where two have no distance and differ.

    >>> heat = Property("heat", "number", step="0.1")
    >>> distances(heat, pa.array([20.5, None, 20.0]), pa.array([20.0, None, None])).round(6).tolist()
    [0.5, 0.0, inf]
    """
    if told.type != true.type and p.kind not in _SLOW:
        true = true.cast(told.type)
    if told.equals(true):
        return np.zeros(len(true))
    if p.kind in _SLOW:
        pairs = zip(told.to_pylist(), true.to_pylist(), strict=True)
        return np.array([_distance(p, one, other) for one, other in pairs])
    differ = _differ(told, true)
    return _between(told, true, differ) if p.kind in NUMBERS else np.where(differ, np.inf, 0.0)


def _differ(told: pa.Array, true: pa.Array) -> Any:
    """Where the two differ; absent is like absent and like nothing else."""
    unlike = pc.fill_null(pc.not_equal(told, true), False).to_numpy(zero_copy_only=False)
    return unlike | _one_is_absent(told, true)


def _one_is_absent(told: pa.Array, true: pa.Array) -> Any:
    return told.is_null().to_numpy(zero_copy_only=False) != true.is_null().to_numpy(zero_copy_only=False)


def _between(told: pa.Array, true: pa.Array, differ: Any) -> Floats:
    seen, actual = (_numbers(column) for column in (told, true))
    slack = SLACK * np.maximum(np.abs(seen), np.abs(actual))
    off = np.where(differ, np.maximum(0.0, np.abs(seen - actual) - slack), 0.0)
    return np.where(_one_is_absent(told, true), np.inf, off)


def _numbers(column: pa.Array) -> Floats:
    return np.asarray(pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False))


def _distance(p: Property, told: Any, true: Any) -> float:
    if told == true:
        return 0.0
    if told is None or true is None:
        return float("inf")
    if p.kind is Kind.OPAQUE:
        return 0.0 if json.loads(told) == json.loads(true) else float("inf")
    if p.kind is Kind.GEO:
        a, b = geo.to_ticks(told, p.name), geo.to_ticks(true, p.name)
        return geo.distance(a[0] - b[0], geo.wrap(a[1] - b[1]), b[0])
    if len(told) != len(true):
        return float("inf")
    return max((_distance_of_numbers(x, y) for x, y in zip(told, true, strict=True)), default=0.0)


def _distance_of_numbers(told: float, true: float) -> float:
    return max(0.0, abs(told - true) - SLACK * max(abs(told), abs(true)))


Bools = npt.NDArray[np.bool_]

_ORDINALS = 1 << 36
"""a key is the number of a source times this, and the number of the event there"""


class Comparison:
    """Keeps what was published until a subscriber has it, then compares.

    errors: by property; lost: events that came twice, or that nobody published
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.errors = {p.name: Deviation() for p in schema.wire}
        self.lost = 0
        self._sources = Sources([p.name for p in schema.dimensions])
        self._names = [p.name for p in schema.wire]
        self._fresh: list[_Rows] = []
        self._waiting: _Rows | None = None

    def published(self, batch: pa.RecordBatch, refused: Sequence[int], counted: bool) -> None:
        """These rows were published, but for the refused ones; those not counted are only awaited."""
        if refused:
            batch = batch.take(pa.array(np.delete(np.arange(batch.num_rows), refused)))
        if batch.num_rows:
            codes = self._sources.codes(batch)
            keys = _ORDINALS * codes + self._sources.ordinals(codes)
            values = pa.Table.from_batches([batch.select(self._names)])
            self._fresh.append(_Rows(keys, np.full(len(keys), counted), values))

    def delivered(self, batch: pa.RecordBatch, bound: Mapping[str, float | None]) -> None:
        """A subscriber got these, as the rows of a table."""
        if self._fresh:
            self._waiting = _joined([*([self._waiting] if self._waiting else []), *self._fresh])
            self._fresh = []
        keys = _ORDINALS * self._sources.codes(batch) + batch.column("_ordinal").to_numpy()
        places, found = self._waiting.find(keys) if self._waiting else (keys, np.zeros(len(keys), dtype=np.bool_))
        self.lost += len(keys) - int(found.sum())
        if self._waiting is not None and found.any():
            self._compare(self._waiting, batch, np.flatnonzero(found), places[found], bound)
            self._waiting = self._waiting.without(places[found])

    @property
    def missing(self) -> int:
        """Events that were published and that nobody has."""
        return sum(len(rows.keys) for rows in (*self._fresh, *([self._waiting] if self._waiting else [])))

    def _compare(
        self, waiting: _Rows, batch: pa.RecordBatch, rows: Ints, places: Ints, bound: Mapping[str, float | None]
    ) -> None:
        counted = waiting.counted[places]
        true = waiting.values.take(pa.array(places[counted]))
        told = batch.select(self._names).take(pa.array(rows[counted]))
        for p in self.schema.wire:
            off = distances(p, told.column(p.name), true.column(p.name).combine_chunks())
            self.errors[p.name].add_many(off, bound.get(p.name) or 0.0)


class _Rows:
    """Rows by their keys: which of them count, and their values."""

    def __init__(self, keys: Ints, counted: Bools, values: pa.Table) -> None:
        self.keys = keys
        self.counted = counted
        self.values = values

    def find(self, keys: Ints) -> tuple[Ints, Bools]:
        """For each key its place among these, which are in order, and whether it is there (once)."""
        places = np.minimum(np.searchsorted(self.keys, keys), max(0, len(self.keys) - 1))
        first = np.zeros(len(keys), dtype=np.bool_)
        first[np.unique(keys, return_index=True)[1]] = True
        return places, first & (self.keys[places] == keys) if len(self.keys) else first & False

    def without(self, places: Ints) -> _Rows:
        """All others."""
        left = np.delete(np.arange(len(self.keys)), places)
        return _Rows(self.keys[left], self.counted[left], self.values.take(pa.array(left)))


def _joined(parts: Sequence[_Rows]) -> _Rows:
    """All of them, in the order of their keys."""
    keys = np.concatenate([part.keys for part in parts])
    order = np.argsort(keys, kind="stable")
    counted = np.concatenate([part.counted for part in parts])
    values = pa.concat_tables([part.values for part in parts]).combine_chunks()
    return _Rows(keys[order], counted[order], values.take(pa.array(order)))
