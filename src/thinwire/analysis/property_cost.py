"""The ranges of numbers in the training part, and the cost of each property.

The cost of a property at a level is the difference of two encodings of a sample of the held-out events, with and
without the property. Properties share masks and frame headers, so the costs do not add up to the total.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from thinwire.analysis.publisher_run import encode_batch
from thinwire.analysis.strategies import Level, Ranges, Strategy, tolerant_properties
from thinwire.codec import StreamEncoder
from thinwire.codec.kernel_warmup import warm_up as compile_kernels
from thinwire.schema import Schema

MAX_SCHEMA_EVENTS = 100_000
"""largest number of events from which a schema is inferred; of more events, every second, third, ... is used"""
_SAMPLE_VALUES = 200_000
"""number of values, which is rows times properties, of the sample for the costs"""


@dataclass(frozen=True)
class TrainingSummary:
    """The results of the training part.

    schema: schema of the events; ranges: smallest and largest value of each number
    events: number of training events
    """

    schema: Schema
    ranges: Ranges
    events: int


def find_ranges(batches: Iterable[pa.RecordBatch], schema: Schema) -> dict[str, tuple[float, float]]:
    """Return the smallest and largest value of every number that may have a tolerance."""
    properties = tolerant_properties(schema)
    ends = ({p.name: pc.min_max(batch.column(p.name)).as_py() for p in properties} for batch in batches)
    return merge_ranges(
        {name: (float(e["min"]), float(e["max"])) for name, e in part.items() if e["min"] is not None} for part in ends
    )


def merge_ranges(parts: Iterable[Ranges]) -> dict[str, tuple[float, float]]:
    """Return the ranges of all parts together."""
    merged: dict[str, tuple[float, float]] = {}
    for part in parts:
        for name, (low, high) in part.items():
            lowest, highest = merged.get(name, (low, high))
            merged[name] = (min(low, lowest), max(high, highest))
    return merged


@dataclass(frozen=True)
class PropertyCost:
    """The cost of a property at a level.

    property, level: names
    bytes_per_event: bytes of data frames per event that the property causes
    sent_share: share of the property's values that are in frames
    """

    property: str
    level: str
    bytes_per_event: float
    sent_share: float


def sample_size(schema: Schema) -> int:
    """Return the number of rows of the sample for the costs, which decreases with the number of properties."""
    return max(1_000, min(20_000, _SAMPLE_VALUES // max(1, len(schema.wire))))


def measure_property_costs(
    batch: pa.RecordBatch, schema: Schema, levels: Iterable[Level], ranges: Ranges
) -> list[PropertyCost]:
    """Measure every property at every level on a sample, in the compact format."""
    compile_kernels()
    rows = max(1, batch.num_rows)
    costs: list[PropertyCost] = []
    for level in levels:
        complete = _encode(batch, schema, level, ranges)
        for p in schema.wire:
            other_names = [q.name for q in schema if q is not p]
            without = _encode(batch, schema.select(other_names), level, ranges) if len(schema.wire) > 1 else (0, 0)
            size, sent = (a - b for a, b in zip(complete, without, strict=True))
            costs.append(PropertyCost(p.name, level.name, size / rows, sent / rows))
    return costs


def _encode(batch: pa.RecordBatch, schema: Schema, level: Level, ranges: Ranges) -> tuple[int, int]:
    """Return the bytes of data frames, and the number of values in them."""
    requested = tuple((name, value) for name, value in level.requested if name in schema)
    config = Strategy(Level(level.name, level.share, requested)).stream_config(schema, ranges)
    encoder = StreamEncoder(schema, config)
    encoder.start(0.0)
    encode_batch(encoder, batch.select([p.name for p in schema]), 0.0)
    counts = encoder.counts
    return counts.data_bytes, counts.events * len(schema.wire) - encoder.suppressed_values
