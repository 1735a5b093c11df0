"""Topics into a table: every event once, in the folder of its topic and of its own date.

A batch is a range of the topics' logs that Spark writes down before it is read, and its files count only once all of
them are there: whatever is killed, the same range gives the same rows again, and they are seen once. When a topic gets
a new schema, the batch that would reach it is not begun; the query starts again with the new columns, and rows of
before have nulls there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from thinwire.brokers.nats.blocking import open_source
from thinwire.codec.demand import Tolerance
from thinwire.errors import ConfigError, JobFailed
from thinwire.schema import Schema
from thinwire.spark.jobs.ingest_asking import identity_of, subscribe
from thinwire.spark.jobs.ingest_tables import Table
from thinwire.spark.jobs.stream_progress import Tell, Watch
from thinwire.spark.jobs.time_columns import date_of, named, seconds_of
from thinwire.topics.log_tables import TopicSchemas
from thinwire.topics.names import check_topic

CHECKPOINT = "_checkpoint"
BY = ("topic", "date")
MAX_OFFSETS = 500_000
"""messages of a batch"""


@dataclass(frozen=True)
class Ingested:
    """What a run landed: rows, batches, and by topic the offset of the next message to read."""

    rows: int
    batches: int
    offsets: Mapping[str, int]


@dataclass(frozen=True)
class _Job:
    """What is to land where."""

    servers: str = field(repr=False)
    topics: tuple[str, ...]
    table: Table
    checkpoint: str
    start: str
    trigger: float | None
    options: Mapping[str, str]
    connection: Mapping[str, Any] = field(repr=False)


def ingest(
    spark: SparkSession,
    servers: str,
    topics: Sequence[str],
    table: str,
    *,
    start: str = "earliest",
    trigger: float | None = None,
    seconds: float | None = None,
    tolerance: Mapping[str, Tolerance] | None = None,
    default_tolerance: float = 0,
    checkpoint: str | None = None,
    max_offsets: int = MAX_OFFSETS,
    fail_on_data_loss: bool = True,
    by: Sequence[str] = BY,
    stop: Event | None = None,
    progress: Tell | None = None,
    **connection: Any,
) -> Ingested:
    """Land topics in a table; returns when everything is there that is there now, or with a trigger when told to.

    start: where a new table begins: earliest, latest, or an object of offsets by topic as JSON
    trigger: seconds between two batches; None: read what is there now, and end
    seconds, stop: with a trigger, how long it goes on, and what ends it; either way behind the batch that runs
    tolerance, default_tolerance: what the table asks of publishers from now on; exact values where nothing is said
    checkpoint: where the query keeps its place, by default a folder within the table's
    by: names of the columns for the topic and the date, by which the files lie in folders
    """
    if not topics:
        raise ConfigError("name at least one topic", topics=[])
    if len(by) != 2:
        raise ConfigError("two columns name the folders: one for the topic, one for the date", by=list(by))
    place = table.rstrip("/")
    job = _Job(
        servers=servers,
        topics=tuple(dict.fromkeys(map(check_topic, topics))),
        table=Table(spark, place, by),
        checkpoint=(checkpoint or f"{place}/{CHECKPOINT}").rstrip("/"),
        start=start,
        trigger=trigger,
        options={"maxOffsetsPerTrigger": str(max_offsets), "failOnDataLoss": str(fail_on_data_loss).lower()},
        connection=connection,
    )
    watch = Watch(seconds, progress)
    schemas, frame = _prepared(spark, job)
    subscribe(servers, job.topics, identity_of(table), tolerance or {}, default_tolerance, connection)
    while not _landed(job, frame, watch, stop or Event(), schemas):
        schemas, frame = _prepared(spark, job)
    done = watch.progress
    return Ingested(done.rows, done.batches, dict(done.offsets))


def _prepared(spark: SparkSession, job: _Job) -> tuple[dict[str, Schema], DataFrame]:
    """The schemas as they are now and the stream made for them, which the table can take."""
    schemas = _schemas(job)
    frame = _frame(spark, job, schemas)
    job.table.check(frame.schema, job.checkpoint)
    return schemas, frame


def _landed(job: _Job, frame: DataFrame, watch: Watch, stop: Event, schemas: Mapping[str, Schema]) -> bool:
    """Run a query to its end; False where it has to be begun again because of a new schema."""
    query = _started(job, frame)
    try:
        watch.until_over(query, stop)
    except StreamingQueryException as problem:
        if _schemas(job) != schemas:
            return False
        raise JobFailed(_reason(problem), table=job.table.place) from problem
    finally:
        query.stop()
    return True


def _schemas(job: _Job) -> dict[str, Schema]:
    with open_source(job.servers, **job.connection) as source:
        return {topic: TopicSchemas(source, topic).current for topic in job.topics}


def _frame(spark: SparkSession, job: _Job, schemas: Mapping[str, Schema]) -> DataFrame:
    """The stream of events, with the columns that name the folders."""
    expected = {topic: schema.fingerprint.hex() for topic, schema in schemas.items()}
    reader = spark.readStream.format("thinwire").option("servers", job.servers)
    reader = reader.options(**job.options, **job.connection)
    reader = reader.option("startingOffsets", job.start).option("expectSchemas", json.dumps(expected))
    frame = reader.option("subscribe", ",".join(job.topics)).load()
    topic, date = job.table.by
    taken = next((name for name in frame.columns if name.lower() in (topic.lower(), date.lower())), None)
    if taken is not None:
        detail = "the events have a property of that name: name the folders otherwise, with --by TOPIC,DATE"
        raise ConfigError(detail, property=taken, by=list(job.table.by))
    return frame.withColumn(topic, F.col("_topic")).withColumn(date, _date(frame, schemas))


def _date(frame: DataFrame, schemas: Mapping[str, Schema]) -> Column:
    """The date of the event's own time where it tells one, else of the moment at which the broker stored it."""
    own = [
        F.when(
            F.col("_topic") == F.lit(topic),
            date_of(seconds_of(named(schema.time.name), frame.schema[schema.time.name].dataType)),
        )
        for topic, schema in schemas.items()
        if schema.time is not None
    ]
    return F.coalesce(*own, date_of(seconds_of(F.col("_time"), frame.schema["_time"].dataType)))


def _started(job: _Job, frame: DataFrame) -> StreamingQuery:
    writer = frame.writeStream.format("parquet").partitionBy(*job.table.by)
    writer = writer.option("path", job.table.place).option("checkpointLocation", job.checkpoint)
    if job.trigger is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{round(job.trigger * 1000)} milliseconds").start()


def _reason(problem: BaseException) -> str:
    """The error of ours that made a query fail, out of the trace that Spark hands over; else its first line."""
    found = re.findall(r"thinwire\.errors\.\w+: (.+)", str(problem))
    return found[-1] if found else str(problem).strip().partition("\n")[0]
