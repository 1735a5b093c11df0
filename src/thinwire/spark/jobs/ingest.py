"""Ingestion of topics into a Parquet table: every event once, partitioned by topic and event date.

Spark records the offsets of a batch in the checkpoint before it reads them, and commits the files of a batch in the
sink log (`_spark_metadata`) together. After a crash the same offsets are read again and give the same rows, once.

Before a batch would contain messages with a new schema of a topic, the query is restarted with the new columns. Earlier
rows are null there.

The sink log also contains batch numbers. A query with a new checkpoint would start at batch 0, and Spark would skip its
first batches as already committed. Such a query is refused.

The table has a durable subscription at the registry, so that publishers keep sending its topics while the job is
stopped.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import sha256
from threading import Event
from typing import Any, TypeVar

from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from thinwire.brokers.nats.blocking import open_source
from thinwire.client.bus import Bus, connect
from thinwire.codec.tolerance_vector import Tolerance
from thinwire.errors import ConfigError, DemandError, JobFailed, TableMismatch
from thinwire.schema import Schema
from thinwire.spark.jobs.stream_progress import JobProgress, OnProgress, QueryMonitor
from thinwire.spark.jobs.time_columns import date_of, named, seconds_of
from thinwire.topics.log_tables.source_broker import read_topic
from thinwire.topics.names import check_topic
from thinwire.topics.registry_client import current_schema, open_registry, put_subscription
from thinwire.topics.topic_documents import SubscriptionDocument

T = TypeVar("T")


def subscription_name(table: str) -> str:
    """Return the subscription name of a table: its base name and a hash of its path.

    >>> subscription_name("/lake/rooms/")
    'table-rooms-d4b0071c'
    """
    path = table.rstrip("/") if "://" in table else os.path.abspath(table)
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", path.rpartition("/")[2])[:40]
    return f"table-{name}-{sha256(path.encode()).hexdigest()[:8]}"


def subscribe(
    servers: str,
    topics: Sequence[str],
    identity: str,
    tolerance: Mapping[str, Tolerance],
    default_tolerance: float,
    connection: Mapping[str, Any],
) -> None:
    """Create durable subscriptions. A tolerance applies to the topics that have the property."""

    async def put_subscriptions(bus: Bus) -> None:
        bucket = await open_registry(bus.broker)
        schemas = {topic: await current_schema(bucket, topic) for topic in topics}
        known = {p.name for schema in schemas.values() for p in schema}
        if unknown := sorted(tolerance.keys() - known):
            raise DemandError("no topic has this property", property=unknown[0], choose_from=sorted(known))
        for topic, schema in schemas.items():
            document = SubscriptionDocument(
                topic,
                identity,
                tolerance={name: value for name, value in tolerance.items() if name in schema},
                default_tolerance=default_tolerance,
                durable=identity,
                since=time.time(),
            )
            await put_subscription(bucket, document, schema)

    run_with_bus(servers, connection, put_subscriptions)


def forget(servers: str, topics: Sequence[str], table: str, **connection: Any) -> None:
    """Remove the subscriptions of a table. Without others, publishers of topics that are not retained stop sending."""

    async def remove_subscriptions(bus: Bus) -> None:
        for topic in topics:
            await bus.forget(topic, subscription_name(table))

    run_with_bus(servers, connection, remove_subscriptions)


def run_with_bus(servers: str, connection: Mapping[str, Any], work: Callable[[Bus], Awaitable[Any]]) -> None:
    """Run a coroutine with a connection, in its own thread: a caller in a notebook has a running event loop."""

    async def run() -> None:
        async with connect(servers, services=False, **connection) as bus:
            await work(bus)

    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, run()).result()


SINK_LOG = "_spark_metadata"
MISSING = ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA")
"""Spark's error conditions for a missing or empty folder"""


