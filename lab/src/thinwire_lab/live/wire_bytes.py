"""Every byte on the sockets of publishers and subscribers, in both directions, while a building is published.

Only bytes are measured, so all links run in one process, each with its own broker behind a counting proxy. Events must
still be sent on time: a process that falls behind would send fewer and larger messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any

from thinwire.brokers.embedded import LOOPBACK
from thinwire.brokers.proxy import Proxy
from thinwire.demo import building
from thinwire.demo.process_group import micros
from thinwire_lab.live.building_feed import BuildingFeed
from thinwire_lab.live.live_system import LiveSystem
from thinwire_lab.live.load_roles import EVENT_FIELDS, last_instants, publish_due, receive_all
from thinwire_lab.live.process_measurement import ReceivedEvents
from thinwire_lab.live.stacks import StackSender, route_to, stack

PLANTS = 3
TOLERANCE = 0.5
SETTLE = 1.0
"""seconds from the last connection until bytes count"""
LATE = 20_000
"""microseconds after which an event counts as late"""
TIMEOUT = 30.0
_POLL = 0.02


@dataclass(frozen=True)
class Wire:
    """A way to publish: the stack, seconds of linger, and events per second of each plant."""

    kind: str
    linger: float
    rate: float


@dataclass(frozen=True)
class WireBytes:
    """Bytes of a wire after its set-up.

    set_up: bytes of the set-up, both directions; sent: events that were sent; complete: whether all were received
    behind: the share of the events that were sent late
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


async def measure_wires(wires: Iterable[Wire], seconds: float) -> dict[Wire, WireBytes]:
    """Publish on all wires at the same time."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_measure(wire, seconds)) for wire in wires]
    return {task.result().wire: task.result() for task in tasks}


async def _measure(wire: Wire, seconds: float) -> WireBytes:
    async with LiveSystem(in_memory=False) as system:
        proxy, senders, received, receiving = await _connect(system, wire)
        await asyncio.sleep(SETTLE)
        before = (proxy.to_broker, proxy.from_broker)
        published = await _publish(senders, wire, seconds)
        complete = await _wait_for_all(received, published, receiving)
        events = sum(plant.events for plant in published)
        return WireBytes(
            wire,
            events=events,
            sent=sum(sender.sent for sender in senders),
            set_up=sum(before),
            to_broker=proxy.to_broker - before[0],
            from_broker=proxy.from_broker - before[1],
            complete=complete,
            behind=sum(plant.late for plant in published) / events,
        )


async def _connect(
    system: LiveSystem, wire: Wire
) -> tuple[Proxy, list[StackSender], ReceivedEvents, asyncio.Task[None]]:
    """Start the proxy, a running subscriber and the publishers."""
    resources: AsyncExitStack = system.resources
    own_stack = stack(wire.kind)
    if wire.kind == "thinwire":
        await system.start(system.make_worker("registry"))
    direct = route_to(system.url, building.schema(), linger=wire.linger, tolerance=TOLERANCE)
    await own_stack.prepare(direct)
    proxy = await resources.enter_async_context(Proxy(LOOPBACK, system.server.port))
    route = replace(direct, url=f"nats://{LOOPBACK}:{proxy.port}")
    receiver = await own_stack.receiver(route, "reader")
    resources.push_async_callback(receiver.close)
    received = ReceivedEvents(**EVENT_FIELDS["building"])
    receiving = asyncio.create_task(receive_all(receiver, received))
    resources.push_async_callback(_cancel, receiving)
    senders = []
    for plant in range(PLANTS):
        senders.append(await own_stack.sender(route, f"plant-{plant}"))
        resources.push_async_callback(senders[-1].close)
    return proxy, senders, received, receiving


@dataclass(frozen=True)
class PublishedPlant:
    """Number of events of a plant, how many were late, and the last event."""

    events: int
    late: int
    last: dict[str, Any]


class _TimedFeed:
    """A feed that counts the events that are sent late."""

    def __init__(self, feed: BuildingFeed) -> None:
        self.late = 0
        self._feed = feed

    def due(self, until: int) -> list[dict[str, Any]]:
        late = self._feed.due(until - LATE)
        self.late += len(late)
        return late + self._feed.due(until)


async def _publish(senders: list[StackSender], wire: Wire, seconds: float) -> list[PublishedPlant]:
    start = micros() + 100_000
    end = start + round(seconds * 1e6)

    async def publish_plant(number: int, sender: StackSender) -> PublishedPlant:
        feed = BuildingFeed(number, PLANTS, PLANTS * wire.rate, start)
        timed = _TimedFeed(feed)
        await publish_due(sender, timed, end)
        (last,) = feed.final_events()
        await sender.publish([last])
        await sender.flush()
        return PublishedPlant(feed.published, timed.late, last)

    return list(await asyncio.gather(*(publish_plant(number, sender) for number, sender in enumerate(senders))))


async def _wait_for_all(
    received: ReceivedEvents, published: list[PublishedPlant], receiving: asyncio.Task[None]
) -> bool:
    """Wait until the subscriber has reached the last events, and return whether it received all events."""
    last = last_instants("building", [plant.last for plant in published])
    try:
        async with asyncio.timeout(TIMEOUT):
            while received.last != last:
                if receiving.done():
                    receiving.result()
                await asyncio.sleep(_POLL)
    except TimeoutError:
        return False
    return received.events == sum(plant.events for plant in published)


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
