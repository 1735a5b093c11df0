"""Publishers and subscribers of a load round as worker processes. The code is the same for every stack.

The load is open: events are due at fixed instants, independent of earlier ones, and latency is counted from these
instants. With demand classes, one subscriber of each class records its events for an audit.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from thinwire.demo.process_group import micros
from thinwire_lab.live.base_roles import CommandRole
from thinwire_lab.live.building_feed import BuildingFeed
from thinwire_lab.live.delivery_audit import DeliveryRecord, audit_exact
from thinwire_lab.live.live_feed import EventCourse, EventsBySource, LoadSource, feed_course, in_ticks, required_events
from thinwire_lab.live.process_measurement import ReceivedEvents
from thinwire_lab.live.stacks import Route, StackReceiver, StackSender, stack

TICK = 0.005
"""seconds between two checks for due events"""


class LoadFeed(Protocol):
    """The events of one publisher, each with the instant at which it is due."""

    published: int

    def due(self, until: int) -> list[dict[str, Any]]: ...

    def instant(self, number: int) -> int: ...

    def final_events(self) -> list[dict[str, Any]]: ...


FEEDS: dict[str, Any] = {"feed": LoadSource, "building": BuildingFeed}
EVENT_FIELDS: dict[str, dict[str, Any]] = {
    "feed": {"source": "sensor", "stamp": "time"},
    "building": {"source": "plant", "stamp": "timestamp", "timed": False},
}
"""arguments of `ReceivedEvents` for each feed"""


def last_instants(feed: str, events: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the instant of the last event of each source."""
    fields = EVENT_FIELDS[feed]
    return {event[fields["source"]]: event[fields["stamp"]] for event in events}


class StackRole(CommandRole):
    """A worker that sends or receives a feed with a stack.

    kind: name of the stack; number: of the worker among those of its role
    """

    def __init__(self, kind: str, route: Mapping[str, Any], feed: str, number: int) -> None:
        super().__init__()
        self.kind = kind
        self.route = Route(**route)
        self.feed = feed
        self.number = number


class PublisherRole(StackRole):
    """One publisher."""

    def __init__(self, publishers: int, **settings: Any) -> None:
        super().__init__(**settings)
        self.publishers = publishers

    async def open(self) -> None:
        self._sender = await stack(self.kind).sender(self.route, f"p{self.number}", self.resources)

    async def do_round(self, rate: float, seconds: float, start: int, turn: int) -> dict[str, Any]:
        """Publish `rate` events per second, all publishers together, from `start` for `seconds`."""
        sender, end = self._sender, start + round(seconds * 1e6)
        feed: LoadFeed = FEEDS[self.feed](self.number, self.publishers, rate, start, turn)
        delivered, sent = sender.delivered_events, sender.sent
        await publish_due(sender, feed, end)
        first = feed.published
        last = feed.final_events()
        for number, event in enumerate(last, first):
            await _sleep_until(feed.instant(number))  # published together, all but the last one would be late
            await sender.publish([event])
        await sender.flush()
        return {
            "events": feed.published,
            "expected": sender.delivered_events - delivered,
            "sent": sender.sent - sent,
            "last": last_instants(self.feed, last),
        }


async def publish_due(sender: StackSender, feed: LoadFeed, end: int) -> None:
    """Publish every event when it is due, up to `end`."""
    while (now := micros()) < end:
        await sender.publish(feed.due(now))
        await asyncio.sleep(TICK)
    await sender.publish(feed.due(end))


async def _sleep_until(instant: int) -> None:
    while (wait := instant - micros()) > 0:
        await asyncio.sleep(wait / 1e6)


class SubscriberRole(StackRole):
    """Subscribers in one process, each with its own connection."""

    def __init__(self, connections: int, **settings: Any) -> None:
        super().__init__(**settings)
        self.connections = connections
        self._receivers: list[StackReceiver] = []
        self._received: list[ReceivedEvents] = []
        self._delivered_before: list[int] = []

    async def open(self) -> None:
        for index in range(self.connections):
            self._receivers.append(await stack(self.kind).receiver(self.route_of(index), self.resources))
            self._received.append(self.make_measurement(index))
        for receiver, received in zip(self._receivers, self._received, strict=True):
            self.start_task(receive_all(receiver, received))

    async def do_begin(self, start: int = 0, timed_from: int = 0) -> dict[str, Any]:
        """Restart the counts. Latencies are measured for events that arrive from `timed_from` on."""
        loop = asyncio.get_running_loop()
        self._delivered_before = [receiver.delivered for receiver in self._receivers]
        for received in self._received:
            received.begin()
            loop.call_later(max(0.0, (timed_from - micros()) / 1e6), received.clear_latencies)
        return {"missed": [receiver.missed for receiver in self._receivers]}

    async def do_end(self, last: dict[str, Any], max_wait: float) -> dict[str, Any]:
        """Wait until every source has reached its instant in `last`, then return the measurement."""
        await self.wait_until(lambda: all(received.last == last for received in self._received), max_wait, settle=0.0)
        latencies = sum((received.latencies for received in self._received), Counter[int]())
        return {
            "events": self.delivered_events(),
            "complete": [received.last == last for received in self._received],
            "missed": [receiver.missed for receiver in self._receivers],
            "latencies": list(latencies.items()),
        }

    def route_of(self, index: int) -> Route:
        """Return the request of a subscriber."""
        return self.route

    def make_measurement(self, index: int) -> ReceivedEvents:
        """Return the object that measures the events of a subscriber."""
        return ReceivedEvents(**EVENT_FIELDS[self.feed])

    def delivered_events(self) -> list[int]:
        """Return the number of events of each subscriber since `begin`, including those that show no change."""
        return [r.delivered - before for r, before in zip(self._receivers, self._delivered_before, strict=True)]


