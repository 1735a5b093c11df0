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
from thinwire_lab.live.live_feed import EventsBySource, GroundTruth, LoadSource, feed_truth, in_ticks, required_events
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
"""arguments of `ReceivedEvents` by feed: the properties with source and due time, and whether latency is measured"""


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

    async def do_round(self, rate: float, seconds: float, start: int, round_number: int) -> dict[str, Any]:
        """Publish `rate` events per second, all publishers together, from `start` for `seconds`."""
        sender, end = self._sender, start + round(seconds * 1e6)
        feed: LoadFeed = FEEDS[self.feed](self.number, self.publishers, rate, start, round_number)
        delivered, sent = sender.delivered_events, sender.sent
        await publish_due(sender, feed, end)
        first = feed.published
        final_events = feed.final_events()
        for number, event in enumerate(final_events, first):
            await _sleep_until(feed.instant(number))  # each at its due time: latency is counted from it
            await sender.publish([event])
        await sender.flush()
        return {
            "events": feed.published,
            "expected": sender.delivered_events - delivered,
            "sent": sender.sent - sent,
            "last": last_instants(self.feed, final_events),
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
        """Wait for the last event of every source, whose instants are in `last`, then return the measurement."""
        await self.wait_until(lambda: all(received.last == last for received in self._received), max_wait, settle=0.0)
        latencies = sum((received.latencies for received in self._received), Counter[int]())
        return {
            "events": self.delivered_events(),
            "complete": [received.last == last for received in self._received],
            "missed": [receiver.missed for receiver in self._receivers],
            "latencies": list(latencies.items()),
        }

    def route_of(self, index: int) -> Route:
        """Return the route of a subscriber: topic, tolerance and other settings."""
        return self.route

    def make_measurement(self, index: int) -> ReceivedEvents:
        """Return the object that measures the events of a subscriber."""
        return ReceivedEvents(**EVENT_FIELDS[self.feed])

    def delivered_events(self) -> list[int]:
        """Return the number of events of each subscriber since `begin`, including events without a visible change."""
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

    log_tolerance: the tolerance of the strictest class, with which the topic log is written
    """

    def __init__(self, tolerance: float, log_tolerance: float, **fields: Any) -> None:
        super().__init__(**fields)
        self.tolerance = tolerance
        self.log_tolerance = log_tolerance
        self.start = 0
        self._truth: GroundTruth | None = None
        self._required: EventsBySource | None = None
        self._record: DeliveryRecord | None = None

    @property
    def expected_events(self) -> int:
        """The number of events that the class must receive."""
        return len(self._required) if self._required is not None else 0

    def prepare(self, truth: GroundTruth) -> None:
        """Compute the required events and allocate the record."""
        log_ticks = in_ticks(self.log_tolerance)
        self._truth = truth
        self._required = required_events(truth, log_ticks, in_ticks(self.tolerance) - log_ticks)
        capacity = len(self._required) + len(truth.names)
        self._record = DeliveryRecord(truth, source=self.source, stamp=self.stamp, capacity=capacity)

    def add(self, events: Sequence[Any], sent: Sequence[Mapping[str, Any]], now: int) -> None:
        super().add(events, sent, now)
        if self._record is not None:
            self._record.add(events)

    def count_faults(self) -> int:
        assert self._record is not None
        assert self._truth is not None
        assert self._required is not None
        return audit_exact(self._record, self._truth, self._required, self.start, self.tolerance).faults


class ClassSubscriberRole(SubscriberRole):
    """Subscribers that belong to the demand classes in turn.

    classes: tolerances; subscriber_processes: number of workers of this role
    publishers: number of publishers whose events are read
    """

    def __init__(self, classes: Sequence[float], subscriber_processes: int, publishers: int, **settings: Any) -> None:
        super().__init__(**settings)
        self.classes = tuple(classes)
        self.subscriber_processes = subscriber_processes
        self.publishers = publishers

    def route_of(self, index: int) -> Route:
        return replace(self.route, tolerance=self._tolerance(index))

    def make_measurement(self, index: int) -> ReceivedEvents:
        # one auditor per class, spread over the processes
        audits = index < len(self.classes) and self._class(index) % self.subscriber_processes == self.number
        fields = EVENT_FIELDS[self.feed]
        return Auditor(self._tolerance(index), min(self.classes), **fields) if audits else ReceivedEvents(**fields)

    async def do_prepare(self, rate: float, seconds: float, round_number: int) -> None:
        """Compute the required events of a round."""
        truth = feed_truth(rate, self.publishers, seconds, round_number)
        for auditor in self._auditors():
            auditor.prepare(truth)

    async def do_begin(self, start: int = 0, timed_from: int = 0) -> dict[str, Any]:
        for auditor in self._auditors():
            auditor.start = start
        return await super().do_begin(start, timed_from)

    async def do_end(self, last: dict[str, Any], max_wait: float) -> dict[str, Any]:
        return await super().do_end(last, max_wait) | {
            "classes": [self._tolerance(index) for index in range(self.connections)],
            "expected": [r.expected_events if isinstance(r, Auditor) else None for r in self._received],
            "faults": [*(auditor.count_faults() for auditor in self._auditors()), *self._flag_wrong_feeds()],
        }

    def delivered_events(self) -> list[int]:
        """Return the number of events of each subscriber. A channel contains only events with a change."""
        return [received.events for received in self._received]

    def _flag_wrong_feeds(self) -> list[int]:
        """Return 1 for each subscription whose feed is the log although its class has a channel, or the reverse."""
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


def fill_expected(results: Sequence[dict[str, Any]]) -> None:
    """Set the number of expected events of every subscriber to that of the auditor of its class.

    >>> results = [{"classes": [1.0, 2.0], "expected": [7, None]}, {"classes": [1.0, 2.0], "expected": [None, 5]}]
    >>> fill_expected(results)
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
