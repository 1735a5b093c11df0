"""What the first part of a stream teaches: its schema and the ranges of its numbers. The rest is never looked at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from thinwire.analysis.strategies_strategy import Ranges, measured
from thinwire.schema import Schema

LIMIT = 100_000
"""events that a schema is found from, at most; of more every second, third, ... is taken"""


@dataclass(frozen=True)
class Learned:
    """A schema, why its properties were judged so, and the range of each number; events: how many it comes from."""

    schema: Schema
    ranges: Ranges
    events: int
    reasons: Mapping[str, str]


def ranges_of(batches: Iterable[pa.RecordBatch], schema: Schema) -> dict[str, tuple[float, float]]:
    """The smallest and the largest value of every number that may be off."""
    found: dict[str, tuple[float, float]] = {}
    for batch in batches:
        for p in measured(schema):
            ends = pc.min_max(batch.column(p.name)).as_py()
            if ends["min"] is not None:
                found[p.name] = _wider(found.get(p.name), (float(ends["min"]), float(ends["max"])))
    return found


def merge_ranges(parts: Iterable[Ranges]) -> dict[str, tuple[float, float]]:
    """The ranges of all parts together."""
    found: dict[str, tuple[float, float]] = {}
    for part in parts:
        for name, span in part.items():
            found[name] = _wider(found.get(name), span)
    return found


def _wider(one: tuple[float, float] | None, other: tuple[float, float]) -> tuple[float, float]:
    return other if one is None else (min(one[0], other[0]), max(one[1], other[1]))
