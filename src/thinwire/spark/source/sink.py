"""One part of a table onto a topic: what a task does that writes.

The real client publishes, so that everything holds that holds for any publisher: what subscribers asked for, dead
letters, and no more than `max_pending` bytes on their way while the broker is slow.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from thinwire.brokers.nats.blocking import open_source
from thinwire.client.bus import connect
from thinwire.client.publisher import TopicPublisher
from thinwire.errors import UnknownTopic
from thinwire.schema import Schema
from thinwire.spark.source.sink_rows import Events
from thinwire.spark.source.sink_write_options import WriteOptions
from thinwire.topics.log_tables import TopicSchemas

STORED = 60.0
"""seconds that the broker has to store what is left at the end of a part"""
BLOCK = 1_024
"""rows published without looking whether something else is to be done"""

_log = logging.getLogger("thinwire.spark")


@dataclass
class Written(WriterCommitMessage):
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


def publish_part(options: WriteOptions, schema: Schema, run: str, batches: Iterator[pa.RecordBatch]) -> Written:
    """Publish the rows of this task's partition in their order.

    run: how the name of the publisher begins where the options do not say it
    """
    context = TaskContext.get()
    name = options.name(context.partitionId() if context is not None else 0, run)
    first = next(batches, None)
    if first is None:  # a publisher that says nothing need not come
        return Written(name)
    return asyncio.run(_publish(options, Events(schema), name, chain([first], batches)))


async def _publish(options: WriteOptions, events: Events, name: str, batches: Iterator[pa.RecordBatch]) -> Written:
    written = Written(name)
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


async def _offer(out: TopicPublisher, block: Sequence[tuple[dict[str, Any], float]]) -> int:
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


def summed(topic: str, messages: Sequence[WriterCommitMessage | None]) -> Written:
    """What the parts came to together; says so where rows were refused, or nobody wanted them."""
    parts = [part for part in messages if isinstance(part, Written)]
    whole = Written(
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
