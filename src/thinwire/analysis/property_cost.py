"""What the first part of a stream teaches: its schema and the ranges of its numbers. The rest is never looked at.

What each property costs, and what it would cost at other tolerances.

By leaving it out: a sample of the held-out events is published with the property and without it, and the difference in
data bytes is its cost. Properties share masks and headers of frames, so the costs do not add up to the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from thinwire.analysis.event_columns import events_of, fits
from thinwire.analysis.strategies import Level, Ranges, Strategy, measured
from thinwire.codec import StreamEncoder
from thinwire.codec.batch_encoder import publish_batch
from thinwire.codec.kernel_warmup import warm_up
from thinwire.errors import EventRejected
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


_WORK = 200_000
"""rows times properties of a sample"""


@dataclass(frozen=True)
class PropertyCost:
    """A property at a level: its tolerance, data bytes an event, and the share of its values that travel."""

    property: str
    level: str
    tolerance: float
    bytes_per_event: float
    told: float


def sample_size(schema: Schema) -> int:
    """Rows that are enough for a figure and few enough for every property to be left out in turn."""
    return max(1_000, min(20_000, _WORK // max(1, len(schema.wire))))


def study(batch: pa.RecordBatch, schema: Schema, levels: Iterable[Level], ranges: Ranges) -> list[PropertyCost]:
    """Every property at every level, in the compact format."""
    warm_up()
    batch = batch.slice(0, sample_size(schema))
    found: list[PropertyCost] = []
    for level in levels:
        tolerances = level.tolerances(schema, ranges)
        whole = _published(batch, schema, level, ranges)
        for p in schema.wire:
            rest = [q.name for q in schema if q.name != p.name]
            without = _published(batch, schema.select(rest), level, ranges) if len(schema.wire) > 1 else (0, 0)
            size, told = (a - b for a, b in zip(whole, without, strict=True))
            rows = max(1, batch.num_rows)
            found.append(PropertyCost(p.name, level.name, tolerances.get(p.name, 0.0), size / rows, told / rows))
    return found


def _published(batch: pa.RecordBatch, schema: Schema, level: Level, ranges: Ranges) -> tuple[int, int]:
    """Data bytes, and values that travelled."""
    asked = tuple((name, value) for name, value in level.asked if name in schema)
    config = Strategy(Level(level.name, level.share, asked)).link_config(schema, ranges)
    publisher = StreamEncoder(schema, config)
    publisher.start(0.0)
    batch = batch.select([p.name for p in schema])
    if fits(schema):
        publish_batch(publisher, batch, 0.0)
    else:
        _singly(publisher, batch)
    counts = publisher.counts
    return counts.data_bytes, counts.events * len(schema.wire) - publisher.suppressed_values


def _singly(publisher: StreamEncoder, batch: pa.RecordBatch) -> None:
    for event in events_of(batch, publisher.schema):
        try:
            publisher.publish(event, 0.0)
        except EventRejected:
            continue
