"""What the first part of a stream teaches: its schema and the ranges of its numbers. The rest is never looked at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from thinwire.evaluation.analysis.rows import batch_of
from thinwire.evaluation.analysis.strategy import Ranges, measured
from thinwire.events import Schema
from thinwire.events.inference import explain

LIMIT = 100_000
"""events that a schema is found from, at most; of more every second, third, ... is taken"""


@dataclass(frozen=True)
class Learned:
    """A schema, why its properties were judged so, and the range of each number; events: how many it comes from."""

    schema: Schema
    ranges: Ranges
    events: int
    reasons: Mapping[str, str]


def learn(
    events: Sequence[Mapping[str, Any]],
    topic: str,
    *,
    dimensions: Sequence[str] | None = None,
    time: str | None = None,
    schema: Schema | None = None,
) -> Learned:
    """What these events teach; a schema that is given is taken as it is.

    >>> found = learn([{"room": "a", "t": 20.5}, {"room": "a", "t": 22.0}], "rooms", dimensions=["room"])
    >>> found.ranges
    {'t': (20.5, 22.0)}
    """
    reasons: Mapping[str, str] = {}
    if schema is None:
        some = events[:: max(1, -(-len(events) // LIMIT))]
        found = explain(some, topic, dimensions=dimensions, time=time, limit=LIMIT)
        schema, reasons = found.schema, found.reasons
    return Learned(schema, ranges_of([batch_of(events, schema).batch], schema), len(events), reasons)


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
