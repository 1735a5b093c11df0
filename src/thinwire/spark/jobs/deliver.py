"""What thresholds would deliver of recorded events: the filters of the live system over a table, on Spark.

Rows of a source stay together and in their order. A task walks through its sources one after the other and keeps one
state for each threshold; so a month of events is read once, however many thresholds are tried. A property without a
value is no reading and passes by.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, LongType, NumericType, StructField, StructType

from thinwire.errors import ConfigError
from thinwire.filters.thresholds import checked_thresholds
from thinwire.filters.thresholds_steps import ranged, ticks_of
from thinwire.spark.jobs.deliver_deliver_sources import counted, kept
from thinwire.spark.jobs.replay import ORDER, SOURCE
from thinwire.spark.jobs.time_columns import named

THRESHOLD = "threshold"
COUNTS = [
    StructField(THRESHOLD, DoubleType()),
    StructField("events", LongType()),
    StructField("delivered", LongType()),
    StructField("share", DoubleType()),
    StructField("largest_gap", DoubleType()),
    StructField("longest_silence", LongType()),
]
"""of each source and threshold: the share of events delivered, how far the copy was off at worst, and the most events
in a row of which nothing was heard"""


@dataclass(frozen=True)
class Asked:
    """What is to be filtered, as tasks need it.

    thresholds: in ticks of `step`, ascending
    source, order: columns that tell sources apart, and that put the rows of each in order
    """

    property: str
    thresholds: tuple[int, ...]
    step: float
    source: tuple[str, ...]
    order: tuple[str, ...]


def deliver(
    frame: DataFrame,
    property: str,
    thresholds: str | Sequence[float],
    *,
    step: float = 1,
    source: Sequence[str] | None = None,
    order: Sequence[str] | None = None,
    rows: bool = False,
) -> DataFrame:
    """For each source and threshold what would have been delivered; with `rows` the rows themselves.

    thresholds: in the unit of the property, whole numbers of `step`; as a text "1..1000", "0.5,2" or both
    step: the size of a tick; values are rounded to it
    source: columns that tell sources apart; by default the one that `thinwire ingest` writes, else all is one source
    order: columns that put events in order, by default those that `thinwire ingest` writes
    """
    ticks = checked_thresholds(ranged(thresholds, step) if isinstance(thresholds, str) else ticks_of(thresholds, step))
    there = frame.columns
    by = tuple(source if source is not None else [SOURCE] if SOURCE in there else [])
    along = tuple(order if order is not None else [name for name in ORDER if name in there])
    asked = Asked(property, tuple(ticks.tolist()), float(step), by, along)
    _check(frame, asked)
    return _filtered(_arranged(frame, asked), asked, rows)


def totals(counts: DataFrame) -> DataFrame:
    """The same over all sources, by threshold."""
    summed = counts.groupBy(THRESHOLD).agg(
        F.count("*").alias("sources"),
        F.sum("events").alias("events"),
        F.sum("delivered").alias("delivered"),
        F.max("largest_gap").alias("largest_gap"),
        F.max("longest_silence").alias("longest_silence"),
    )
    return summed.withColumn("share", F.col("delivered") / F.col("events")).orderBy(THRESHOLD)


def _check(frame: DataFrame, asked: Asked) -> None:
    if not asked.thresholds:
        raise ConfigError("name at least one", field="thresholds")
    if not asked.order:
        raise ConfigError("say which columns put the rows in order", field="order", choose_from=frame.columns)
    about = dict.fromkeys((*asked.source, *asked.order))
    for name in (asked.property, *about):
        if name not in frame.columns:
            raise ConfigError("no such column", column=name, choose_from=frame.columns)
        if name == THRESHOLD:
            raise ConfigError("the result has a column of this name: rename it", column=name)
    kind = frame.schema[asked.property].dataType
    if asked.property in about or not isinstance(kind, NumericType):
        detail = "a property to filter is a number, and no part of a source or of the order"
        raise ConfigError(detail, field="property", column=asked.property, type=kind.simpleString())


def _arranged(frame: DataFrame, asked: Asked) -> DataFrame:
    """The columns that are needed, readings only, sources together and in order."""
    about = dict.fromkeys((*asked.source, *asked.order))
    value = named(asked.property)
    rows = frame.select(*map(named, about), value.cast("double").alias(asked.property))
    rows = rows.where(value.isNotNull() & ~F.isnan(value))
    by, along = [named(name) for name in asked.source], [named(name) for name in asked.order]
    dealt = rows.repartition(*by) if by else rows.repartition(1)
    return dealt.sortWithinPartitions(*by, *along)


def _filtered(arranged: DataFrame, asked: Asked, rows: bool) -> DataFrame:
    there = arranged.schema.fields
    fields = [*there, COUNTS[0]] if rows else [*there[: len(asked.source)], *COUNTS]
    work = kept if rows else counted

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return work(batches, asked.thresholds, asked.step, len(asked.source))

    return arranged.mapInArrow(run, StructType(fields))
