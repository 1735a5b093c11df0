"""One part of a table onto a topic: what a task does that writes.

The real client publishes, so that everything holds that holds for any publisher: what subscribers asked for, dead
letters, and no more than `max_pending` bytes on their way while the broker is slow.

Rows that are to become events: one column a property, or JSON in a single column `value`.

Columns whose names begin with `_` tell about an event and are no part of it; a null is a property that is absent.

The options of writing, read once.

>>> WriteOptions.read({"servers": "nats://broker:4222", "topic": "building.rooms"}).name(3, "q1")
'q1-3'
>>> WriteOptions.read({"servers": "nats://broker:4222"})
Traceback (most recent call last):
...
thinwire.errors.ConfigError: bad setting: name the topic to write to: option='topic'

Writing: `df.write.format("thinwire")` and `df.writeStream.format("thinwire")`.

Every partition has a publisher of its own, whose name stays the same when a task is tried again: the new one takes the
name over. Rows arrive at least once; what a task told before it failed is told again.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
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
from thinwire.spark.source.source_options import CREDENTIALS, OptionReader
from thinwire.spark.source.source_schema import arrow_of
from thinwire.topics.log_tables import TopicSchemas
from thinwire.topics.names import check_name_token, check_topic
from thinwire.wire.json_body import meant

VALUE = "value"
DUE = "_due"
"""a column of seconds since the epoch, before which its row is not published"""


class Events:
    """Makes events of a topic out of rows.

    unreadable: rows so far whose JSON could not be read
    """

    def __init__(self, schema: Schema) -> None:
        self.unreadable = 0
        self._opaque = {p.name for p in schema if p.kind is Kind.OPAQUE}
        self._nested = schema.nested

    def of(self, batch: pa.RecordBatch) -> Iterator[tuple[dict[str, Any], float]]:
        """The events of a batch in its order, each with the instant it is due, 0 for at once."""
        names = event_columns(batch.schema.names)
        dues = batch.column(DUE).to_pylist() if DUE in batch.schema.names else [None] * batch.num_rows
        made = self._parsed(batch) if is_json(batch.schema) else self._columns(batch.select(names))
        for event, due in zip(made, dues, strict=True):
            if event is not None:
                yield event, due or 0.0

    def _columns(self, batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
        opaque = self._opaque.intersection(batch.schema.names)
        for row in batch.to_pylist():
            event = {name: value for name, value in row.items() if value is not None}
            for name in opaque & event.keys():
                event[name] = _opaque(event[name])
            yield nest(event) if self._nested else event

    def _parsed(self, batch: pa.RecordBatch) -> Iterator[dict[str, Any] | None]:
        for text in batch.column(VALUE).to_pylist():
            try:
                event = json.loads(text) if text is not None else None
            except (ValueError, RecursionError):
                event = None
            self.unreadable += not isinstance(event, dict)
            yield event if isinstance(event, dict) else None


def event_columns(names: list[str]) -> list[str]:
    """The columns that are part of the event.

    >>> event_columns(["room", "t", "_offset"])
    ['room', 't']
    """
    return [name for name in names if not name.startswith("_")]


def is_json(schema: pa.Schema) -> bool:
    """Are the rows JSON texts?"""
    return event_columns(schema.names) == [VALUE] and pa.types.is_string(schema.field(VALUE).type)


def check_columns(columns: pa.Schema, schema: Schema) -> None:
    """Refuse columns that the events of the topic do not have: every single row would be."""
    if is_json(columns):
        return
    known: Mapping[str, Any] = {p.name: None for p in schema} | schema.tree
    for name in event_columns(columns.names):
        if name not in known:
            detail = "the topic's events have no such property: drop the column, or begin its name with _"
            raise ConfigError(detail, column=name, topic=schema.name, choose_from=sorted(p.name for p in schema))


def _opaque(value: Any) -> Any:
    """An opaque value out of its text, the inverse of `value_text`; a text that is no JSON stands for itself.

    >>> _opaque('{"$bytes":"aGk="}'), _opaque('[1,null]'), _opaque("[1")
    (b'hi', [1, None], '[1')
    """
    if not isinstance(value, str):
        return value
    try:
        return meant(json.loads(value))
    except (ValueError, TypeError, RecursionError):
        return value


NAMES = ("servers", "topic", "publisher")
OF_SPARK = ("checkpointLocation", "queryName")
"""options that Spark keeps for itself and hands over all the same"""
MAX_PUBLISHER = 56
"""characters, so that the number of a partition finds room behind them"""


@dataclass(frozen=True)
class WriteOptions:
    """Where rows go: the broker, the topic, and how the names of publishers begin."""

    servers: str
    topic: str
    publisher: str | None = None
    connection: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, options: Mapping[str, str]) -> WriteOptions:
        """The options as Spark hands them over, whatever case their names have."""
        given = {name.lower(): value for name, value in options.items()}
        unknown = sorted(given.keys() - {name.lower() for name in (*NAMES, *CREDENTIALS, *OF_SPARK)})
        if unknown:
            raise ConfigError("no such option of writing", option=unknown[0], choose_from=list(NAMES))
        asked = OptionReader(given)
        servers, topic, publisher = asked.servers(), asked.text("topic"), asked.text("publisher")
        if servers is None:
            raise ConfigError("name the broker", option="servers")
        if topic is None:
            raise ConfigError("name the topic to write to", option="topic")
        if publisher is not None and len(check_name_token(publisher, "publisher")) > MAX_PUBLISHER:
            raise ConfigError("too long for the name of publishers", option="publisher", limit=MAX_PUBLISHER)
        connection = {name: given[name] for name in CREDENTIALS if name in given}
        return cls(servers, check_topic(topic), publisher, connection)

    def __repr__(self) -> str:
        return f"WriteOptions({read_url(self.servers).shown}, topic={self.topic!r}, publisher={self.publisher!r})"

    def name(self, partition: int, run: str) -> str:
        """The name of a partition's publisher; a task that is tried again takes it over."""
        return f"{self.publisher or run}-{partition}"


