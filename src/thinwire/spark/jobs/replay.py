"""A table onto a topic: the events of every source in their order, as fast as they came, or faster.

Sources are dealt to publishers, each a task of its own. All of them go by one clock: the first event of the table is
due at the start, every other one as much later as it came after that, divided by the speed. What a table says about
its rows (`_time`, `_offset`, `_ordinal`) puts them in the order in which they were published; their own time does so
where it is silent: for sources that share a message, and for tables from elsewhere.

The schema of a topic that a table is played onto: the topic's own, that of the topic the rows came from, or one
that is found from rows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from secrets import token_hex
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from thinwire.brokers.nats.blocking import open_source
from thinwire.brokers.protocol import LogSource
from thinwire.client.bus import connect
from thinwire.errors import ConfigError, MissingData, UnknownTopic
from thinwire.schema import Schema, infer
from thinwire.schema.event import nest
from thinwire.spark.action_progress import Progress, watched
from thinwire.spark.jobs.ingest import BY, run_apart
from thinwire.spark.jobs.time_columns import named, seconds_of
from thinwire.spark.source.sink import DUE, WriteOptions, check_columns, event_columns, publish_part
from thinwire.spark.source.source_schema import arrow_of
from thinwire.topics.log_tables import TopicSchemas

SAMPLE = 10_000
"""rows from which a schema is found"""


def resolve_replay_schema(
    to: WriteOptions, rows: DataFrame, dimensions: Sequence[str] | None, time: str | None
) -> Schema:
    """The schema to publish under; where the topic has none, it is registered, and its events are retained."""
    with open_source(to.servers, **to.connection) as source:
        found = _registered(source, to.topic)
        if found is not None:
            return found
        made = None if dimensions or time else _copied(source, to.topic, rows)
    made = made or _found(to.topic, rows, dimensions, time)
    run_apart(_register(to, made))
    return made


async def _register(to: WriteOptions, schema: Schema) -> None:
    async with connect(to.servers, services=False, **dict[str, Any](to.connection)) as bus:
        await bus.register(schema, retain=True)


def _registered(source: LogSource, topic: str) -> Schema | None:
    try:
        return TopicSchemas(source, topic).current
    except UnknownTopic:
        return None


def _copied(source: LogSource, topic: str, rows: DataFrame) -> Schema | None:
    """The schema of the topic that the rows came from, under the new name."""
    told = rows.select("_topic").first() if "_topic" in rows.columns else None
    of = _registered(source, told["_topic"]) if told is not None else None
    return Schema(topic, [p for p in of if not p.confidential]) if of is not None else None


def _found(topic: str, rows: DataFrame, dimensions: Sequence[str] | None, time: str | None) -> Schema:
    """The schema that the first rows show."""
    table = rows.select(*map(named, event_columns(rows.columns))).limit(SAMPLE).toArrow()
    events = [nest({name: value for name, value in row.items() if value is not None}) for row in table.to_pylist()]
    if not events:
        raise MissingData("the table has no rows to find a schema from", topic=topic)
    return infer(events, topic, dimensions=dimensions, time=time)


LEAD = 2.0
"""seconds until the first event is due, in which tasks start"""
ORDER = ("_time", "_offset", "_ordinal")
SOURCE = "_source"
_WRITTEN = "publisher string, rows long, refused long, messages long, unheard boolean"


@dataclass(frozen=True)
class Replayed:
    """What a replay came to: rows published, rows refused, messages; unheard: nobody wanted them: none was stored."""

    rows: int
    refused: int
    messages: int
    publishers: int
    unheard: bool


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
) -> Replayed:
    """Publish the rows of a Parquet table.

    speed: how many times faster than the events came; None: as fast as it goes
    limit: the first rows only; publishers: how many share the sources, at most as many as there are cores
    of: of a table of several topics, the one whose rows are played
    dimensions, event_time: what identifies a source and what tells the time, where a schema has to be found
    name: how the names of publishers begin; one that is played again under it takes them over
    by: of a table that `ingest` wrote, the columns that name its folders: they are no part of the events
    """
    _check(speed, limit, publishers)
    rows = _of_topic(_rows(spark, table), of, table)
    if "_topic" in rows.columns:
        rows = rows.drop(*by)
    options = {"servers": servers, "topic": topic, **({"publisher": name} if name else {}), **connection}
    to = WriteOptions.read(options)
    schema = resolve_replay_schema(to, rows, dimensions, event_time)
    frame = _ordered(_columns(rows, schema), schema, speed, limit, publishers)
    check_columns(arrow_of(frame.schema), schema)
    run = f"replay-{token_hex(6)}"

    def publish(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        done = publish_part(to, schema, run, iter(batches))
        yield pa.RecordBatch.from_pylist([vars(done)])

    parts = watched(spark, frame.mapInArrow(publish, _WRITTEN).collect, progress)
    taken, refused, messages = (sum(part[what] for part in parts) for what in ("rows", "refused", "messages"))
    return Replayed(taken, refused, messages, publishers, any(part["unheard"] for part in parts))


def _check(speed: float | None, limit: int | None, publishers: int) -> None:
    if speed is not None and not 0 < speed < 1e9:
        raise ConfigError("a speed is a number above 0, or max", speed=speed)
    if limit is not None and limit < 1:
        raise ConfigError("play at least one row", limit=limit)
    if not 1 <= publishers <= 1_000:
        raise ConfigError("1 to 1000 publishers", publishers=publishers)


def _rows(spark: SparkSession, table: str) -> DataFrame:
    try:
        return spark.read.option("mergeSchema", "true").parquet(table)
    except AnalysisException as problem:
        raise MissingData(f"no Parquet table there: {str(problem).partition('.')[0]}", table=table) from None


def _of_topic(rows: DataFrame, of: str | None, table: str) -> DataFrame:
    """The rows of one topic."""
    if "_topic" not in rows.columns:
        if of is not None:
            raise ConfigError("the table does not say of which topic a row is: leave it out", of=of, table=table)
        return rows
    if of is not None:
        return rows.where(F.col("_topic") == F.lit(of))
    topics = sorted(row["_topic"] for row in rows.select("_topic").distinct().limit(20).collect())
    if len(topics) > 1:
        raise ConfigError("the table holds several topics: say which to play, with --of", topics=topics)
    return rows


def _columns(rows: DataFrame, schema: Schema) -> DataFrame:
    """What is needed of a row: the event, and where it stands; columns that nobody ever filled are left out."""
    known = {p.name for p in schema} | set(schema.tree)
    events = event_columns(rows.columns)
    about = [name for name in (*ORDER, SOURCE) if name in rows.columns]
    strange = [name for name in events if name not in known]
    if strange:
        told = rows.select(*(F.max(named(name).isNotNull()).alias(f"c{at}") for at, name in enumerate(strange))).first()
        empty = {name for name, has in zip(strange, told or (), strict=True) if not has}
        events = [name for name in events if name not in empty]
    return rows.select(*(named(name) for name in (*events, *about)))


def _ordered(rows: DataFrame, schema: Schema, speed: float | None, limit: int | None, publishers: int) -> DataFrame:
    """The rows dealt to publishers by their source, in order, each with the instant at which it is due."""
    seconds = _seconds(rows, schema)
    told = [F.col(name) for name in ORDER if name in rows.columns]
    own = [seconds] if seconds is not None else []
    order = told + own  # ordinals first: they are the order of a source, whatever its clock says
    if limit is not None:
        rows = rows.orderBy(*told[:-1], *own, *told[-1:]).limit(limit)
    if speed is not None:
        rows = rows.withColumn(DUE, _due(rows, seconds, speed))
    source = [SOURCE] if SOURCE in rows.columns else [p.name for p in schema.dimensions if p.name in rows.columns]
    dealt = rows.repartition(publishers, *map(named, source)) if source and publishers > 1 else rows.repartition(1)
    return dealt.sortWithinPartitions(*order) if order else dealt


def _seconds(rows: DataFrame, schema: Schema) -> Column | None:
    """When an event came: its own time, else that of the message that brought it."""
    own = schema.time.name if schema.time is not None and schema.time.name in rows.columns else None
    stamp = own or ("_time" if "_time" in rows.columns else None)
    return seconds_of(named(stamp), rows.schema[stamp].dataType) if stamp is not None else None


def _due(rows: DataFrame, seconds: Column | None, speed: float) -> Column:
    if seconds is None:
        raise ConfigError("the rows tell no time: name its column with --time, or play them with --speed max")
    first = rows.agg(F.min(seconds).alias("first")).collect()[0]["first"] or 0.0
    return F.lit(time.time() + LEAD) + (seconds - F.lit(float(first))) / F.lit(float(speed))
