"""Replay of a table onto a topic: the events of every source in order, at their original rate or faster.

Sources are distributed over publishers, one task each, with a common clock: an event is due as long after the start as
it is after the first event of the table, divided by the speed. Rows are ordered by `_time`, `_offset` and `_ordinal`
if the table has them, then by event time.

The events have the schema of the target topic if it is registered, otherwise the schema of the topic that the rows come
from, otherwise one inferred from the rows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from secrets import token_hex
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from thinwire.brokers.nats.blocking import open_source
from thinwire.brokers.protocol import LogSource
from thinwire.errors import ConfigError, MissingData, UnknownTopic
from thinwire.schema import Schema, infer
from thinwire.schema.event import nest
from thinwire.spark.action_progress import Progress, run_action
from thinwire.spark.jobs.ingest import BY, run_with_bus
from thinwire.spark.jobs.time_columns import named, seconds_of
from thinwire.spark.source.sink import (
    DUE,
    SinkResult,
    WriteOptions,
    check_columns,
    event_columns,
    publish_partition,
    sum_results,
)
from thinwire.spark.source.source_schema import arrow_of
from thinwire.topics.log_tables.source_broker import read_topic

SAMPLE = 10_000
"""rows from which a schema is inferred"""


def resolve_replay_schema(
    target: WriteOptions, rows: DataFrame, dimensions: Sequence[str] | None, time: str | None
) -> Schema:
    """Return the schema of the target topic. A new topic is registered, with `retain`."""
    with open_source(target.servers, **target.connection) as source:
        found = _registered(source, target.topic)
        if found is not None:
            return found
        schema = None if dimensions or time else _copy_schema(source, target.topic, rows)
    schema = schema or _infer_schema(target.topic, rows, dimensions, time)
    run_with_bus(target.servers, target.connection, lambda bus: bus.register(schema, retain=True))
    return schema


def _registered(source: LogSource, topic: str) -> Schema | None:
    try:
        return read_topic(source, topic).schema
    except UnknownTopic:
        return None


def _copy_schema(source: LogSource, topic: str, rows: DataFrame) -> Schema | None:
    """Return the schema of the topic that the rows come from, under the new name."""
    first = rows.select("_topic").first() if "_topic" in rows.columns else None
    original = _registered(source, first["_topic"]) if first is not None else None
    return Schema(topic, [p for p in original if not p.confidential]) if original is not None else None


def _infer_schema(topic: str, rows: DataFrame, dimensions: Sequence[str] | None, time: str | None) -> Schema:
    table = rows.select(*map(named, event_columns(rows.columns))).limit(SAMPLE).toArrow()
    events = [nest({name: value for name, value in row.items() if value is not None}) for row in table.to_pylist()]
    if not events:
        raise MissingData("the table has no rows to infer a schema from", topic=topic)
    return infer(events, topic, dimensions=dimensions, time=time)


LEAD = 2.0
"""seconds until the first event is due; tasks start meanwhile"""
ORDER = ("_time", "_offset", "_ordinal")
SOURCE = "_source"
_RESULT = "rows long, refused long, messages long, unheard boolean"


def replay(
    spark: SparkSession,
    servers: str,
    table: str,
    topic: str,
    *,
    speed: float | None = None,
    limit: int | None = None,
    publishers: int = 1,
    of: str | None = None,
    dimensions: Sequence[str] | None = None,
    event_time: str | None = None,
    name: str | None = None,
    by: Sequence[str] = BY,
    progress: Progress | None = None,
    **connection: Any,
) -> SinkResult:
    """Publish the rows of a Parquet table. Return the totals of all publishers.

    speed: factor of the original rate; None: as fast as possible
    limit: publish only the first rows; publishers: number of publishers, at most the number of cores
    of: the topic to publish, for a table of several topics
    dimensions, event_time: columns that identify a source and contain the event time, if a schema is inferred
    name: prefix of the publisher names; another replay with the same prefix takes the names over
    by: partition columns of a table written by `ingest`; they are not part of the events
    """
    if speed is not None and not 0 < speed < 1e9:
        raise ConfigError("a speed is a number above 0, or max", speed=speed)
    if limit is not None and limit < 1:
        raise ConfigError("at least one row", limit=limit)
    if not 1 <= publishers <= 1_000:
        raise ConfigError("1 to 1000 publishers", publishers=publishers)
    rows = _select_topic(_rows(spark, table), of, table)
    if "_topic" in rows.columns:
        rows = rows.drop(*by)
    options = {"servers": servers, "topic": topic, **({"publisher": name} if name else {}), **connection}
    target = WriteOptions.read(options)
    schema = resolve_replay_schema(target, rows, dimensions, event_time)
    frame = _ordered(_columns(rows, schema), schema, speed, limit, publishers)
    check_columns(arrow_of(frame.schema), schema)
    run = f"replay-{token_hex(6)}"

    def publish(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pylist([vars(publish_partition(target, schema, run, iter(batches)))])

    parts = run_action(spark, frame.mapInArrow(publish, _RESULT).collect, progress)
    return sum_results(SinkResult(*part) for part in parts)


def _rows(spark: SparkSession, table: str) -> DataFrame:
    try:
        return spark.read.option("mergeSchema", "true").parquet(table)
    except AnalysisException as problem:
        raise MissingData(f"no Parquet table there: {str(problem).partition('.')[0]}", table=table) from None


def _select_topic(rows: DataFrame, of: str | None, table: str) -> DataFrame:
    if "_topic" not in rows.columns:
        if of is not None:
            raise ConfigError("the table has no column _topic: remove the option", of=of, table=table)
        return rows
    if of is not None:
        return rows.where(F.col("_topic") == F.lit(of))
    topics = sorted(row["_topic"] for row in rows.select("_topic").distinct().limit(20).collect())
    if len(topics) > 1:
        raise ConfigError("the table has several topics: choose one with --of", topics=topics)
    return rows


def _columns(rows: DataFrame, schema: Schema) -> DataFrame:
    """Select the columns of events and of their order, without unknown columns that contain only nulls."""
    known = {p.name for p in schema} | set(schema.tree)
    events = event_columns(rows.columns)
    metadata = [name for name in (*ORDER, SOURCE) if name in rows.columns]
    unknown = [name for name in events if name not in known]
    if unknown:
        has_value = [F.max(named(name).isNotNull()).alias(f"c{index}") for index, name in enumerate(unknown)]
        first = rows.select(*has_value).first()
        empty = {name for name, has in zip(unknown, first or (), strict=True) if not has}
        events = [name for name in events if name not in empty]
    return rows.select(*(named(name) for name in (*events, *metadata)))


def _ordered(rows: DataFrame, schema: Schema, speed: float | None, limit: int | None, publishers: int) -> DataFrame:
    """Return the rows partitioned by source and sorted, with the time at which each is due."""
    seconds = _seconds(rows, schema)
    metadata = [F.col(name) for name in ORDER if name in rows.columns]
    event_time = [seconds] if seconds is not None else []
    # The event time comes last: the clock of a source may have been set back, its ordinals may not.
    order = metadata + event_time
    if limit is not None:
        rows = rows.orderBy(*metadata[:-1], *event_time, *metadata[-1:]).limit(limit)
    if speed is not None:
        rows = rows.withColumn(DUE, _due(rows, seconds, speed))
    source = [SOURCE] if SOURCE in rows.columns else [p.name for p in schema.dimensions if p.name in rows.columns]
    rows = rows.repartition(publishers, *map(named, source)) if source else rows.repartition(1)
    return rows.sortWithinPartitions(*order) if order else rows


def _seconds(rows: DataFrame, schema: Schema) -> Column | None:
    """Return the event time, or the time of the message for events without one."""
    names = ([schema.time.name] if schema.time is not None else []) + ["_time"]
    found = next((name for name in names if name in rows.columns), None)
    return seconds_of(named(found), rows.schema[found].dataType) if found is not None else None


def _due(rows: DataFrame, seconds: Column | None, speed: float) -> Column:
    if seconds is None:
        raise ConfigError("the rows have no time: name its column with --time, or use --speed max")
    first = rows.agg(F.min(seconds).alias("first")).collect()[0]["first"] or 0.0
    return F.lit(time.time() + LEAD) + (seconds - F.lit(float(first))) / F.lit(float(speed))