class Table:
    """A Parquet table.

    by: the partition columns
    """

    def __init__(self, spark: SparkSession, path: str, by: Sequence[str]) -> None:
        if len(by) != 2:
            raise ConfigError("two partition columns are needed: topic and date", by=list(by))
        self.path = path
        self.by = tuple(by)
        self._spark = spark

    def check(self, columns: StructType, checkpoint: str) -> None:
        """Raise `TableMismatch` if rows with these columns cannot be appended."""
        has_checkpoint = bool(_list_files(self._spark, f"{checkpoint}/offsets"))
        if _list_files(self._spark, f"{self.path}/{SINK_LOG}") is None:
            if not has_checkpoint and _list_files(self._spark, self.path):
                detail = "its files were not written by a stream and would be hidden: choose another folder"
                raise TableMismatch(detail, table=self.path)
            return
        rows = _read_existing(lambda: self._spark.read.option("mergeSchema", "true").parquet(self.path))
        if rows is None:
            return
        self._check_columns(rows.schema, columns)
        if not has_checkpoint:
            self._refuse_duplicates(rows, checkpoint)

    def _check_columns(self, known: StructType, columns: StructType) -> None:
        for name in (*self.by, "_topic", "_offset"):
            if name not in known.names:
                detail = "it was not written by `thinwire ingest` with these partition columns: choose another folder"
                raise TableMismatch(detail, table=self.path, missing=name)
        for column in columns:
            if column.name not in known.names or column.name in self.by:
                continue
            existing = known[column.name].dataType
            if not _can_merge(existing, column.dataType):
                detail = "a column has another type in the table: write the topic to another table"
                types = {"table_type": existing.simpleString(), "topic_type": column.dataType.simpleString()}
                raise TableMismatch(detail, table=self.path, column=column.name, **types)

    def _refuse_duplicates(self, rows: DataFrame, checkpoint: str) -> None:
        last_offsets = rows.groupBy("_topic").agg(F.max("_offset").alias("last")).collect()
        following = json.dumps({row["_topic"]: row["last"] + 1 for row in last_offsets})
        detail = f"it has rows, but no checkpoint. Write later events to another table, with --from '{following}'"
        raise TableMismatch(detail, table=self.path, checkpoint=checkpoint)


def _list_files(spark: SparkSession, path: str) -> list[str] | None:
    """Return the files in a folder and below it; None if it does not exist."""
    return _read_existing(lambda: spark.read.option("recursiveFileLookup", "true").text(path).inputFiles())


def _read_existing(read: Callable[[], T]) -> T | None:
    """Return what `read` returns; None if the folder is missing or empty."""
    try:
        return read()
    except AnalysisException as problem:
        if problem.getCondition() not in MISSING:
            raise
        return None


def _can_merge(existing: DataType, added: DataType) -> bool:
    """Return whether both types can be one column. Members that two structs have in common must have equal types."""
    if isinstance(existing, StructType) and isinstance(added, StructType):
        known = {member.name: member.dataType for member in existing}
        return all(_can_merge(known.get(member.name, member.dataType), member.dataType) for member in added)
    return existing.simpleString() == added.simpleString()


CHECKPOINT = "_checkpoint"
BY = ("topic", "date")
MAX_OFFSETS = 500_000
"""largest number of messages per batch"""
AT_ONCE = {"availableNow": True}
"""trigger of a query that reads up to the current end of the logs"""


