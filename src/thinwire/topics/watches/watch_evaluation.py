"""What a watch asks of its topics: the properties it looks at, exactly, as a subscriber would ask for them.

A watch at work: the logs of its topics in, messages of the watch out. The same beside the broker and in a client.

Each log is read by a task of its own, and what they read waits in one queue of limited length: whoever takes messages
slowly holds the readers back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from thinwire.brokers.protocol import Broker
from thinwire.clock import Clock
from thinwire.filters.composite import Evaluator, WatchInput, WatchMessage, WatchState
from thinwire.topics.topic import TopicMetadata
from thinwire.topics.topic_documents import SubscriptionDocument
from thinwire.topics.watches.watch_documents import MAX_NOTICES, WatchNotice, WatchOptions
from thinwire.topics.watches.watch_quantities import Resolved, TopicQuantities, TopicReadings
from thinwire.topics.watches.watch_records import TopicPosition, WatchProgress, first_place, next_place
from thinwire.topics.watches.watched_topic import TopicLog, Vanishing

PATIENCE = 2.0
"""seconds that the registry has to pass a demand on"""

_log = logging.getLogger("thinwire.watching")


class Demands:
    """The subscriptions of one watch, one for each topic.

    identity: under which it subscribes; durable: it counts although nobody answers under that name, until it is ended
    names: the properties that are looked at, by topic
    """

    def __init__(
        self, topics: Mapping[str, TopicMetadata], names: Mapping[str, Collection[str]], identity: str, *, durable: bool
    ) -> None:
        self.identity = identity
        self.durable = durable
        self._topics = topics
        self._names = names

    async def ask(self, clock: Clock) -> None:
        """Make them known, and give the registry a moment to pass them on."""
        for topic in self._topics.values():
            await topic.subscription_starts(self._document(topic, clock.now()))
        answers = await asyncio.gather(*(self._is_served(topic) for topic in self._topics.values()))
        late = [name for name, answered in zip(self._topics, answers, strict=True) if not answered]
        if late:
            _log.warning("%s: the registry has not answered; exact values come when it does", ", ".join(late))

    async def end(self) -> None:
        """Ask no more."""
        for topic in self._topics.values():
            await topic.subscription_ends(self.identity)

    async def _is_served(self, topic: TopicMetadata) -> bool:
        return await topic.wait_for(dict.fromkeys(self._exact(topic), 0.0), PATIENCE)

    def _document(self, topic: TopicMetadata, now: float) -> SubscriptionDocument:
        names = tuple(self._exact(topic))
        durable = self.identity if self.durable else None
        return SubscriptionDocument(
            topic.name, self.identity, exact=names, properties=names, durable=durable, since=now, log=True
        )

    def _exact(self, topic: TopicMetadata) -> list[str]:
        """Times as well: they say which event comes first."""
        stamp = topic.schema.time
        return sorted({*self._names[topic.name], *([stamp.name] if stamp is not None else [])})


WAITING = 256
"""messages of all topics that wait to be looked at"""
BATCH = 256
"""messages that are looked at together"""
PULSE = 0.5


class Step(NamedTuple):
    """What was found in a moment.

    read: of every topic, the offset up to which publishers are known to the last of the messages
    """

    messages: Sequence[WatchMessage]
    notices: Sequence[WatchNotice]
    read: Mapping[str, int]


class Evaluation:
    """One watch being evaluated; `begin` it, ask for `next` again and again, `close` it.

    identity, durable: under which it subscribes to its topics
    begins: the last offset of each topic's log before the watch began
    ahead: has it read anything since the last bookmark?
    """

    def __init__(
        self, broker: Broker, clock: Clock, resolved: Resolved, options: WatchOptions, identity: str, *, durable: bool
    ) -> None:
        self.options = options
        self.condition = resolved.condition
        self.begins: dict[str, int] = {}
        self.ahead = False
        self._read: dict[str, int] = {}
        self._told: dict[str, int] = {}
        self._broker = broker
        self._clock = clock
        quantities = {
            name: TopicQuantities(name, view.schema, self.condition) for name, view in resolved.topics.items()
        }
        names = {name: one.names for name, one in quantities.items()}
        self.demands = Demands(resolved.topics, names, identity, durable=durable)
        self._logs = {name: TopicLog(broker, clock, view, quantities[name]) for name, view in resolved.topics.items()}
        self._acknowledged: dict[WatchInput, int] = {}
        self._queue: asyncio.Queue[TopicReadings] = asyncio.Queue(WAITING)
        self._vanishing = Vanishing(broker, list(self._logs.values()))
        self._tasks: list[asyncio.Task[None]] = []
        self._notices: list[WatchNotice] = []
        self._standing: list[TopicReadings] = []
        self._evaluator = self._evaluator_at(None)

    async def begin(self, progress: WatchProgress | None = None) -> None:
        """Go to the place, ask for what is needed, and read from there."""
        for log in self._logs.values():
            await log.view.open_log()
        places = {name: await self._place(name, progress) for name in self._logs}
        self.begins = dict(progress.begins) if progress else {name: at.first - 1 for name, at in places.items()}
        self._read = {name: at.first - 1 for name, at in places.items()}
        self._told = dict(self._read)
        self._evaluator = self._evaluator_at(progress.state if progress else None)
        # The place first, the demand after it: the key frames that answer the demand then lie behind the place.
        await self.demands.ask(self._clock)
        for name, place in places.items():
            self._acknowledged |= {WatchInput(name, publisher): at for publisher, at in place.worked_off.items()}
            await self._stand(self._logs[name], place, fresh=progress is None)
        self._tasks = [
            asyncio.create_task(self._follow(log), name=f"watch reads {name}") for name, log in self._logs.items()
        ]

    async def next(self, timeout: float) -> Step:
        """What is to be told now; nothing of it where nothing came in so many seconds. Raises what ended a reader."""
        now = asyncio.get_running_loop().time()
        deadline = self._evaluator.deadline
        wait = timeout if deadline is None else max(0.0, min(timeout, deadline - now))
        arrived = await self._arrived(wait)
        now = asyncio.get_running_loop().time()
        messages = self._evaluate_current_state(now)
        self.ahead |= bool(arrived)
        for told in arrived:
            messages += self._noted(self._look(told, now))
        messages += self._noted(self._evaluator.advance(now))
        await self._look_around(now)
        notices, self._notices = self._notices[:MAX_NOTICES], []
        return Step(messages, notices, self._told)

    def bookmark(self) -> WatchProgress:
        """How far it has come, including what was quiet."""
        self._noted([self._evaluator.bookmark()])
        self.ahead = False
        return WatchProgress(self._evaluator.state, self.begins, self._told)

    async def close(self) -> None:
        """Read no more; what it asked for stays asked."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for log in self._logs.values():
            await log.close()

    def _evaluator_at(self, state: WatchState | None) -> Evaluator:
        how = self.options
        return Evaluator(self.condition, state, max_delay=how.max_delay, late_policy=how.late_policy)

    async def _place(self, topic: str, progress: WatchProgress | None) -> TopicPosition:
        if progress is None:
            return await first_place(self._broker, topic, self.options.start)
        place = await next_place(self._broker, topic, progress)
        if place.is_cut:
            facts = {"source": None, "first": None, "last": None, "reason": "retention"}
            self._notices.append(WatchNotice("missed", topic, "", facts))
        return place

    async def _stand(self, log: TopicLog, place: TopicPosition, *, fresh: bool) -> None:
        """Bring the reader of a log to its place, and wait for the publishers that are there."""
        standing = await log.begin(place.first, fresh=fresh)
        there = await self._vanishing.present(log)
        self._evaluator.expect(WatchInput(log.topic, name) for name in there)
        self._standing += standing

    def _evaluate_current_state(self, now: float) -> list[WatchMessage]:
        """Where sources stood at the beginning; what was looked at before that is recognised by its number."""
        standing, self._standing = self._standing, []
        self._notices += [notice for told in standing for notice in told.notices]
        return [message for told in standing for message in self._evaluator.read(told.entry, now)]

    async def _follow(self, log: TopicLog) -> None:
        while True:
            told = await log.next(PULSE)
            if told is not None:
                await self._queue.put(told)
                log.done(told)

    async def _arrived(self, timeout: float) -> list[TopicReadings]:
        found: list[TopicReadings] = []
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                found.append(await self._queue.get())
        while len(found) < BATCH and not self._queue.empty():
            found.append(self._queue.get_nowait())
        for task in self._tasks:
            if task.done() and not found:
                task.result()
        return found

    def _look(self, told: TopicReadings, now: float) -> list[WatchMessage]:
        entry = told.entry
        self._notices += told.notices
        self._read[entry.feed.topic] = entry.offset
        if entry.offset <= self._acknowledged.get(entry.feed, 0):
            return []
        return self._evaluator.read(entry, now)

    def _noted(self, messages: list[WatchMessage]) -> list[WatchMessage]:
        """A message knows every publisher that was read before it."""
        if messages:
            self._told = dict(self._read)
        return messages

    async def _look_around(self, now: float) -> None:
        """Nobody waits for publishers that are gone."""
        for feed, seconds in await self._vanishing.find_vanished(now):
            self._evaluator.forget(feed)
            self._notices.append(WatchNotice("gone", feed.topic, feed.publisher, {"seconds": seconds}))
