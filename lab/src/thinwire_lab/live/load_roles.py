"""Subscribers of a round in several classes; one of each class audits every event it is handed.

Publishers and subscribers as processes, round by round. The same code for every stack.

An open loop: events are due at fixed instants whatever became of those before, and latency counts from there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from thinwire.demo.process_group import micros
from thinwire_lab.live.building_feed import BuildingFeed
from thinwire_lab.live.delivery_audit import Record, strictly
from thinwire_lab.live.live_feed import EventCourse, EventsBySource, LoadSource, changes, feed_course, in_ticks
from thinwire_lab.live.process_measurement import Taken, sparse
from thinwire_lab.live.stacks import Route, StackReceiver, StackSender, stack

TICK = 0.005
"""seconds between two looks at what is due"""
_POLL = 0.02


class Due(Protocol):
    """Events that are due at instants."""

    def due(self, until: int) -> list[dict[str, Any]]: ...


class Source(Due, Protocol):
    """The same, with an end."""

    published: int
    period: int

    def instant(self, number: int) -> int: ...

    def final_events(self) -> list[dict[str, Any]]: ...


FEEDS: dict[str, Any] = {"feed": LoadSource, "building": BuildingFeed}
NOTES: dict[str, dict[str, Any]] = {
    "feed": {"source": "sensor", "stamp": "time"},
    "building": {"source": "plant", "stamp": "timestamp", "timed": False},
}


class PublisherRole:
    """One publisher; a round is a rate for some seconds."""

    def __init__(self, kind: str, route: Mapping[str, Any], feed: str, number: int, publishers: int) -> None:
        self.kind = kind
        self.route = Route(**route)
        self.feed = feed
        self.number = number
        self.publishers = publishers
        self._sender: StackSender | None = None

    async def open(self) -> None:
        self._sender = await stack(self.kind).sender(self.route, f"p{self.number}")

    async def obey(self, command: dict[str, Any]) -> dict[str, Any]:
        """`round`: publish `rate` events a second (all publishers together) from `start` on for `seconds`."""
        assert self._sender is not None
        start, end = command["start"], command["start"] + round(command["seconds"] * 1e6)
        feed: Source = FEEDS[self.feed](self.number, self.publishers, command["rate"], start, command["turn"])
        told, sent = self._sender.delivered_events, self._sender.sent
        await publish(self._sender, feed, end)
        first = feed.published
        last = feed.final_events()
        for number, event in enumerate(last, first):
            await _until(feed.instant(number))  # each at its own time: sent together, the first would count as late
            await self._sender.publish([event])
        await self._sender.flush()
        notes = NOTES[self.feed]
        return {
            "events": feed.published,
            "told": self._sender.delivered_events - told,
            "sent": self._sender.sent - sent,
            "last": {event[notes["source"]]: event[notes["stamp"]] for event in last},
            "behind": (micros() - end) / 1e6,
        }

    async def close(self) -> None:
        if self._sender is not None:
            await self._sender.close()


async def publish(sender: StackSender, feed: Due, end: int) -> None:
    """Everything that becomes due up to `end`."""
    while (now := micros()) < end:
        await sender.publish(feed.due(now))
        await asyncio.sleep(TICK)
    await sender.publish(feed.due(end))


async def _until(instant: int) -> None:
    while (wait := instant - micros()) > 0:
        await asyncio.sleep(wait / 1e6)


class SubscriberRole:
    """Some subscribers, each with a connection of its own."""

    def __init__(self, kind: str, route: Mapping[str, Any], feed: str, number: int, connections: int) -> None:
        self.kind = kind
        self.route = Route(**route)
        self.feed = feed
        self.number = number
        self.connections = connections
        self._receivers: list[StackReceiver] = []
        self._notes: list[Taken] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._before: list[int] = []

    async def open(self) -> None:
        for place in range(self.connections):
            name = f"s{self.number}-{place}"
            self._receivers.append(await stack(self.kind).receiver(self.route_of(place), name))
            self._notes.append(self.notes_of(place))
        self._tasks = [asyncio.create_task(take_all(r, n)) for r, n in zip(self._receivers, self._notes, strict=True)]

    async def obey(self, command: dict[str, Any]) -> dict[str, Any]:
        if command["do"] == "begin":
            return self._begin(command["timed_from"])
        return await self._end(command["last"], command["patience"])

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for receiver in self._receivers:
            await receiver.close()

    def route_of(self, place: int) -> Route:
        """What the subscriber at this place asks."""
        return self.route

    def notes_of(self, place: int) -> Taken:
        """What it notes down."""
        return Taken(**NOTES[self.feed])

    def events(self) -> list[int]:
        """What each subscriber was handed since the round began, what it left out included."""
        return [receiver.taken - then for receiver, then in zip(self._receivers, self._before, strict=True)]

    def _begin(self, timed_from: int) -> dict[str, Any]:
        """`begin`: count from now, and time what arrives from `timed_from` on."""
        loop = asyncio.get_running_loop()
        self._before = [receiver.taken for receiver in self._receivers]
        for notes in self._notes:
            notes.begin()
            loop.call_later(max(0.0, (timed_from - micros()) / 1e6), notes.forget)
        return {"missed": [receiver.missed for receiver in self._receivers]}

    async def _end(self, last: dict[str, Any], patience: float) -> dict[str, Any]:
        """`end`: wait until every source has come as far as `last` says, then tell what was noted."""
        try:
            async with asyncio.timeout(patience):
                while any(notes.last != last for notes in self._notes):
                    self._raise_failure()
                    await asyncio.sleep(_POLL)
        except TimeoutError:
            pass
        return {
            "events": self.events(),
            "complete": [notes.last == last for notes in self._notes],
            "missed": [receiver.missed for receiver in self._receivers],
            "latencies": sparse(sum((notes.latencies for notes in self._notes[1:]), self._notes[0].latencies.copy())),
        }

    def _raise_failure(self) -> None:
        for task in self._tasks:
            if task.done():
                task.result()


async def take_all(receiver: StackReceiver, notes: Taken) -> None:
    """Note everything that comes."""
    receive, take = receiver.next, notes.take
    while True:
        events = await receive()
        now = micros()
        take(events, receiver.sent(events), now)


class Auditor(Taken):
    """Notes of a subscriber that also writes every event down, and knows which ones its class must be told.

    log: the tolerance of the strictest class, which is the publishers' own
    """

    def __init__(self, tolerance: float, log: float, **notes: Any) -> None:
        super().__init__(**notes)
        self.tolerance = tolerance
        self.log = log
        self.start = 0
        self._course: EventCourse | None = None
        self._told: EventsBySource | None = None
        self._record: Record | None = None

    @property
    def expected_events(self) -> int:
        """How many events the class must be told."""
        return len(self._told) if self._told is not None else 0

    def prepare(self, course: EventCourse) -> None:
        """Work out what is to come, and make room for it."""
        log = in_ticks(self.log)
        told = changes(course, log, in_ticks(self.tolerance) - log)
        self._course, self._told = course, told
        self._record = Record(
            course.names, course.readings, source=self.source, stamp=self.stamp, capacity=len(told) + len(course.names)
        )

    def take(self, events: Sequence[Any], sent: Sequence[Mapping[str, Any]], now: int) -> None:
        super().take(events, sent, now)
        if self._record is not None:
            self._record.note(events)

    def faults(self) -> int:
        """What is wrong with what came: anything missing, too much, out of order or not as it must be."""
        assert self._record is not None
        assert self._told is not None
        assert self._course is not None
        return strictly(self._record, self._told, self._course, self.start, self.tolerance).faults


class ClassSubscriberRole(SubscriberRole):
    """Some subscribers, each of the next class.

    classes: tolerances; readers: processes like this one, among which auditors are spread
    publishers: whose feeds are read
    """

    def __init__(self, classes: Sequence[float], readers: int, publishers: int, **settings: Any) -> None:
        super().__init__(**settings)
        self.classes = tuple(classes)
        self.readers = readers
        self.publishers = publishers

    def route_of(self, place: int) -> Route:
        return replace(self.route, tolerance=self._tolerance(place))

    def notes_of(self, place: int) -> Taken:
        # the first of each class, every other class in another process
        audits = place < len(self.classes) and self._class(place) % self.readers == self.number
        notes = NOTES[self.feed]
        return Auditor(self._tolerance(place), min(self.classes), **notes) if audits else Taken(**notes)

    async def obey(self, command: dict[str, Any]) -> dict[str, Any]:
        if command["do"] == "prepare":
            course = feed_course(command["rate"], self.publishers, command["seconds"], command["turn"])
            for auditor in self._auditors():
                auditor.prepare(course)
            return {}
        if command["do"] == "begin":
            for auditor in self._auditors():
                auditor.start = command["start"]
        answer = await super().obey(command)
        return answer | self._audit() if command["do"] == "end" else answer

    def events(self) -> list[int]:
        """What each was handed: a channel has nothing that would have to be left out."""
        return [notes.events for notes in self._notes]

    def _audit(self) -> dict[str, Any]:
        return {
            "classes": [self._tolerance(place) for place in range(self.connections)],
            "told": [notes.expected_events if isinstance(notes, Auditor) else None for notes in self._notes],
            "faults": [*(auditor.faults() for auditor in self._auditors()), *self._astray()],
        }

    def _astray(self) -> list[int]:
        """Who reads the log although the class has a channel has its events another way: that would not be measured."""
        strictest = min(self.classes)
        return [
            int((receiver.feed == "log") is not (self._tolerance(place) == strictest))
            for place, receiver in enumerate(self._receivers)
        ]

    def _auditors(self) -> list[Auditor]:
        return [notes for notes in self._notes if isinstance(notes, Auditor)]

    def _class(self, place: int) -> int:
        return (self.number * self.connections + place) % len(self.classes)

    def _tolerance(self, place: int) -> float:
        return self.classes[self._class(place)]


def share_expectations(answers: Sequence[dict[str, Any]]) -> None:
    """What the auditor of a class expects is what all of its class expect.

    >>> answers = [{"classes": [1.0, 2.0], "told": [7, None]}, {"classes": [1.0, 2.0], "told": [None, 5]}]
    >>> share_expectations(answers)
    >>> [answer["told"] for answer in answers]
    [[7, 5], [7, 5]]
    """
    told = {
        tolerance: number
        for answer in answers
        for tolerance, number in zip(answer["classes"], answer["told"], strict=True)
        if number is not None
    }
    for answer in answers:
        answer["told"] = [told[tolerance] for tolerance in answer["classes"]]
