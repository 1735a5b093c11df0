"""Topics for tests of the source: a broker, publishers, and a live subscriber for comparison."""

from __future__ import annotations

import asyncio
import json
import random
import struct
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import thinwire as tw
from thinwire.brokers.embedded import EmbeddedServer
from thinwire.brokers.nats.blocking import open_source
from thinwire.brokers.recording import RecordingWriter
from thinwire.client.local_services import run_service
from thinwire.clock import WallClock
from thinwire.schema import Event
from thinwire.topics.names import CHECKPOINTS, REGISTRY, log_of

TOLERANCE = {"t": 0.5}

Key = tuple[str, str, int]
"""publisher, source, ordinal: unique if each publisher has one incarnation"""


@contextmanager
def broker() -> Iterator[str]:
    """Yield the URL of a new broker."""
    with EmbeddedServer() as server:
        yield server.url


def rooms(topic: str, version: int = 1, *more: tw.Property) -> tw.Schema:
    properties = [
        tw.Property("time", "timestamp", "header", form="epoch"),
        tw.Property("room", "string", "dimension"),
        tw.Property("t", "number", step="0.1", minimum=-50, maximum=150),
        tw.Property("n", "integer"),
        tw.Property("state", "enum", members=["idle", "busy"]),
    ]
    return tw.Schema(topic, [*properties, *more], version)


def readings(count: int, seed: int) -> Iterator[dict[str, Any]]:
    chance = random.Random(seed)
    values = [20.0] * 4
    for n in range(count):
        room = chance.randrange(4)
        values[room] += chance.choice([0.0, 0.0, 0.1, -0.1, 1.7])
        state = "busy" if chance.random() < 0.1 else "idle"
        yield {"time": 1_000 * n, "room": f"r{room}", "t": round(values[room], 1), "n": n // 7, "state": state}


def publish(url: str, schema: tw.Schema, count: int, publishers: int = 2, seed: int = 0) -> list[Event]:
    """Publish `count` events in messages of several events, and return the events of a live subscriber."""
    return asyncio.run(_publish(url, schema, count, publishers, seed))


async def _publish(url: str, schema: tw.Schema, count: int, publishers: int, seed: int) -> list[Event]:
    async with asyncio.timeout(120), AsyncExitStack() as stack:
        own = await stack.enter_async_context(tw.connect(url))
        await run_service("registry", own.broker, WallClock(), stack)
        bus = await stack.enter_async_context(tw.connect(url))
        await bus.register(schema, retain=True)
        live = await stack.enter_async_context(bus.subscribe(schema.name, tolerance=TOLERANCE))
        names = [f"p{seed}-{n}" for n in range(publishers)]
        out = [await stack.enter_async_context(bus.publisher(schema.name, name=name)) for name in names]
        for n, event in enumerate(readings(count, seed)):
            await out[n % publishers].publish(event)
            if n % 5 == 4:
                await out[n % publishers].flush()
        for publisher in out:
            await publisher.flush()
        # A late subscriber first receives the current state of sources of earlier publishers; these are skipped.
        found: list[Event] = []
        while len(found) < count:
            event = await anext(live)
            if event.publisher in names:
                found.append(event)
        return found


def purge(url: str, topic: str, before: int) -> None:
    """Remove all messages before an offset from the log."""
    asyncio.run(_purge(url, topic, before))


async def _purge(url: str, topic: str, before: int) -> None:
    import nats

    client = await nats.connect(url)
    try:
        await client.jetstream().purge_stream(log_of(topic), seq=before)
    finally:
        await client.close()


def delete(url: str, topic: str) -> None:
    """Delete the log."""
    asyncio.run(_delete(url, topic))


async def _delete(url: str, topic: str) -> None:
    import nats

    client = await nats.connect(url)
    try:
        await client.jetstream().delete_stream(log_of(topic))
    finally:
        await client.close()


def record(url: str, topic: str, folder: str) -> None:
    """Record a topic."""
    with open_source(url) as source, RecordingWriter(folder) as out:
        for block in source.read(log_of(topic), 1, source.span(log_of(topic)).last):
            for stored in block:
                out.append(log_of(topic), stored)
        for bucket in (REGISTRY, CHECKPOINTS):
            for key, value in source.documents(bucket).items():
                out.put_document(bucket, key, value)


def table(spark: SparkSession, url: str, topic: str, **options: Any) -> DataFrame:
    reader = spark.read.format("thinwire").option("servers", url).option("subscribe", topic)
    return reader.options(**options).load()


def as_events(events: list[Event]) -> dict[Key, Any]:
    """Return live events by identity, with exact values."""
    return {
        (event.publisher, json.dumps(list(event.source), separators=(",", ":")), event.ordinal): (
            _bits(event),
            event.virtual,
            _bits({name: event.bound[name] for name in ("time", "t", "n")}),
        )
        for event in events
    }


def as_rows(rows: list[Any]) -> dict[Key, Any]:
    """Return the rows of a table in the same form."""
    names = ("time", "room", "t", "n", "state")
    return {
        (row["_publisher"], row["_source"], row["_ordinal"]): (
            _bits({name: row[name] for name in names}),
            row["_virtual"],
            _bits(row["_bound"].asDict()),
        )
        for row in rows
    }


def _bits(values: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(
        (name, struct.pack(">d", value) if isinstance(value, float) else value) for name, value in values.items()
    )
