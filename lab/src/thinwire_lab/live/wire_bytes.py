"""Bytes on the sockets of publishers and a subscriber of the generated building, in both directions.

All connections run in one process, because only bytes are measured. Each wire has its own broker behind a proxy that
counts bytes. Events must still be sent on time: a process that falls behind sends fewer and larger messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from thinwire.brokers.embedded import LOOPBACK
from thinwire.brokers.proxy import Proxy
from thinwire.demo import building
from thinwire.demo.process_group import micros
from thinwire_lab.live.background_tasks import background_task
from thinwire_lab.live.building_feed import BuildingFeed
from thinwire_lab.live.live_system import LiveSystem
from thinwire_lab.live.load_roles import EVENT_FIELDS, last_instants, publish_due, receive_all
from thinwire_lab.live.process_measurement import ReceivedEvents
from thinwire_lab.live.stacks import StackSender, route_to, stack

PLANTS = 3
TOLERANCE = 0.5
SETTLE = 1.0
"""seconds between the last connection and the first counted byte"""
LATE = 20_000
"""microseconds after which an event counts as late"""
TIMEOUT = 30.0
_POLL = 0.02


@dataclass(frozen=True)
class Wire:
    """A measured configuration: kind of stack, seconds of linger, and events per second of each plant."""

    kind: str
    linger: float
    rate: float


@dataclass(frozen=True)
class WireBytes:
    """Bytes of a wire, and the conditions under which they are valid.

    set_up: bytes before the first event, both directions; the other bytes do not contain them
    sent: events that were sent; complete: whether all events were received; late_share: share of the events sent late
    """

    wire: Wire
    events: int
    sent: int
    set_up: int
    to_broker: int
    from_broker: int
    complete: bool
    late_share: float

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
        events = sum(feed.published for feed in published)
        return WireBytes(
            wire,
            events=events,
            sent=sum(sender.sent for sender in senders),
            set_up=sum(before),
            to_broker=proxy.to_broker - before[0],
            from_broker=proxy.from_broker - before[1],
            complete=complete,
            late_share=sum(feed.late_events for feed in published) / events,
        )


async def _connect(
    system: LiveSystem, wire: Wire
) -> tuple[Proxy, list[StackSender], ReceivedEvents, asyncio.Task[None]]:
    """Start the proxy, a running subscriber and the publishers."""
    resources, own_stack = system.resources, stack(wire.kind)
    if wire.kind == "thinwire":
        await system.start(system.make_worker("registry"))
    broker_route = route_to(system.url, building.schema(), linger=wire.linger, tolerance=TOLERANCE)
    await own_stack.prepare(broker_route)
    proxy = await resources.enter_async_context(Proxy(LOOPBACK, system.server.port))
    route = replace(broker_route, url=f"nats://{LOOPBACK}:{proxy.port}")
    receiver = await own_stack.receiver(route, resources)
    received = ReceivedEvents(**EVENT_FIELDS["building"])
    receiving = await resources.enter_async_context(background_task(receive_all(receiver, received)))
    senders = [await own_stack.sender(route, f"plant-{plant}", resources) for plant in range(PLANTS)]
    return proxy, senders, received, receiving


class _TimedFeed(BuildingFeed):
    """A feed that counts the events that are sent late, and holds the final events."""

    late_events = 0
    last: Sequence[dict[str, Any]] = ()

    def due(self, until: int) -> list[dict[str, Any]]:
        late = super().due(until - LATE)  # the second call returns the other events that are due
        self.late_events += len(late)
        return late + super().due(until)


async def _publish(senders: list[StackSender], wire: Wire, seconds: float) -> list[_TimedFeed]:
    start = micros() + 100_000
    end = start + round(seconds * 1e6)

    async def publish_plant(number: int, sender: StackSender) -> _TimedFeed:
        feed = _TimedFeed(number, PLANTS, PLANTS * wire.rate, start)
        await publish_due(sender, feed, end)
        feed.last = feed.final_events()
        await sender.publish(feed.last)
        await sender.flush()
        return feed

    return list(await asyncio.gather(*(publish_plant(number, sender) for number, sender in enumerate(senders))))


async def _wait_for_all(received: ReceivedEvents, published: list[_TimedFeed], receiving: asyncio.Task[None]) -> bool:
    """Wait until the subscriber has reached the last events, and return whether it received all events."""
    last = last_instants("building", [event for feed in published for event in feed.last])
    try:
        async with asyncio.timeout(TIMEOUT):
            while received.last != last:
                if receiving.done():
                    receiving.result()
                await asyncio.sleep(_POLL)
    except TimeoutError:
        return False
    return received.events == sum(feed.published for feed in published)
