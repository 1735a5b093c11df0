"""A whole system for tests of channels: a registry, translators that can be killed, and a truth to compare with."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from client_setup import take

import thinwire as tw
from thinwire.clock import WallClock
from thinwire.schema import Event
from thinwire.services.registry.registry_service import RegistryService
from thinwire.services.translator.translator_service import TranslatorService

ROOMS = ("11.1", "11.2", "11.3")


class System:
    """A bus with services beside it. `start` and `kill` are about its translator."""

    def __init__(self, bus: tw.Bus, url: str, **options: Any) -> None:
        self.bus = bus
        self._url = url
        self._options = {"lease": 0.5, "grace": 0.3, **options}
        self._translator: tuple[tw.Bus, asyncio.Task[None]] | None = None

    async def start(self) -> None:
        own = tw.connect(self._url, services=False)
        await own.__aenter__()
        service = TranslatorService(own.broker, WallClock(), **self._options)
        self._translator = own, asyncio.create_task(service.run())
        await service.ready()

    async def kill(self) -> None:
        """Cut its connection: it cannot say goodbye."""
        if self._translator is not None:
            (own, task), self._translator = self._translator, None
            await own.broker.close()
            await asyncio.gather(task, return_exceptions=True)
            await own.close()


@asynccontextmanager
async def system(url: str, *, translator: bool = True, **options: Any) -> AsyncIterator[System]:
    async with (
        tw.connect(url, services=False) as bus,
        tw.connect(url, services=False) as own,
        AsyncExitStack() as stack,
    ):
        registry = RegistryService(own.broker, WallClock(), grace=0.3)
        task = asyncio.create_task(registry.run())
        stack.push_async_callback(_end, task)
        await registry.ready()
        made = System(bus, url, **options)
        stack.push_async_callback(made.kill)
        if translator:
            await made.start()
        yield made


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


class Truth:
    """Events of some rooms whose temperature wanders, numbered within each room from 0 on."""

    def __init__(self, seed: int = 1, rooms: tuple[str, ...] = ROOMS) -> None:
        self.sent: dict[str, list[dict[str, Any]]] = {room: [] for room in rooms}
        self._chance = random.Random(seed)
        self._ticks = dict.fromkeys(rooms, 200)

    async def publish(self, out: tw.Publisher, count: int, pause: float = 0.0) -> None:
        """So many events of each room, stored when this returns."""
        for _ in range(count):
            for room, events in self.sent.items():
                self._ticks[room] += self._chance.randint(-3, 3)
                event = {"time": 1000 * len(events), "room": room, "t": self._ticks[room] / 10, "n": len(events)}
                events.append(event)
                await out.publish(event)
            if pause:
                await asyncio.sleep(pause)
        await out.flush()

    @property
    def count(self) -> int:
        return sum(map(len, self.sent.values()))

    def check(self, seen: list[Event], tolerance: float, *, first: int = 0) -> None:
        """Every event came, once, in order, and as close as promised; each room from number `first` on."""
        for room, truth in self.sent.items():
            got = [event for event in seen if event["room"] == room]
            assert [event.ordinal - 1 for event in got] == list(range(first, len(truth)))
            for event in got:
                bound = event.bound["t"]
                assert bound is not None
                assert bound <= tolerance + 1e-9
                assert abs(event["t"] - truth[event.ordinal - 1]["t"]) <= bound + 1e-9
                assert "n" not in event or event["n"] == event.ordinal - 1
        assert len({event.identity for event in seen}) == len(seen)


async def until(condition: Callable[[], object], timeout: float = 30.0) -> None:
    async with asyncio.timeout(timeout):
        while not condition():
            await asyncio.sleep(0.01)


async def read_until(events: tw.Subscription, condition: Callable[[], object], timeout: float = 30.0) -> list[Event]:
    """The events that come until something is so; reading is what makes a subscription look around."""
    seen: list[Event] = []
    async with asyncio.timeout(timeout):
        while not condition():
            try:
                seen += await take(events, 1, timeout=0.05)
            except TimeoutError:
                continue
    return seen


async def wait_for_channels(*subscriptions: tw.Subscription) -> list[Event]:
    """Read until each subscription reads its channel, which a translator may open later; return the events read."""
    seen: list[Event] = []
    for events in subscriptions:
        seen += await read_until(events, lambda events=events: events.feed == "channel")  # type: ignore[misc]
    return seen


def no_loss(*subscriptions: tw.Subscription) -> bool:
    return not [one for events in subscriptions for one in events.notices if isinstance(one, tw.EventsMissed)]
