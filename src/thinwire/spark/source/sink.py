"""The Spark sink: `df.write.format("thinwire")` and `df.writeStream.format("thinwire")`.

Each partition has a publisher of the client library, so demands, dead letters and the limit of pending bytes apply as
for any publisher. Its name stays the same when a task is retried: the new publisher takes the name over. Delivery is at
least once, because the rows that a failed task had published are published again.

A row has one column per property, or JSON in a single column `value`. Columns whose names begin with `_` are metadata
and not part of the event. A null is an absent property.

>>> WriteOptions.read({"servers": "nats://ada:secret@broker:4222", "topic": "building.rooms"})
WriteOptions(nats://broker:4222, topic='building.rooms', publisher=None)
>>> WriteOptions.read({"servers": "nats://broker:4222"})
Traceback (most recent call last):
...
thinwire.errors.ConfigError: bad setting: name the topic to write to: option='topic'
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from secrets import token_hex
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from thinwire.brokers.broker_url import read_url
from thinwire.brokers.nats.blocking import open_source
from thinwire.client.bus import connect
from thinwire.client.publisher import Publisher
from thinwire.errors import ConfigError, UnknownTopic
from thinwire.schema import Kind, Schema
from thinwire.schema.event import nest
from thinwire.spark.source.source_options import OptionReader, parse_servers
from thinwire.spark.source.source_schema import arrow_of
from thinwire.topics.log_tables.source_broker import read_topic
from thinwire.topics.names import check_name_token, check_topic
from thinwire.wire.json_body import from_json_value

VALUE = "value"
DUE = "_due"
"""column with the time, in seconds since the epoch, before which a row is not published"""


def convert_rows(batch: pa.RecordBatch, schema: Schema) -> Iterator[tuple[dict[str, Any], float]]:
    """Yield the events of a batch in order, each with the time at which it is due, 0 for immediately.

    Rows with invalid JSON are skipped.
    """
    names = event_columns(batch.schema.names)
    times = batch.column(DUE).to_pylist() if DUE in batch.schema.names else [None] * batch.num_rows
    events = _parse_json(batch) if is_json(batch.schema) else _convert_columns(batch.select(names), schema)
    for event, due in zip(events, times, strict=True):
        if event is not None:
            yield event, due or 0.0


def _convert_columns(batch: pa.RecordBatch, schema: Schema) -> Iterator[dict[str, Any]]:
    opaque = {p.name for p in schema if p.kind is Kind.OPAQUE}
    for row in batch.to_pylist():
        event = {name: value for name, value in row.items() if value is not None}
        for name in opaque & event.keys():
            event[name] = _parse_opaque(event[name])
        yield nest(event) if schema.nested else event


def _parse_json(batch: pa.RecordBatch) -> Iterator[dict[str, Any] | None]:
    for text in batch.column(VALUE).to_pylist():
        try:
            event = json.loads(text) if text is not None else None
        except (ValueError, RecursionError):
            event = None
        yield event if isinstance(event, dict) else None


def event_columns(names: list[str]) -> list[str]:
    """Return the columns that are part of the event.

    >>> event_columns(["room", "t", "_offset"])
    ['room', 't']
    """
    return [name for name in names if not name.startswith("_")]


def is_json(schema: pa.Schema) -> bool:
    """Return whether rows are JSON texts."""
    return event_columns(schema.names) == [VALUE] and pa.types.is_string(schema.field(VALUE).type)


def check_columns(columns: pa.Schema, schema: Schema) -> None:
    """Raise `ConfigError` for a column that is not a property: every row would be refused."""
    if is_json(columns):
        return
    known: Mapping[str, Any] = {p.name: None for p in schema} | schema.tree
    for name in event_columns(columns.names):
        if name not in known:
            detail = "the topic has no such property: drop the column, or start its name with _"
            raise ConfigError(detail, column=name, topic=schema.name, choose_from=sorted(p.name for p in schema))


def _parse_opaque(value: Any) -> Any:
    """Return the opaque value of a text: JSON, as `codec.interned_values.value_text` writes it, or the text itself.

    >>> _parse_opaque('{"$bytes":"aGk="}'), _parse_opaque('[1,null]'), _parse_opaque("[1")
    (b'hi', [1, None], '[1')
    """
    if not isinstance(value, str):
        return value
    try:
        return from_json_value(json.loads(value))
    except (ValueError, TypeError, RecursionError):
        return value


SPARK_OPTIONS = ("checkpointLocation", "queryName")
"""options for Spark itself, which the sink receives, too"""
MAX_PREFIX = 56
"""characters of a prefix of publisher names; the number of the partition is appended"""


@dataclass(frozen=True)
class WriteOptions:
    """Options of the sink. `publisher` is the prefix of the publisher names."""

    servers: str
    topic: str
    publisher: str | None = None
    connection: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, options: Mapping[str, str]) -> WriteOptions:
        """Parse the options of Spark. Names are not case-sensitive."""
        reader = OptionReader(options)
        servers, topic = reader.read("servers", parse_servers), reader.read("topic", check_topic)
        publisher, connection = reader.read("publisher", _parse_prefix), reader.connection()
        reader.check_names(ignored=SPARK_OPTIONS)
        if servers is None:
            raise ConfigError("name the broker", option="servers")
        if topic is None:
            raise ConfigError("name the topic to write to", option="topic")
        return cls(servers, topic, publisher, connection)

    def __repr__(self) -> str:
        return f"WriteOptions({read_url(self.servers).shown}, topic={self.topic!r}, publisher={self.publisher!r})"


def _parse_prefix(text: str) -> str:
    if len(check_name_token(text, "publisher")) > MAX_PREFIX:
        raise ConfigError("too long for a prefix of publisher names", limit=MAX_PREFIX)
    return text


FLUSH_TIMEOUT = 60.0
"""seconds until the broker has stored the last messages of a partition"""
BLOCK = 1_024
"""rows published between two returns to the event loop"""

_log = logging.getLogger("thinwire.spark")


@dataclass
class SinkResult(WriterCommitMessage):
    """Result of one or several partitions: rows published, rows refused, messages.

    unheard: no subscription exists and the topic is not retained, so nothing was stored
    """

    rows: int = 0
    refused: int = 0
    messages: int = 0
    unheard: bool = False


def read_topic_schema(options: WriteOptions) -> Schema:
    """Return the schema of the target topic."""
    with open_source(options.servers, **options.connection) as source:
        try:
            return read_topic(source, options.topic).schema
        except UnknownTopic:
            raise UnknownTopic(option="topic", topic=options.topic) from None


def publish_partition(options: WriteOptions, schema: Schema, run: str, batches: Iterator[pa.RecordBatch]) -> SinkResult:
    """Publish the rows of this task's partition in order.

    run: prefix of the publisher name, if the options have none; a retried task has the same name
    """
    context = TaskContext.get()
    name = f"{options.publisher or run}-{context.partitionId() if context is not None else 0}"
    first = next(batches, None)
    if first is None:  # no publisher for an empty partition
        return SinkResult()
    return asyncio.run(_publish(options, schema, name, chain([first], batches)))


async def _publish(options: WriteOptions, schema: Schema, name: str, batches: Iterator[pa.RecordBatch]) -> SinkResult:
    written = SinkResult()
    async with (
        connect(options.servers, services=False, **dict[str, Any](options.connection)) as bus,
        bus.publisher(options.topic, name=name) as out,
    ):
        # Spark may need long for the next batch; in a thread it does not block the heartbeats of the publisher.
        while (batch := await asyncio.to_thread(next, batches, None)) is not None:
            events = list(convert_rows(batch, schema))
            starts = range(0, len(events), BLOCK)
            accepted = sum([await _publish_when_due(out, events[start : start + BLOCK]) for start in starts])
            written.rows += accepted
            written.refused += batch.num_rows - accepted
        await out.flush(FLUSH_TIMEOUT)
        written.messages, written.unheard = out.messages, not out.wanted
    return written


async def _publish_when_due(out: Publisher, block: Sequence[tuple[dict[str, Any], float]]) -> int:
    """Publish every event at its time. Return the number of accepted events."""
    accepted = index = 0
    while index < len(block):
        now = time.time()
        wait = block[index][1] - now
        if wait > 0:
            await asyncio.sleep(wait)
            continue
        end = next((later for later in range(index, len(block)) if block[later][1] > now), len(block))
        accepted += await out.publish_all(event for event, _ in block[index:end])
        index = end
    await asyncio.sleep(0)  # publishing rarely suspends: let the event loop send what is pending
    return accepted


def sum_results(parts: Iterable[SinkResult]) -> SinkResult:
    """Return the sum of all partitions."""
    total = SinkResult()
    for part in parts:
        total.rows += part.rows
        total.refused += part.refused
        total.messages += part.messages
        total.unheard |= part.unheard
    return total


QUERY = "sql.streaming.queryId"
"""task property with the id of a streaming query, the same after a restart"""


class TopicWriter(DataSourceArrowWriter, DataSourceStreamArrowWriter):
    """Publishes a table, or the batches of a stream."""

    def __init__(self, options: WriteOptions, schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise ConfigError('a topic cannot be overwritten: use mode("append")', mode="overwrite")
        self.options = options
        self._run_id = f"spark-{token_hex(8)}"
        self._schema = read_topic_schema(options)
        check_columns(arrow_of(schema), self._schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Publish a partition."""
        context = TaskContext.get()
        query = context.getLocalProperty(QUERY) if context is not None else None
        return publish_partition(self.options, self._schema, query or self._run_id, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int | None = None) -> None:
        """Log the totals of a table or batch."""
        total = self._sum(messages)
        _log.info("%s: %d rows in %d messages", self.options.topic, total.rows, total.messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int | None = None) -> None:
        """Log the incomplete write."""
        rows = self._sum(messages).rows
        _log.warning("%s: incomplete; a retry publishes the %d published rows again", self.options.topic, rows)

    def _sum(self, messages: list[WriterCommitMessage | None]) -> SinkResult:
        """Return the totals. Log a warning for refused rows and for a topic without subscriptions."""
        total = sum_results(part for part in messages if isinstance(part, SinkResult))
        if total.refused:
            _log.warning("%s: %d rows refused, see the dead letters", self.options.topic, total.refused)
        if total.unheard:
            _log.warning("%s: no subscription and not retained: rows were not stored", self.options.topic)
        return total
