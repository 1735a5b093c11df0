"""Where client tests run: on a broker in memory and on a real nats-server, with the registry beside them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from importlib.util import find_spec
from itertools import count
from typing import Any

import pytest

import thinwire as tw
from thinwire.client.local_services import run_service
from thinwire.clock import WallClock
from thinwire.dictionaries import Dictionary
from thinwire.schema import Event

_numbers = count()

KINDS = ["memory", pytest.param("nats", marks=pytest.mark.skipif(find_spec("nats") is None, reason="extra nats"))]


def rooms(name: str = "") -> tw.Schema:
    """A schema under a name of its own, so that tests can share a server."""
    return tw.Schema(
        name or f"building.rooms{next(_numbers)}",
        [
            tw.Property("time", "timestamp", "header", form="epoch"),
            tw.Property("room", "string", "dimension"),
            tw.Property("t", "number", step="0.1", minimum=-50, maximum=150),
            tw.Property("n", "integer"),
        ],
    )


async def use_dictionary(out: tw.Publisher, dictionary: Dictionary, slot: int) -> None:
    """Store a dictionary, and pack with it."""
    await out.session.topic.store_dictionary(dictionary)
    out.session.send(out.encoder.use(dictionary, slot))


def reading(n: int, room: str = "11.1", t: float = 20.0) -> dict[str, Any]:
    return {"time": 1_000 * n, "room": room, "t": t, "n": n}


@contextmanager
def site(kind: str) -> Iterator[str]:
    """The URL of a broker."""
    if kind == "memory":
        yield f"memory://test{next(_numbers)}"
        return
    from thinwire.brokers.embedded import EmbeddedServer

    with EmbeddedServer() as server:
        yield server.url


@asynccontextmanager
async def bus_on(url: str, *, registry: bool = True, **options: Any) -> AsyncIterator[tw.Bus]:
    """Open a bus, with a registry if the broker does not start one."""
    async with tw.connect(url, **options) as bus:
        if url.startswith("memory:") or not registry:
            yield bus
            return
        async with tw.connect(url) as own, AsyncExitStack() as stack:
            await run_service("registry", own.broker, WallClock(), stack)
            yield bus


async def take(events: tw.Subscription, count: int, timeout: float = 30.0) -> list[Event]:
    """The next so many events."""
    async with asyncio.timeout(timeout):
        return [await anext(events) for _ in range(count)]


def run(story: Callable[[], Coroutine[Any, Any, None]], timeout: float = 120.0) -> None:
    async def limited() -> None:
        async with asyncio.timeout(timeout):
            await story()

    asyncio.run(limited())
