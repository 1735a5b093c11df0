"""Every byte on the sockets of publishers and subscribers, in both directions, while a building is published.

Only bytes count here, so all links run side by side in one process, each with a broker of its own behind a proxy that
counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from thinwire.evaluation.live.building_feed import BuildingFeed
from thinwire.evaluation.live.measure import Taken, micros
from thinwire.evaluation.live.processes import Crew, Worker
from thinwire.evaluation.live.roles import NOTES, publish, take_all
from thinwire.evaluation.live.stacks import Sender, route_to, stack
from thinwire.transports.embedded import EmbeddedServer
from thinwire.transports.proxy import Proxy
from thinwire.workload.samples import building

PLANTS = 3
TOLERANCE = 0.5
SETTLE = 1.0
"""seconds after everybody has connected, before bytes count"""
PATIENCE = 30.0
_POLL = 0.02


@dataclass(frozen=True)
class Wire:
    """One way to publish: the stack, seconds of linger, and events a second of each plant."""

    kind: str
    linger: float
    rate: float


@dataclass(frozen=True)
class Weight:
    """What a wire carried after it was set up.

    set_up: bytes until then, both directions; messages: those the broker stored; complete: was every event received?
    """

    wire: Wire
    events: int
    set_up: int
    to_broker: int
    from_broker: int
    complete: bool

    @property
    def total(self) -> int:
        return self.to_broker + self.from_broker

    @property
    def per_event(self) -> float:
        return self.total / self.events


async def weigh(wires: Iterable[Wire], seconds: float) -> dict[Wire, Weight]:
    """Publish on all wires at once for so many seconds."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_weigh(wire, seconds)) for wire in wires]
    return {task.result().wire: task.result() for task in tasks}


async def _weigh(wire: Wire, seconds: float) -> Weight:
    async with AsyncExitStack() as opened:
        server = await opened.enter_async_context(EmbeddedServer())
        if wire.kind == "thinwire":
            await opened.enter_async_context(Crew([Worker("registry", "registry", {"url": server.url})]))
        direct = route_to(server.url, building.schema(), linger=wire.linger, tolerance=TOLERANCE)
        await stack(wire.kind).prepare(direct)
        proxy = await opened.enter_async_context(Proxy("127.0.0.1", server.port))
        route = route_to(proxy.url, building.schema(), linger=wire.linger, tolerance=TOLERANCE)
        receiver = await stack(wire.kind).receiver(route, "reader")
        opened.push_async_callback(receiver.close)
        notes = Taken(**NOTES["building"])
        reading = asyncio.create_task(take_all(receiver, notes))
        opened.push_async_callback(_end, reading)
        senders = []
        for plant in range(PLANTS):
            senders.append(await stack(wire.kind).sender(route, f"plant-{plant}"))
            opened.push_async_callback(senders[-1].close)
        await asyncio.sleep(SETTLE)
        before = (proxy.to_broker, proxy.from_broker)
        published = await _publish(senders, wire, seconds)
        complete = await _arrived(notes, published, reading)
        return Weight(
            wire,
            events=sum(events for events, _ in published),
            set_up=sum(before),
            to_broker=proxy.to_broker - before[0],
            from_broker=proxy.from_broker - before[1],
            complete=complete,
        )


Published = tuple[int, dict[str, Any]]
"""how many events a plant has published, and the last of them"""


async def _publish(senders: list[Sender], wire: Wire, seconds: float) -> list[Published]:
    start = micros()
    end = start + round(seconds * 1e6)

    async def one(place: int, sender: Sender) -> Published:
        feed = BuildingFeed(place, PLANTS, PLANTS * wire.rate, start)
        await publish(sender, feed, end)
        (last,) = feed.farewell()
        await sender.publish([last])
        await sender.flush()
        return feed.published, last

    return list(await asyncio.gather(*(one(place, sender) for place, sender in enumerate(senders))))


async def _arrived(notes: Taken, published: list[Published], reading: asyncio.Task[None]) -> bool:
    """Has the reader been handed everything?"""
    last = {event["plant"]: event["timestamp"] for _, event in published}
    try:
        async with asyncio.timeout(PATIENCE):
            while notes.last != last:
                if reading.done():
                    reading.result()
                await asyncio.sleep(_POLL)
    except TimeoutError:
        return False
    return notes.events == sum(events for events, _ in published)


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
