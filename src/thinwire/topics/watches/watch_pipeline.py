"""Feeds a watch evaluator with the logs of its topics.

One task per topic reads the log into a bounded queue; a slow caller therefore slows the readers down. Before it reads,
the pipeline subscribes to the watched properties with exact values.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import NamedTuple

from thinwire.brokers.protocol import Broker
from thinwire.clock import Clock
from thinwire.filters.composite.feed_sequencer import FeedPosition, WatchInput
from thinwire.filters.composite.watch_evaluator import Evaluator
from thinwire.filters.composite.watch_messages import WatchMessage, WatchState
from thinwire.topics.log_selection import PublisherOffsets
from thinwire.topics.names import log_of
from thinwire.topics.topic_documents import SubscriptionDocument
from thinwire.topics.topic_metadata import TopicMetadata
from thinwire.topics.watches.watch_documents import MAX_NOTICES, WatchNotice, WatchOptions, WatchStart
from thinwire.topics.watches.watch_log import WatchProgress, WatchStep
from thinwire.topics.watches.watch_quantities import ResolvedCondition, TopicQuantities, TopicReadings
from thinwire.topics.watches.watched_topic import PublisherLiveness, WatchedTopic

REGISTRY_TIMEOUT = 2.0
"""seconds to wait until the registry has applied a demand"""
QUEUE_SIZE = 256
"""messages of all topics in the queue"""
BATCH = 256
"""messages that one step evaluates"""
POLL_INTERVAL = 0.5

_log = logging.getLogger("thinwire.watches")


class TopicStart(NamedTuple):
    """Where to read the log of one topic.

    first: offset of the first message to read
    processed: offset up to which the messages of each publisher are processed
    truncated: retention has removed messages that were not processed
    """

    first: int
    processed: Mapping[str, int]
    truncated: bool = False


async def find_start(broker: Broker, topic: str, start: WatchStart) -> TopicStart:
    """Return where a new watch starts to read a topic."""
    span = await broker.span(log_of(topic))
    if not isinstance(start, str):
        return TopicStart(await broker.offset_at(log_of(topic), start), {})
    return TopicStart(span.first if start == "earliest" else span.last + 1, {})


async def find_resume_start(broker: Broker, topic: str, progress: WatchProgress) -> TopicStart:
    """Return where an existing watch resumes: at the first message that is not processed."""
    span = await broker.span(log_of(topic))
    newest = (await PublisherOffsets.find(broker, topic)).newest
    done = {name: find_processed_offset(progress, WatchInput(topic, name)) for name in newest}
    first = min((done[name] + 1 for name, last in newest.items() if last > done[name]), default=span.last + 1)
    return TopicStart(max(first, span.first), done, first < span.first)


def find_processed_offset(progress: WatchProgress, feed: WatchInput) -> int:
    """Return the offset up to which a publisher's messages are processed; without a position, the topic's offset read.

    >>> positions = {WatchInput("rooms", "p1"): FeedPosition(12), WatchInput("rooms", "p2"): FeedPosition()}
    >>> state = WatchState("4f", positions=positions)
    >>> progress = WatchProgress(state, start_offsets={"rooms": 10}, read={"rooms": 20})
    >>> [find_processed_offset(progress, WatchInput("rooms", name)) for name in ("p1", "p2", "p3")]
    [12, 20, 20]
    """
    offset = progress.state.positions.get(feed, FeedPosition()).offset
    return progress.read[feed.topic] if offset is None else max(offset, progress.start_offsets[feed.topic])


class WatchDemands:
    """The durable subscriptions of a watch to its topics, one each, for exact values of some properties.

    identity: the identity of the subscriptions
    names: the properties, by topic
    """

    def __init__(
        self, topics: Mapping[str, TopicMetadata], names: Mapping[str, Collection[str]], identity: str
    ) -> None:
        self.identity = identity
        self._topics = topics
        self._names = names

    async def register(self, clock: Clock) -> None:
        """Register the subscriptions and wait until the registry has applied them, at most `REGISTRY_TIMEOUT`."""
        for topic in self._topics.values():
            await topic.put_subscription(self._document(topic, clock.now()))
        waiting = [
            topic.wait_for_tolerances(dict.fromkeys(self._names[name], 0.0), REGISTRY_TIMEOUT)
            for name, topic in self._topics.items()
        ]
        late = [name for name, applied in zip(self._topics, await asyncio.gather(*waiting), strict=True) if not applied]
        if late:
            _log.warning("no answer from the registry for %s; values may be inexact until it answers", ", ".join(late))

    async def end(self) -> None:
        """Remove the subscriptions."""
        for topic in self._topics.values():
            await topic.remove_subscription(self.identity)

    def _document(self, topic: TopicMetadata, now: float) -> SubscriptionDocument:
        names = tuple(self._names[topic.name])
        return SubscriptionDocument(
            topic.name, self.identity, exact=names, properties=names, durable=self.identity, since=now, log=True
        )


class WatchPipeline:
    """Evaluates one watch: `begin` once, `next` repeatedly, then `close`.

    identity: of its subscriptions
    start_offsets: last offset of each topic log before the watch began
    has_unsaved_input: it has read messages since the last `take_progress`
    """

    def __init__(
        self, broker: Broker, clock: Clock, resolved: ResolvedCondition, options: WatchOptions, identity: str
    ) -> None:
        self.options = options
        self.condition = resolved.condition
        self.start_offsets: dict[str, int] = {}
        self.has_unsaved_input = False
        self._read_offsets: dict[str, int] = {}
        self._covered_offsets: dict[str, int] = {}
        self._broker = broker
        self._clock = clock
        quantities = {
            name: TopicQuantities(name, topic.schema, self.condition) for name, topic in resolved.topics.items()
        }
        names = {name: topic.names for name, topic in quantities.items()}
        self.demands = WatchDemands(resolved.topics, names, identity)
        self._topics = {
            name: WatchedTopic(broker, clock, metadata, quantities[name]) for name, metadata in resolved.topics.items()
        }
        self._processed: dict[WatchInput, int] = {}
        self._queue: asyncio.Queue[TopicReadings] = asyncio.Queue(QUEUE_SIZE)
        self._liveness = PublisherLiveness(broker, list(self._topics.values()))
        self._tasks: list[asyncio.Task[None]] = []
        self._notices: list[WatchNotice] = []
        self._initial: list[TopicReadings] = []
        self._evaluator = self._create_evaluator(None)

    async def begin(self, progress: WatchProgress | None = None) -> None:
        """Restore `progress`, register the demands and start the readers."""
        for topic in self._topics.values():
            await topic.metadata.ensure_log()
        starts = {name: await self._find_start(name, progress) for name in self._topics}
        self._read_offsets = {name: start.first - 1 for name, start in starts.items()}
        self.start_offsets = dict(progress.start_offsets if progress else self._read_offsets)
        self._covered_offsets = dict(self._read_offsets)
        self._evaluator = self._create_evaluator(progress.state if progress else None)
        # Offsets first, demands second: the key frames that follow the demand are then stored after the offset.
        await self.demands.register(self._clock)
        for name, start in starts.items():
            self._processed |= {WatchInput(name, publisher): offset for publisher, offset in start.processed.items()}
            await self._begin_topic(self._topics[name], start, new=progress is None)
        self._tasks = [
            asyncio.create_task(self._read_topic(topic), name=f"watch reads {name}")
            for name, topic in self._topics.items()
        ]

    async def next(self, timeout: float) -> WatchStep:
        """Evaluate the messages that arrive within `timeout` seconds. Raises the error that ended a reader."""
        now = asyncio.get_running_loop().time()
        deadline = self._evaluator.deadline
        wait = timeout if deadline is None else max(0.0, min(timeout, deadline - now))
        arrived = await self._take_arrived(wait)
        now = asyncio.get_running_loop().time()
        messages = self._evaluate_initial(now)
        self.has_unsaved_input |= bool(arrived)
        for readings in arrived:
            messages += self._mark_covered(self._evaluate(readings, now))
        messages += self._mark_covered(self._evaluator.advance(now))
        await self._forget_stopped(now)
        notices, self._notices = self._notices[:MAX_NOTICES], []
        return WatchStep(messages, notices, self._covered_offsets)

    def take_progress(self) -> WatchProgress:
        """Return the progress after all input, also after input that caused no notification."""
        self._mark_covered([self._evaluator.position_message()])
        self.has_unsaved_input = False
        return WatchProgress(self._evaluator.state, self.start_offsets, self._covered_offsets)

    async def close(self) -> None:
        """Stop the readers. The demands stay registered."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for topic in self._topics.values():
            await topic.close()

    def _create_evaluator(self, state: WatchState | None) -> Evaluator:
        return Evaluator(self.condition, state, max_delay=self.options.max_delay, late_policy=self.options.late_policy)

    async def _find_start(self, topic: str, progress: WatchProgress | None) -> TopicStart:
        if progress is None:
            return await find_start(self._broker, topic, self.options.start)
        start = await find_resume_start(self._broker, topic, progress)
        if start.truncated:
            facts = {"source": None, "first": None, "last": None, "reason": "retention"}
            self._notices.append(WatchNotice("missed", topic, "", facts))
        return start

    async def _begin_topic(self, topic: WatchedTopic, start: TopicStart, *, new: bool) -> None:
        """Seek in the log of a topic. From then on the evaluator waits for the watermarks of its publishers."""
        initial = await topic.begin(start.first, new=new)
        publishers = await self._liveness.list_publishers(topic)
        self._evaluator.add_feeds(WatchInput(topic.topic, name) for name in publishers)
        self._initial += initial

    def _evaluate_initial(self, now: float) -> list[WatchMessage]:
        """Evaluate the state at the start. The evaluator drops events it has already seen by their ordinal."""
        initial, self._initial = self._initial, []
        self._notices += [notice for readings in initial for notice in readings.notices]
        return [message for readings in initial for message in self._evaluator.read(readings.entry, now)]

    async def _read_topic(self, topic: WatchedTopic) -> None:
        while True:
            readings = await topic.next(POLL_INTERVAL)
            if readings is not None:
                await self._queue.put(readings)
                topic.done(readings)

    async def _take_arrived(self, timeout: float) -> list[TopicReadings]:
        arrived: list[TopicReadings] = []
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                arrived.append(await self._queue.get())
        while len(arrived) < BATCH and not self._queue.empty():
            arrived.append(self._queue.get_nowait())
        for task in self._tasks:
            if task.done() and not arrived:
                task.result()
        return arrived

    def _evaluate(self, readings: TopicReadings, now: float) -> list[WatchMessage]:
        entry = readings.entry
        self._notices += readings.notices
        self._read_offsets[entry.feed.topic] = entry.offset
        if entry.offset <= self._processed.get(entry.feed, 0):
            return []
        return self._evaluator.read(entry, now)

    def _mark_covered(self, messages: list[WatchMessage]) -> list[WatchMessage]:
        """If there are messages, record that they cover all publishers up to the offsets read."""
        if messages:
            self._covered_offsets = dict(self._read_offsets)
        return messages

    async def _forget_stopped(self, now: float) -> None:
        """Stop waiting for the watermarks of publishers that stopped."""
        for feed, seconds in await self._liveness.find_stopped(now):
            self._evaluator.end_feed(feed)
            self._notices.append(WatchNotice("gone", feed.topic, feed.publisher, {"seconds": seconds}))
