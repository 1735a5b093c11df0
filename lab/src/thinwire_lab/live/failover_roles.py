"""A stream that can be joined at any moment: publishers with a long past, and subscribers that witness everything.

The past of a feed is published as fast as it goes, then it goes on at its pace; its course is known from its rate, its
start and its end, so witnesses can be judged without asking the publishers (`class_judge`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

import thinwire as tw
from thinwire.client import Publisher, Subscription
from thinwire.codec import EventsMissed
from thinwire.demo.process_group import micros
from thinwire_lab.live.delivery_audit import Record, by_promise
from thinwire_lab.live.live_feed import SOURCES, TOPIC, EventCourse, LoadSource, feed_course
from thinwire_lab.live.load_roles import NOTES, TICK

SLICE = 100_000
"""microseconds of the past that are published at a time"""
_POLL = 0.02
_NOTES = NOTES["feed"]


class SteadyRole:
    """Publishes a feed: its past at once, then everything when it is due, until it is told to finish.

    max_batch: bytes of a message, at most: small ones make a log of many messages
    """

    def __init__(self, url: str, number: int, publishers: int, linger: float, max_batch: int) -> None:
        self.url = url
        self.number = number
        self.publishers = publishers
        self.linger = linger
        self.max_batch = max_batch
        self._opened = AsyncExitStack()
        self._end: int | None = None
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        bus = await self._opened.enter_async_context(tw.connect(self.url))
        publisher = bus.publisher(TOPIC, name=f"p{self.number}", linger=self.linger, max_batch=self.max_batch)
        self._out: Publisher = await self._opened.enter_async_context(publisher)

    async def obey(self, command: dict[str, Any]) -> dict[str, Any]:
        """`load`: the feed from `start` to `until`, at once; `go`: from there on at its pace; `finish`: up to `end`."""
        if command["do"] == "load":
            self._feed = LoadSource(self.number, self.publishers, command["rate"], command["start"])
            self._at = self._feed.start
            await self._load(command["until"])
        elif command["do"] == "go":
            self._task = asyncio.create_task(self._resume())
        else:
            return await self._finish(command["end"])
        return {"frames": self._out.counts.frames, "messages": self._out.messages}

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._opened.aclose()

    async def _load(self, until: int) -> None:
        while self._at < until:
            await self._publish(until)
        await self._out.flush()

    async def _resume(self) -> None:
        while self._end is None or self._at < self._end:
            now = micros() if self._end is None else min(micros(), self._end)
            await self._publish(now)
            await asyncio.sleep(TICK if self._at >= now else 0)

    async def _publish(self, until: int) -> None:
        """A slice of what is due: a past that is told in one piece would hold up everything else."""
        self._at = min(until, self._at + SLICE)
        await self._out.publish_all(self._feed.due(self._at))

    async def _finish(self, end: int) -> dict[str, Any]:
        assert self._task is not None
        self._end = end
        await self._task
        last = self._feed.final_events()
        await self._out.publish_all(last)
        await self._out.flush()
        return {
            "events": self._feed.published,
            "last": {event[_NOTES["source"]]: event[_NOTES["stamp"]] for event in last},
        }


class Witness:
    """One subscription and everything it was handed.

    reached: the last instant of each source; missed: how often it was told that something is lost
    arrivals: when something came that was due later than all before it, beside the instant it was due
    """

    def __init__(self, subscription: Subscription, tolerance: float, emit: str, course: EventCourse) -> None:
        self.subscription = subscription
        self.tolerance = tolerance
        self.emit = emit
        self.reached: dict[str, int] = {}
        self.arrivals: list[tuple[int, int]] = [(0, 0)]
        self._record = Record(course.names, course.readings, source=_NOTES["source"], stamp=_NOTES["stamp"])
        # publishers have as many sources each, one after the other
        self._publishers = {name: place // SOURCES for place, name in enumerate(course.names)}

    async def watch(self) -> None:
        """Write down whatever comes."""
        source, stamp, reached = _NOTES["source"], _NOTES["stamp"], self.reached
        async for batch in self.subscription.batches():
            self._record.note(batch)
            for event in batch:
                reached[event[source]] = event[stamp]
            newest = max(event[stamp] for event in batch)
            if newest > self.arrivals[-1][1]:
                self.arrivals.append((micros(), newest))

    @property
    def missed(self) -> int:
        return sum(isinstance(notice, EventsMissed) for notice in self.subscription.notices)

    def has_come_to(self, instant: int) -> bool:
        """Has something come of every publisher that was due at this instant or later?"""
        newest = dict.fromkeys(self._publishers.values(), 0)
        for source, due in self.reached.items():
            newest[self._publishers[source]] = max(due, newest[self._publishers[source]])
        return min(newest.values()) >= instant

    def first_after(self, instant: int) -> int | None:
        """When the first event came that was due after an instant."""
        return next((came for came, due in self.arrivals if due > instant), None)

    def judge(self, course: EventCourse, start: int) -> dict[str, int]:
        """What is wrong with what was handed out."""
        found = by_promise(self._record, course, start, self.tolerance, "all" if self.emit == "all" else "changes")
        return found._asdict()


class WitnessRole:
    """Subscribers in one process.

    asked: tolerance and emit of each
    """

    def __init__(self, url: str, asked: Sequence[Mapping[str, Any]], publishers: int) -> None:
        self.url = url
        self.asked = asked
        self.publishers = publishers
        self._opened = AsyncExitStack()
        self._witnesses: list[Witness] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        course = feed_course(rate=1.0, publishers=self.publishers, seconds=0.0)
        for one in self.asked:
            bus = await self._opened.enter_async_context(tw.connect(self.url))
            asked = bus.subscribe(TOPIC, default_tolerance=one["tolerance"], emit=one["emit"])
            subscription = await self._opened.enter_async_context(asked)
            self._witnesses.append(Witness(subscription, one["tolerance"], one["emit"], course))
        self._tasks = [asyncio.create_task(witness.watch()) for witness in self._witnesses]

    async def obey(self, command: dict[str, Any]) -> dict[str, Any]:
        """`flowing`: wait until everybody has come to an `instant`; `feeds`: what each reads; `first_after`, `judge`:
        see `Witness`; `reach`: wait until everybody has come as far as `last` says."""
        if command["do"] == "flowing":
            return {"complete": await self._wait(lambda w: w.has_come_to(command["instant"]), command)}
        if command["do"] == "feeds":
            return {"feeds": [witness.subscription.feed for witness in self._witnesses]}
        if command["do"] == "first_after":
            return {"came": [witness.first_after(command["instant"]) for witness in self._witnesses]}
        if command["do"] == "reach":
            return {"complete": await self._wait(lambda w: w.reached == command["last"], command)}
        course = feed_course(command["rate"], self.publishers, command["seconds"])
        findings = [witness.judge(course, command["start"]) for witness in self._witnesses]
        return {"findings": findings, "missed": [witness.missed for witness in self._witnesses]}

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._opened.aclose()

    async def _wait(self, there: Any, command: Mapping[str, Any]) -> bool:
        """Wait until all witnesses are there; the judge sees where they are not."""
        try:
            async with asyncio.timeout(command["patience"]):
                while not all(map(there, self._witnesses)):
                    for task in self._tasks:
                        if task.done():
                            task.result()
                    await asyncio.sleep(_POLL)
        except TimeoutError:
            return False
        # whatever should not come any more would come now
        await asyncio.sleep(command.get("settle", 0.0))
        return True