async def receive_all(receiver: StackReceiver, received: ReceivedEvents) -> None:
    """Measure all events of a subscriber."""
    receive, add = receiver.next, received.add
    while True:
        events = await receive()
        now = micros()
        add(events, receiver.sent(events), now)


class Auditor(ReceivedEvents):
    """Measurement of a subscriber that also records its events and audits them.

    log: the tolerance of the log, which is that of the strictest class
    """

    def __init__(self, tolerance: float, log: float, **fields: Any) -> None:
        super().__init__(**fields)
        self.tolerance = tolerance
        self.log = log
        self.start = 0
        self._course: EventCourse | None = None
        self._required: EventsBySource | None = None
        self._record: DeliveryRecord | None = None

    @property
    def expected_events(self) -> int:
        """The number of events that the class must receive."""
        return len(self._required) if self._required is not None else 0

    def prepare(self, course: EventCourse) -> None:
        """Compute the required events and allocate the record."""
        log = in_ticks(self.log)
        self._course = course
        self._required = required_events(course, log, in_ticks(self.tolerance) - log)
        capacity = len(self._required) + len(course.names)
        self._record = DeliveryRecord(course, source=self.source, stamp=self.stamp, capacity=capacity)

    def add(self, events: Sequence[Any], sent: Sequence[Mapping[str, Any]], now: int) -> None:
        super().add(events, sent, now)
        if self._record is not None:
            self._record.add(events)

    def count_faults(self) -> int:
        assert self._record is not None
        assert self._course is not None
        assert self._required is not None
        return audit_exact(self._record, self._course, self._required, self.start, self.tolerance).faults


class ClassSubscriberRole(SubscriberRole):
    """Subscribers that belong to the demand classes in turn.

    classes: tolerances; readers: number of workers of this role, over which the auditors are spread
    publishers: number of publishers whose events are read
    """

    def __init__(self, classes: Sequence[float], readers: int, publishers: int, **settings: Any) -> None:
        super().__init__(**settings)
        self.classes = tuple(classes)
        self.readers = readers
        self.publishers = publishers

    def route_of(self, index: int) -> Route:
        return replace(self.route, tolerance=self._tolerance(index))

    def make_measurement(self, index: int) -> ReceivedEvents:
        # the first subscriber of each class audits, those of neighbouring classes in different processes
        audits = index < len(self.classes) and self._class(index) % self.readers == self.number
        fields = EVENT_FIELDS[self.feed]
        return Auditor(self._tolerance(index), min(self.classes), **fields) if audits else ReceivedEvents(**fields)

    async def do_prepare(self, rate: float, seconds: float, turn: int) -> None:
        """Compute the required events of a round."""
        course = feed_course(rate, self.publishers, seconds, turn)
        for auditor in self._auditors():
            auditor.prepare(course)

    async def do_begin(self, start: int = 0, timed_from: int = 0) -> dict[str, Any]:
        for auditor in self._auditors():
            auditor.start = start
        return await super().do_begin(start, timed_from)

    async def do_end(self, last: dict[str, Any], max_wait: float) -> dict[str, Any]:
        return await super().do_end(last, max_wait) | {
            "classes": [self._tolerance(index) for index in range(self.connections)],
            "expected": [r.expected_events if isinstance(r, Auditor) else None for r in self._received],
            "faults": [*(auditor.count_faults() for auditor in self._auditors()), *self._wrong_feeds()],
        }

    def delivered_events(self) -> list[int]:
        """Return the number of events of each subscriber. Every event of a channel shows a change."""
        return [received.events for received in self._received]

    def _wrong_feeds(self) -> list[int]:
        """Return 1 for each subscriber that reads the log although its class has a channel, or the reverse."""
        strictest = min(self.classes)
        return [
            int((receiver.feed == "log") is not (self._tolerance(index) == strictest))
            for index, receiver in enumerate(self._receivers)
        ]

    def _auditors(self) -> list[Auditor]:
        return [received for received in self._received if isinstance(received, Auditor)]

    def _class(self, index: int) -> int:
        return (self.number * self.connections + index) % len(self.classes)

    def _tolerance(self, index: int) -> float:
        return self.classes[self._class(index)]


def share_expectations(results: Sequence[dict[str, Any]]) -> None:
    """Set the number of expected events of every subscriber to that of the auditor of its class.

    >>> results = [{"classes": [1.0, 2.0], "expected": [7, None]}, {"classes": [1.0, 2.0], "expected": [None, 5]}]
    >>> share_expectations(results)
    >>> [result["expected"] for result in results]
    [[7, 5], [7, 5]]
    """
    expected = {
        tolerance: number
        for result in results
        for tolerance, number in zip(result["classes"], result["expected"], strict=True)
        if number is not None
    }
    for result in results:
        result["expected"] = [expected[tolerance] for tolerance in result["classes"]]
