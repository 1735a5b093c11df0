"""A job as a subscriber: a topic that lands in a table is wanted, whether the job runs at the moment or not."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import Any, TypeVar

from thinwire.client.bus import connect
from thinwire.codec.demand import Tolerance
from thinwire.errors import DemandError
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
