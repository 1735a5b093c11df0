"""Figure 6 with the running system: an embedded broker, registry and translator, measured at each stage.

The generated building is published exactly and subscribed to twice: exactly, from the topic log, and within 1.0, from a
channel. The messages of log and channel are counted with envelopes, and the bytes that the broker stores. Every
received event is compared with the published one.

Events are published as fast as possible, so that many frames share a message. The publisher's clock is the time of the
events, so that heartbeats and key frames are as frequent as over the days of the events.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import AsyncExitStack, aclosing, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import thinwire as tw
from thinwire import Bus, Subscription
from thinwire.brokers.protocol import Broker
from thinwire.clock import VirtualClock
from thinwire.demo import building
from thinwire.errors import GuaranteeViolated
from thinwire.schema import Event
from thinwire.topics.channel_documents import channel_documents
from thinwire.topics.names import CHANNELS, channel_log_of, log_of
from thinwire_lab.live.linger_batches import measure_log
from thinwire_lab.reproduce.virtual_events.virtual_event_figures import CLASS_TOLERANCE, Progress, Stages, require_near
from thinwire_lab.streams.checked_stream import seconds_of
from thinwire_lab.streams.formats import FORMATS

MAX_EVENTS = 100_000
"""published events; sizes per event are stable after one day"""
CONFIGURATIONS = (("json", "last"), ("compact", "last"), ("compact", "auto"))
"""format and predictor of the topic"""
BLOCK = 500
TIMEOUT = 60.0
"""seconds until a block must have arrived"""
_POLL = 0.005


@dataclass
class LiveStages(Stages):
    """Stages measured live; stored: bytes that the broker stores for log and channel, with its overhead."""

    stored: list[int] = field(default_factory=lambda: [0, 0])

    @property
    def stored_per_event(self) -> list[float]:
        return [size / self.events for size in self.stored]


def figure_6_live(events: int, seed: int = 1, progress: Progress = lambda share: None) -> list[LiveStages]:
    """Measure bytes at the four stages for each configuration; at most `MAX_EVENTS` events.

    Raises GuaranteeViolated if an exact event differs from the published one, or the other by more than 1.0.
    """
    events = min(events, MAX_EVENTS)
    found = []
    for place, (format_, predictor) in enumerate(CONFIGURATIONS):

        def report_share(share: float, place: int = place) -> None:
            progress((place + share) / len(CONFIGURATIONS))

        with _ignore_clock_warnings():
            found.append(asyncio.run(_run(format_, predictor, events, seed, report_share)))
    return found


@contextmanager
def _ignore_clock_warnings() -> Iterator[None]:
    """Suppress warnings about the publisher's clock, which differs from the broker's on purpose."""
    logger = logging.getLogger("thinwire.client")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


async def _run(format_: str, predictor: str, events: int, seed: int, progress: Progress) -> LiveStages:
    schema = building.schema()
    async with AsyncExitStack() as opened:
        bus: Bus = await opened.enter_async_context(tw.connect("embedded://"))
        await bus.register(schema, format=format_, predictor=predictor)
        exact, near = _Reader(0.0), _Reader(CLASS_TOLERANCE)
        for reader in (exact, near):
            await reader.open(bus, schema.name, opened)
        await _channel_open(bus.broker, schema.name)
        async with aclosing(_published(bus.broker.url, events, seed, exact, near)) as blocks:
            async for _ in blocks:
                progress(near.taken / events)
        if (exact.feed, near.feed) != ("log", "channel"):
            raise GuaranteeViolated("subscribers read something else", exact=exact.feed, within=near.feed)
        log = await measure_log(bus.broker, log_of(schema.name))
        channel = await measure_log(bus.broker, channel_log_of(schema.name))
    totals = [exact.size, log.size, channel.size, near.size]
    return LiveStages(f"live: thinwire {format_}, {predictor}", events, totals, [log.stored, channel.stored])


async def _published(url: str, events: int, seed: int, *readers: _Reader) -> AsyncGenerator[int, None]:
    """Publish blocks of events, each after the one before has arrived. Yield the size of each block."""
    stream, seconds = building.events(events, seed), seconds_of(building.schema())
    clock = VirtualClock(start=seconds(next(building.events(1, seed))))
    async with tw.connect(url, clock=clock) as bus, bus.publisher(building.schema().name, name="building") as out:
        while block := list(islice(stream, BLOCK)):
            for reader in readers:
                reader.expect(block)
            for event in block:
                clock.advance(max(0.0, seconds(event) - clock.now()))
                await out.publish(event)
            await out.flush()
            await asyncio.gather(*(reader.caught_up() for reader in readers))
            yield len(block)


class _Reader:
    """A subscriber that compares received with published events and counts their bytes as JSON."""

    def __init__(self, tolerance: float) -> None:
        self.tolerance = tolerance
        self.taken = self.size = 0
        self._expected: deque[Mapping[str, Any]] = deque()
        self._task: asyncio.Task[None] | None = None

    async def open(self, bus: Bus, topic: str, opened: AsyncExitStack) -> None:
        subscription = bus.subscribe(topic, default_tolerance=self.tolerance)
        self._subscription: Subscription = await opened.enter_async_context(subscription)
        self._task = asyncio.create_task(self._read())
        opened.push_async_callback(self._end)

    def expect(self, events: list[dict[str, Any]]) -> None:
        self._expected.extend(events)

    async def caught_up(self) -> None:
        """Wait until all published events have arrived."""
        assert self._task is not None
        try:
            async with asyncio.timeout(TIMEOUT):
                while self._expected and not self._task.done():
                    await asyncio.sleep(_POLL)
        except TimeoutError:
            raise GuaranteeViolated(
                "events did not arrive", waiting=len(self._expected), within=self.tolerance
            ) from None
        if self._task.done():
            self._task.result()

    @property
    def feed(self) -> str:
        return self._subscription.feed

    async def _read(self) -> None:
        encode, schema = FORMATS["json"].encode, building.schema()
        async for batch in self._subscription.batches():
            for event in batch:
                self._compare(event)
                self.size += len(encode(event, schema))
                self.taken += 1

    def _compare(self, event: Event) -> None:
        if not self._expected:
            raise GuaranteeViolated("an event that was not published", timestamp=event["timestamp"])
        raw = self._expected.popleft()
        if self.tolerance:
            require_near(event, raw)
        elif event != raw:
            raise GuaranteeViolated("an exact event differs from the published one", timestamp=raw["timestamp"])

    async def _end(self) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


async def _channel_open(broker: Broker, topic: str) -> None:
    """Wait until the only class of the topic has its channel."""
    bucket = await broker.bucket(CHANNELS)
    async with asyncio.timeout(TIMEOUT):
        while not any(one.state == "open" for one in (await channel_documents(bucket, topic)).values()):
            await asyncio.sleep(_POLL)
