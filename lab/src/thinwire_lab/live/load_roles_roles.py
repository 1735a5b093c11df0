"""Publishers and subscribers as processes, round by round. The same code for every stack.

An open loop: events are due at fixed instants whatever became of those before, and latency counts from there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Protocol

from thinwire.demo.process_group_processes import micros
from thinwire_lab.live.building_feed import BuildingFeed
from thinwire_lab.live.live_feed_feed import Feed
from thinwire_lab.live.process_measurement import Taken, sparse
from thinwire_lab.live.stacks import Receiver, Route, Sender, stack

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

    def farewell(self) -> list[dict[str, Any]]: ...


FEEDS: dict[str, Any] = {"feed": Feed, "building": BuildingFeed}
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
        self._sender: Sender | None = None

    async def open(self) -> None:
        self._sender = await stack(self.kind).sender(self.route, f"p{self.number}")

    async def obey(self, command: dict[str, Any]) -> dict[str, Any]:
        """`round`: publish `rate` events a second (all publishers together) from `start` on for `seconds`."""
        assert self._sender is not None
        start, end = command["start"], command["start"] + round(command["seconds"] * 1e6)
        feed: Source = FEEDS[self.feed](self.number, self.publishers, command["rate"], start, command["turn"])
        told, sent = self._sender.told, self._sender.sent
        await publish(self._sender, feed, end)
        first = feed.published
        last = feed.farewell()
        for number, event in enumerate(last, first):
            await _until(feed.instant(number))  # each at its own time: sent together, the first would count as late
            await self._sender.publish([event])
        await self._sender.flush()
        notes = NOTES[self.feed]
        return {
            "events": feed.published,
            "told": self._sender.told - told,
            "sent": self._sender.sent - sent,
            "last": {event[notes["source"]]: event[notes["stamp"]] for event in last},
            "behind": (micros() - end) / 1e6,
        }

    async def close(self) -> None:
        if self._sender is not None:
            await self._sender.close()


async def publish(sender: Sender, feed: Due, end: int) -> None:
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
        self._receivers: list[Receiver] = []
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


async def take_all(receiver: Receiver, notes: Taken) -> None:
    """Note everything that comes."""
    receive, take = receiver.next, notes.take
    while True:
        events = await receive()
        now = micros()
        take(events, receiver.sent(events), now)
