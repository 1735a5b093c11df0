"""What each property costs, and what it would cost at other tolerances.

By leaving it out: a sample of the held-out events is published with the property and without it, and the difference in
data bytes is its cost. Properties share masks and headers of frames, so the costs do not add up to the whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from thinwire.analysis.event_columns import events_of, fits
from thinwire.analysis.strategies_strategy import Level, Ranges, Strategy
from thinwire.codec import Publisher
from thinwire.codec.batch_encoder import publish_batch
from thinwire.codec.kernel_warmup import warm_up
from thinwire.errors import EventRejected
from thinwire.schema import Schema

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
    publisher = Publisher(schema, config)
    publisher.start(0.0)
    batch = batch.select([p.name for p in schema])
    if fits(schema):
        publish_batch(publisher, batch, 0.0)
    else:
        _singly(publisher, batch)
    counts = publisher.counts
    return counts.data_bytes, counts.events * len(schema.wire) - publisher.suppressed_values


def _singly(publisher: Publisher, batch: pa.RecordBatch) -> None:
    for event in events_of(batch, publisher.schema):
        try:
            publisher.publish(event, 0.0)
        except EventRejected:
            continue