STORED = 60.0
"""seconds that the broker has to store what is left at the end of a part"""
BLOCK = 1_024
"""rows published without looking whether something else is to be done"""

_log = logging.getLogger("thinwire.spark")


@dataclass
class SinkCommit(WriterCommitMessage):
    """What a part came to: rows on the topic, rows refused, messages; unheard: nobody wanted them, so none was sent."""

    publisher: str
    rows: int = 0
    refused: int = 0
    messages: int = 0
    unheard: bool = False


def topic_schema(options: WriteOptions) -> Schema:
    """The schema of the topic that is written to."""
    with open_source(options.servers, **options.connection) as source:
        try:
            return TopicSchemas(source, options.topic).current
        except UnknownTopic:
            raise UnknownTopic(option="topic", topic=options.topic) from None


def publish_part(options: WriteOptions, schema: Schema, run: str, batches: Iterator[pa.RecordBatch]) -> SinkCommit:
    """Publish the rows of this task's partition in their order.

    run: how the name of the publisher begins where the options do not say it
    """
    context = TaskContext.get()
    name = options.name(context.partitionId() if context is not None else 0, run)
    first = next(batches, None)
    if first is None:  # a publisher that says nothing need not come
        return SinkCommit(name)
    return asyncio.run(_publish(options, Events(schema), name, chain([first], batches)))


async def _publish(options: WriteOptions, events: Events, name: str, batches: Iterator[pa.RecordBatch]) -> SinkCommit:
    written = SinkCommit(name)
    async with (
        connect(options.servers, services=False, **dict[str, Any](options.connection)) as bus,
        bus.publisher(options.topic, name=name) as out,
    ):
        # the next batch may take long to come: meanwhile the publisher must be able to speak
        while (batch := await asyncio.to_thread(next, batches, None)) is not None:
            made = list(events.of(batch))
            for at in range(0, len(made), BLOCK):
                block = made[at : at + BLOCK]
                taken = await _offer(out, block)
                written.rows += taken
                written.refused += len(block) - taken
        await out.flush(STORED)
        written.messages, written.unheard = out.messages, not out.wanted
    written.refused += events.unreadable
    return written


async def _offer(out: Publisher, block: Sequence[tuple[dict[str, Any], float]]) -> int:
    """Publish events when they are due; how many were taken."""
    taken = at = 0
    while at < len(block):
        now = time.time()
        wait = block[at][1] - now
        if wait > 0:
            await asyncio.sleep(wait)
            continue
        end = next((place for place in range(at, len(block)) if block[place][1] > now), len(block))
        taken += await out.publish_all(event for event, _ in block[at:end])
        at = end
    await asyncio.sleep(0)  # publishing seldom waits: what was published shall leave meanwhile
    return taken


def summed(topic: str, messages: Sequence[WriterCommitMessage | None]) -> SinkCommit:
    """What the parts came to together; says so where rows were refused, or nobody wanted them."""
    parts = [part for part in messages if isinstance(part, SinkCommit)]
    whole = SinkCommit(
        "",
        sum(part.rows for part in parts),
        sum(part.refused for part in parts),
        sum(part.messages for part in parts),
        any(part.unheard for part in parts),
    )
    if whole.refused:
        _log.warning("%s: %d rows were refused, see the dead letters", topic, whole.refused)
    if whole.unheard:
        _log.warning("%s: nobody subscribes, and it is not retained: rows were not stored", topic)
    return whole


QUERY = "sql.streaming.queryId"
"""under which a task finds out which query it belongs to; the same after a restart"""


class _Writing:
    """What both ways of writing share."""

    def __init__(self, options: WriteOptions, schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise ConfigError('a topic is only ever added to: use mode("append")', mode="overwrite")
        self.options = options
        self._run = f"spark-{token_hex(8)}"
        self._schema = topic_schema(options)
        check_columns(arrow_of(schema), self._schema)

    def _publish(self, batches: Iterator[pa.RecordBatch], run: str) -> WriterCommitMessage:
        return publish_part(self.options, self._schema, run, batches)

    def _done(self, messages: list[WriterCommitMessage | None]) -> None:
        whole = summed(self.options.topic, messages)
        _log.info("%s: %d rows in %d messages", self.options.topic, whole.rows, whole.messages)

    def _failed(self, messages: list[WriterCommitMessage | None]) -> None:
        whole = summed(self.options.topic, messages)
        _log.warning(
            "%s: not all was written; %d rows are told, and will be again when it is tried again",
            self.options.topic,
            whole.rows,
        )


class BatchWriter(_Writing, DataSourceArrowWriter):
    """Publishes a table once."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Publish a partition."""
        return self._publish(iterator, self._run)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """All partitions are on the topic."""
        self._done(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Some are not."""
        self._failed(messages)


class StreamWriter(_Writing, DataSourceStreamArrowWriter):
    """Publishes the batches of a stream."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Publish a partition of a batch."""
        context = TaskContext.get()
        query = context.getLocalProperty(QUERY) if context is not None else None
        return self._publish(iterator, query or self._run)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """All partitions of a batch are on the topic."""
        self._done(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Some are not."""
        self._failed(messages)
