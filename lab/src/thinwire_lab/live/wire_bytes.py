"""Every byte on the sockets of publishers and subscribers, in both directions, while a building is published.

Only bytes count here, so links run side by side in one process, each with a broker of its own behind a proxy that
counts. Events must still leave on time: a process that falls behind would send fewer and larger messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any

from thinwire.brokers.embedded import LOOPBACK, EmbeddedServer
from thinwire.brokers.proxy import Proxy
from thinwire.demo import building
from thinwire.demo.process_group import ProcessGroup, WorkerProcess, micros
from thinwire_lab.live.building_feed import BuildingFeed
from thinwire_lab.live.load_roles import NOTES, publish, take_all
from thinwire_lab.live.process_measurement import Taken
from thinwire_lab.live.stacks import StackSender, route_to, stack

PLANTS = 3
TOLERANCE = 0.5
SETTLE = 1.0
"""seconds after everybody has connected, before bytes count"""
LATE = 20_000
"""microseconds after its instant from which on an event is late"""
PATIENCE = 30.0
_POLL = 0.02


@dataclass(frozen=True)
class Wire:
    """One way to publish: the stack, seconds of linger, and events a second of each plant."""

    kind: str
    linger: float
    rate: float


@dataclass(frozen=True)
class WireBytes:
    """What a wire carried after it was set up.

    set_up: bytes until then, both directions; sent: events that travelled; complete: was every event received?
    behind: the share of the events that left late
    """

    wire: Wire
    events: int
    sent: int
    set_up: int
    to_broker: int
    from_broker: int
    complete: bool
    behind: float

    @property
    def per_event(self) -> float:
        return (self.to_broker + self.from_broker) / self.events


async def weigh(wires: Iterable[Wire], seconds: float) -> dict[Wire, WireBytes]:
    """Publish on all wires at once for so many seconds."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_weigh(wire, seconds)) for wire in wires]
    return {task.result().wire: task.result() for task in tasks}


async def _weigh(wire: Wire, seconds: float) -> WireBytes:
    async with AsyncExitStack() as opened:
        proxy, senders, notes, reading = await _connect(opened, wire)
        await asyncio.sleep(SETTLE)
        before = (proxy.to_broker, proxy.from_broker)
        published = await _publish(senders, wire, seconds)
        complete = await _arrived(notes, published, reading)
        events = sum(plant.events for plant in published)
        return WireBytes(
            wire,
            events=events,
            sent=sum(sender.sent for sender in senders),
            set_up=sum(before),
            to_broker=proxy.to_broker - before[0],
            from_broker=proxy.from_broker - before[1],
            complete=complete,
            behind=sum(plant.behind for plant in published) / events,
        )


async def _connect(opened: AsyncExitStack, wire: Wire) -> tuple[Proxy, list[StackSender], Taken, asyncio.Task[None]]:
    """A broker behind a proxy, a reader that reads, and the publishers."""
    ours = stack(wire.kind)
    server = await opened.enter_async_context(EmbeddedServer())
    if wire.kind == "thinwire":
        await opened.enter_async_context(ProcessGroup([WorkerProcess("registry", "registry", {"url": server.url})]))
    direct = route_to(server.url, building.schema(), linger=wire.linger, tolerance=TOLERANCE)
    await ours.prepare(direct)
    proxy = await opened.enter_async_context(Proxy(LOOPBACK, server.port))
    route = replace(direct, url=f"nats://{LOOPBACK}:{proxy.port}")
    receiver = await ours.receiver(route, "reader")
    opened.push_async_callback(receiver.close)
    notes = Taken(**NOTES["building"])
    reading = asyncio.create_task(take_all(receiver, notes))
    opened.push_async_callback(_end, reading)
    senders = []
    for plant in range(PLANTS):
        senders.append(await ours.sender(route, f"plant-{plant}"))
        opened.push_async_callback(senders[-1].close)
    return proxy, senders, notes, reading


@dataclass(frozen=True)
class Published:
    """What a plant has published: how many events, how many of them late, and the last one."""

    events: int
    behind: int
    last: dict[str, Any]


class _Watched:
    """A feed that notes how many events leave late."""

    def __init__(self, feed: BuildingFeed) -> None:
        self.behind = 0
        self._feed = feed

    def due(self, until: int) -> list[dict[str, Any]]:
        self.behind += len(late := self._feed.due(until - LATE))
        return late + self._feed.due(until)


async def _publish(senders: list[StackSender], wire: Wire, seconds: float) -> list[Published]:
    start = micros() + 100_000
    end = start + round(seconds * 1e6)

    async def one(place: int, sender: StackSender) -> Published:
        feed = BuildingFeed(place, PLANTS, PLANTS * wire.rate, start)
        watched = _Watched(feed)
        await publish(sender, watched, end)
        (last,) = feed.final_events()
        await sender.publish([last])
        await sender.flush()
        return Published(feed.published, watched.behind, last)

    return list(await asyncio.gather(*(one(place, sender) for place, sender in enumerate(senders))))


async def _arrived(notes: Taken, published: list[Published], reading: asyncio.Task[None]) -> bool:
    """Has the reader been handed everything?"""
    last = {plant.last["plant"]: plant.last["timestamp"] for plant in published}
    try:
        async with asyncio.timeout(PATIENCE):
            while notes.last != last:
                if reading.done():
                    reading.result()
                await asyncio.sleep(_POLL)
    except TimeoutError:
        return False
    return notes.events == sum(plant.events for plant in published)


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
