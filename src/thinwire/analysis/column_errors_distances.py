"""By how much two columns of a property differ, value by value, in the property's own unit."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thinwire.analysis.event_columns import Floats
from thinwire.analysis.promise_check import SLACK
from thinwire.analysis.strategies_strategy import NUMBERS
from thinwire.codec import geo_distance as geo
from thinwire.schema import Kind, Property

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