@dataclass(frozen=True)
class _Job:
    """Parameters of a run. `options` are those of the source, `trigger` those of the query's trigger."""

    spark: SparkSession
    topics: tuple[str, ...]
    table: Table
    checkpoint: str
    trigger: dict[str, Any]
    servers: str = field(repr=False)
    connection: Mapping[str, Any] = field(repr=False)
    options: Mapping[str, str] = field(repr=False)


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
    progress: OnProgress | None = None,
    **connection: Any,
) -> JobProgress:
    """Write topics to a table, up to the current end of the logs, or continuously with a trigger. Return the totals.

    start: start of a new table: earliest, latest, or a JSON object of offsets by topic
    trigger: seconds between two batches; None: read up to the current end and return
    seconds, stop: with a trigger, time limit and stop event; the running batch is completed
    tolerance, default_tolerance: tolerances of the table's subscription; exact values by default
    checkpoint: folder of the query's checkpoint, by default inside the table's folder
    by: names of the partition columns for topic and date
    """
    if not topics:
        raise ConfigError("name at least one topic", topics=[])
    path = table.rstrip("/")
    options = {
        "startingOffsets": start,
        "maxOffsetsPerTrigger": str(max_offsets),
        "failOnDataLoss": str(fail_on_data_loss).lower(),
    }
    job = _Job(
        spark,
        tuple(dict.fromkeys(map(check_topic, topics))),
        Table(spark, path, by),
        checkpoint=(checkpoint or f"{path}/{CHECKPOINT}").rstrip("/"),
        trigger={"processingTime": f"{round(trigger * 1000)} milliseconds"} if trigger is not None else AT_ONCE,
        servers=servers,
        connection=connection,
        options=options,
    )
    monitor = QueryMonitor(seconds, progress)
    schemas, frame = _prepare(job)
    subscribe(servers, job.topics, subscription_name(table), tolerance or {}, default_tolerance, connection)
    while not _run_query(job, frame, monitor, stop or Event(), schemas):
        schemas, frame = _prepare(job)
    return monitor.progress


def _prepare(job: _Job) -> tuple[dict[str, Schema], DataFrame]:
    """Return the current schemas and the stream for them, after checking the stream against the table."""
    schemas = _schemas(job)
    frame = _frame(job, schemas)
    job.table.check(frame.schema, job.checkpoint)
    return schemas, frame


def _run_query(job: _Job, frame: DataFrame, monitor: QueryMonitor, stop: Event, schemas: Mapping[str, Schema]) -> bool:
    """Run a query. Return False if it must be restarted because of a new schema."""
    writer = frame.writeStream.format("parquet").partitionBy(*job.table.by).trigger(**job.trigger)
    query = writer.option("path", job.table.path).option("checkpointLocation", job.checkpoint).start()
    try:
        monitor.wait(query, stop)
    except StreamingQueryException as problem:
        if _schemas(job) != schemas:
            return False
        raise JobFailed(_reason(problem), table=job.table.path) from problem
    finally:
        query.stop()
    return True


def _schemas(job: _Job) -> dict[str, Schema]:
    with open_source(job.servers, **job.connection) as source:
        return {topic: read_topic(source, topic).schema for topic in job.topics}


def _frame(job: _Job, schemas: Mapping[str, Schema]) -> DataFrame:
    """Return the stream of events with the partition columns."""
    expected = {topic: schema.fingerprint.hex() for topic, schema in schemas.items()}
    reader = job.spark.readStream.format("thinwire").options(**job.options, **job.connection)
    reader = reader.option("servers", job.servers).option("subscribe", ",".join(job.topics))
    frame = reader.option("expectSchemas", json.dumps(expected)).load()
    topic, date = job.table.by
    conflict = next((name for name in frame.columns if name.lower() in (topic.lower(), date.lower())), None)
    if conflict is not None:
        detail = "the events have a property of that name: choose other partition columns with --by TOPIC,DATE"
        raise ConfigError(detail, property=conflict, by=list(job.table.by))
    return frame.withColumn(topic, F.col("_topic")).withColumn(date, _date(frame, schemas))


def _date(frame: DataFrame, schemas: Mapping[str, Schema]) -> Column:
    """Return the date of the event time, or of the storage time for an event without one."""
    event_dates = [
        F.when(
            F.col("_topic") == F.lit(topic),
            date_of(seconds_of(named(schema.time.name), frame.schema[schema.time.name].dataType)),
        )
        for topic, schema in schemas.items()
        if schema.time is not None
    ]
    return F.coalesce(*event_dates, date_of(seconds_of(F.col("_time"), frame.schema["_time"].dataType)))


def _reason(problem: BaseException) -> str:
    """Return the message of the thinwire error in the trace of a failed query, or the first line of the trace."""
    messages = re.findall(r"thinwire\.errors\.\w+: (.+)", str(problem))
    return messages[-1] if messages else str(problem).strip().partition("\n")[0]
