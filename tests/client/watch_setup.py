"""A market whose watches are compared with the truth while their evaluator is killed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from itertools import count
from time import time
from typing import Any

import thinwire as tw
from thinwire.clock import WallClock
from thinwire.filters.composite.condition_resolver import resolve, ticks_of
from thinwire.filters.composite.feed_sequencer import Order
from thinwire.filters.composite.watch_evaluator import WatchEvaluator
from thinwire.services.registry.registry_service import RegistryService
from thinwire.services.watcher.watch_runner import WatchSettings
from thinwire.services.watcher.watch_service import WatchService

_numbers = count()


def stocks(name: str = "") -> tw.Schema:
    return tw.Schema(
        name or f"stocks{next(_numbers)}",
        [
            tw.Property("time", "timestamp", "header", form="iso:T6Z"),
            tw.Property("symbol", "string", "dimension"),
            tw.Property("price", "number", step="0.01", minimum=0, maximum=1000),
        ],
    )


class Market:
    """Topics with one publisher each, the published events, and the notifications that a watch must send."""

    def __init__(self, schemas: list[tw.Schema]) -> None:
        self.schemas = schemas
        self.events: list[tuple[int, str, dict[str, Any]]] = []

    async def publish(self, out: tw.Publisher, topic: str, symbol: str, price: float) -> None:
        await asyncio.sleep(0.002)  # different times for all publishers
        now = int(time() * 1_000_000)
        instant = datetime.fromtimestamp(now / 1_000_000, UTC).isoformat(timespec="microseconds")
        event = {"time": instant.replace("+00:00", "Z"), "symbol": symbol, "price": price}
        self.events.append((now, topic, event))
        await out.publish(event)

    def truth(self, expression: str) -> list[dict[str, float]]:
        """Return the notifications by definition: the condition is evaluated after every event in order."""
        condition = resolve(expression, {schema.name: schema for schema in self.schemas})
        watch, ticks = WatchEvaluator(condition), ticks_of(self.schemas[0]["price"])
        notifications = []
        for at, topic, event in sorted(self.events, key=lambda item: item[0]):
            quantity = next(
                (q for q in condition.quantities if (q.topic, q.source) == (topic, (event["symbol"],))), None
            )
            found = watch.offer(quantity, ticks(event["price"]), Order(at)) if quantity is not None else None
            if found is not None:
                notifications.append({str(q): value / 100 for q, value in found.values.items()})
        return notifications


class System:
    """A bus, a registry, and a watch service that can be killed."""

    def __init__(self, bus: tw.Bus, url: str) -> None:
        self.bus = bus
        self.service: WatchService | None = None
        self._url = url
        self._running: tuple[tw.Bus, asyncio.Task[None]] | None = None

    async def start(self) -> None:
        own = tw.connect(self._url, services=False)
        await own.__aenter__()
        settings = WatchSettings(grace=0.5, probe_interval=0.2, state_records=8, state_seconds=0.5)
        self.service = WatchService(own.broker, WallClock(), lease=0.5, settings=settings)
        self._running = own, asyncio.create_task(self.service.run())
        await self.service.ready()

    async def kill(self) -> None:
        """Close its connection, so that it ends without a clean shutdown."""
        if self._running is not None:
            (own, task), self._running = self._running, None
            await own.broker.close()
            await asyncio.gather(task, return_exceptions=True)
            await own.close()


@asynccontextmanager
async def system(url: str) -> AsyncIterator[System]:
    async with (
        tw.connect(url, services=False) as bus,
        tw.connect(url, services=False) as own,
        AsyncExitStack() as stack,
    ):
        registry = RegistryService(own.broker, WallClock(), grace=0.3)
        task = asyncio.create_task(registry.run())
        stack.push_async_callback(_end, task)
        await registry.ready()
        made = System(bus, url)
        stack.push_async_callback(made.kill)
        await made.start()
        yield made


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def collect(hits: tw.Watch, seen: list[tw.Hit], many: int, timeout: float = 240.0) -> None:
    """Take notifications until `many` are seen."""
    async with asyncio.timeout(timeout):
        while len(seen) < many:
            seen.append(await anext(hits))
