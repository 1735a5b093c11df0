"""The schema of a topic that a table is played onto: the topic's own, that of the topic the rows came from, or one
that is found from rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame

from thinwire.brokers.nats.blocking import open_source
from thinwire.brokers.protocol_source import LogSource
from thinwire.client.bus import connect
from thinwire.errors import MissingData, UnknownTopic
from thinwire.schema import Schema, infer
from thinwire.schema.event_paths import nest
from thinwire.spark.jobs.ingest_asking import run_apart
from thinwire.spark.jobs.time_columns import named
from thinwire.spark.source.sink_rows import event_columns
from thinwire.spark.source.sink_write_options import WriteOptions
from thinwire.topics.log_tables import TopicSchemas

SAMPLE = 10_000
"""rows from which a schema is found"""


def settle_schema(to: WriteOptions, rows: DataFrame, dimensions: Sequence[str] | None, time: str | None) -> Schema:
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
