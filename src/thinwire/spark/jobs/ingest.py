"""Topics into a table: every event once, in the folder of its topic and of its own date.

A batch is a range of the topics' logs that Spark writes down before it is read, and its files count only once all of
them are there: whatever is killed, the same range gives the same rows again, and they are seen once. When a topic gets
a new schema, the batch that would reach it is not begun; the query starts again with the new columns, and rows of
before have nulls there.

A job as a subscriber: a topic that lands in a table is wanted, whether the job runs at the moment or not.

A table that a stream writes: Parquet files, and beside them Spark's own log of those that count.

The log makes every batch visible at once or not at all. It also remembers the numbers of batches: a query whose
checkpoint is gone would begin to count anew, and its first batches would be taken for ones that are there already.
Such a query must not run.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from dataclasses import field as dataclasses_field
from hashlib import sha256
from threading import Event
from typing import Any, TypeVar

from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import DataType, StructType

from thinwire.brokers.nats.blocking import open_source
from thinwire.client.bus import connect
from thinwire.codec.demand import Tolerance
from thinwire.errors import ConfigError, DemandError, JobFailed, TableMismatch
from thinwire.schema import Schema
from thinwire.spark.jobs.stream_progress import QueryMonitor, Tell
from thinwire.spark.jobs.time_columns import date_of, named, seconds_of
from thinwire.topics.log_tables import TopicSchemas
from thinwire.topics.names import check_topic
from thinwire.topics.registry_client import current_schema, open_registry, put_subscription
from thinwire.topics.topic_documents import SubscriptionDocument

T = TypeVar("T")


def identity_of(table: str) -> str:
    """The name under which a table subscribes: its own, and a few signs that tell it from others of that name.

    >>> identity_of("/lake/rooms/")
    'table-rooms-d4b0071c'
    """
    place = table.rstrip("/") if "://" in table else os.path.abspath(table)
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", place.rpartition("/")[2])[:40]
    return f"table-{name}-{sha256(place.encode()).hexdigest()[:8]}"


def subscribe(
    servers: str,
    topics: Sequence[str],
    identity: str,
    tolerance: Mapping[str, Tolerance],
    default_tolerance: float,
    connection: Mapping[str, Any],
) -> None:
    """Enter durable subscriptions with these tolerances; each counts for the topics that have the property."""

    async def ask() -> None:
        async with connect(servers, services=False, **connection) as bus:
            bucket = await open_registry(bus.broker)
            schemas = {topic: await current_schema(bucket, topic) for topic in topics}
            known = {p.name for schema in schemas.values() for p in schema}
            if unknown := sorted(tolerance.keys() - known):
                raise DemandError("no topic has this property", property=unknown[0], choose_from=sorted(known))
            for topic, schema in schemas.items():
                asked = {name: value for name, value in tolerance.items() if name in schema}
                document = SubscriptionDocument(
                    topic,
                    identity,
                    tolerance=asked,
                    default_tolerance=default_tolerance,
                    durable=identity,
                    since=time.time(),
                )
                await put_subscription(bucket, document, schema)

    run_apart(ask())


def forget(servers: str, topics: Sequence[str], table: str, **connection: Any) -> None:
    """A table no longer asks for topics; where nobody else does, and they are not retained, publishers fall silent."""

    async def end() -> None:
        async with connect(servers, services=False, **connection) as bus:
            for topic in topics:
                await bus.forget(topic, identity_of(table))

    run_apart(end())


def run_apart(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine, whether the caller is in a loop (a notebook) or not."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


SINK_LOG = "_spark_metadata"
MISSING = ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA")
"""what Spark calls a folder that is not there, or that has no files"""


class Table:
    """A table at a place that Spark reaches.

    by: the columns that name its folders
    """

    def __init__(self, spark: SparkSession, place: str, by: Sequence[str]) -> None:
        self.place = place.rstrip("/")
        self.by = tuple(by)
        self._spark = spark

    def rows(self) -> DataFrame | None:
        """What it holds, with all columns it ever had; None where there is nothing yet."""
        try:
            return self._spark.read.option("mergeSchema", "true").parquet(self.place)
        except AnalysisException as problem:
            _expect_missing(problem)
            return None

    def check(self, columns: StructType, checkpoint: str) -> None:
        """Refuse a table that cannot take rows with these columns; nothing is written."""
        begun = bool(_listed(self._spark, f"{checkpoint}/offsets"))
        if _listed(self._spark, f"{self.place}/{SINK_LOG}") is None:
            if not begun and _listed(self._spark, self.place):
                detail = "its files are not a stream's: new ones would hide them. Name another folder"
                raise TableMismatch(detail, table=self.place)
            return
        rows = self.rows()
        if rows is None:
            return
        self._check_columns(rows.schema, columns)
        if not begun:
            self._refuse_to_double(rows, checkpoint)

    def _check_columns(self, known: StructType, columns: StructType) -> None:
        for name in (*self.by, "_topic", "_offset"):
            if name not in known.names:
                detail = "it was not made by `thinwire ingest` with these folders: name another folder"
                raise TableMismatch(detail, table=self.place, missing=name)
        for field in columns:
            if field.name not in known.names or field.name in self.by:
                continue
            there = known[field.name].dataType
            if not _takes(there, field.dataType):
                detail = "a column has another type there: land the topic in another table"
                types = {"table_type": there.simpleString(), "topic_type": field.dataType.simpleString()}
                raise TableMismatch(detail, table=self.place, column=field.name, **types)

    def _refuse_to_double(self, rows: DataFrame, checkpoint: str) -> None:
        reached = rows.groupBy("_topic").agg(F.max("_offset").alias("last")).collect()
        ahead = json.dumps({row["_topic"]: row["last"] + 1 for row in reached})
        detail = f"it has rows, but its checkpoint is gone. Land what follows in another table, with --from '{ahead}'"
        raise TableMismatch(detail, table=self.place, checkpoint=checkpoint)


def _listed(spark: SparkSession, place: str) -> list[str] | None:
    """The files in a folder and below it; None where there is none of this name."""
    try:
        return spark.read.option("recursiveFileLookup", "true").text(place).inputFiles()
    except AnalysisException as problem:
        _expect_missing(problem)
        return None


def _expect_missing(problem: AnalysisException) -> None:
    """That nothing is there is an answer; any other problem is raised again."""
    if problem.getCondition() not in MISSING:
        raise problem


def _takes(there: DataType, given: DataType) -> bool:
    """Can both be read as one column? Groups may have different members; one that both have is of one type."""
    if isinstance(there, StructType) and isinstance(given, StructType):
        known = {field.name: field.dataType for field in there}
        return all(_takes(known.get(field.name, field.dataType), field.dataType) for field in given)
    return there.simpleString() == given.simpleString()


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

    servers: str = dataclasses_field(repr=False)
    topics: tuple[str, ...]
    table: Table
    checkpoint: str
    start: str
    trigger: float | None
    options: Mapping[str, str]
    connection: Mapping[str, Any] = dataclasses_field(repr=False)


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
    watch = QueryMonitor(seconds, progress)
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


def _landed(job: _Job, frame: DataFrame, watch: QueryMonitor, stop: Event, schemas: Mapping[str, Schema]) -> bool:
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
