"""A subscription: the events of a topic as an asynchronous iterator.

Messages are read when the next event is requested, so that a slow subscriber needs no memory here. Requesting an event
acknowledges the events before it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import datetime
from typing import Literal, NamedTuple

from thinwire.brokers.protocol import Broker, Listener
from thinwire.client.consumer import POLL_INTERVAL, Consumer, OnNotice, answer_probes
from thinwire.client.cursor import Cursor
from thinwire.client.event_shaper import EventShaper
from thinwire.client.feed import Feed, FeedBatch
from thinwire.client.feed_reader import FeedReader
from thinwire.client.feed_switch import RETENTION_LOSS, StartPosition
from thinwire.client.subscription_monitor import SubscriptionMonitor
from thinwire.client.subscription_request import SubscriptionRequest
from thinwire.clock import Clock
from thinwire.codec import Counts
from thinwire.codec.kernel_warmup import warm_up
from thinwire.errors import TransportClosed
from thinwire.schema import Event, Schema
from thinwire.topics.demand_class import DemandClass
from thinwire.topics.names import log_of
from thinwire.topics.topic_documents import SubscriptionDocument
from thinwire.topics.topic_metadata import TopicMetadata

REGISTRY_TIMEOUT = 2.0
"""seconds that the registry has to apply the demand of a new subscription"""
REGISTER_AGAIN_AFTER = 5.0
"""seconds without a request for events after which the registry may have removed the subscription"""

_log = logging.getLogger("thinwire.client")


class _Opened(NamedTuple):
    """The parts of an open subscription."""

    topic: TopicMetadata
    listener: Listener
    reader: FeedReader
    shaper: EventShaper
    monitor: SubscriptionMonitor


class Subscription(Consumer[Event]):
    """Events of a topic, one by one (`async for`) or in batches. Created by `Bus.subscribe`.

    notices: the latest notices: missed events, exceeded bounds, clock skew, outages
    """

    def __init__(
        self,
        find_topic: Callable[[], Awaitable[TopicMetadata]],
        broker: Broker,
        clock: Clock,
        topic: str,
        request: SubscriptionRequest,
        *,
        identity: str,
        reader_schema: Schema | None,
        ack_every: float,
        limit: int,
        on_notice: OnNotice | None,
    ) -> None:
        super().__init__(broker, clock, identity, ack_every=ack_every, limit=limit, on_notice=on_notice)
        self.topic = topic
        self.request = request
        self._find_topic = find_topic
        self._reader_schema = reader_schema
        self._timeout = min(POLL_INTERVAL, request.tick) if request.cadence == "tick" else POLL_INTERVAL
        self._batches: deque[FeedBatch] = deque()
        self._delivered = 0
        self._last_delivered = 0
        self._next_tick = self._last_read = 0.0
        self._opened: _Opened | None = None

    async def __anext__(self) -> Event:
        while not self._ready:
            if not await self._read():
                raise StopAsyncIteration
        self._delivered += 1
        self._last_delivered = 1
        return self._ready.popleft()

    async def batches(self) -> AsyncGenerator[list[Event], None]:
        """Iterate over the events in batches, one a message. Requesting a batch acknowledges the one before."""
        while self._ready or await self._read():
            if self._ready:
                batch = list(self._ready)
                self._ready.clear()
                self._delivered += len(batch)
                self._last_delivered = len(batch)
                yield batch

    @property
    def offset(self) -> int | None:
        """The log offset up to which everything was received."""
        return self._opened.reader.offset if self._opened is not None else None

    @property
    def feed(self) -> Literal["log", "channel"]:
        """The feed that is read: the topic log, or the channel of the demand class."""
        return "channel" if self._opened is not None and self._opened.reader.is_on_channel else "log"

    @property
    def counts(self) -> dict[str, Counts]:
        """The counters of each publisher's decoder."""
        return self._opened.reader.counts if self._opened is not None else {}

    @property
    def dictionary_bytes(self) -> int:
        """Bytes of dictionaries that were fetched."""
        return self._opened.topic.dictionary_bytes if self._opened is not None else 0

    async def open(self) -> None:
        """Register the demand and seek to the start position."""
        if self._opened is not None or self._closed:
            return
        topic = await self._find_topic()
        self.request.check(topic.schema)
        await asyncio.to_thread(warm_up)
        await topic.ensure_log()
        # The position is read before the demand is registered: key frames that answer the demand are then after it.
        start = await self._start_position()
        listener = await self._register(topic)
        try:
            await self._open_reader(topic, listener, start)
        except BaseException:
            await self._unregister(topic, listener)
            raise

    async def close(self, *, failed: bool = False) -> None:
        """Stop. Delivered events count as acknowledged, except for the last event or batch if the caller `failed`.

        The registry keeps the demand of a durable subscription.
        """
        if self._closed:
            return
        self._closed = True
        opened = self._opened
        if opened is None:
            return
        try:
            await self._save_cursor(failed=failed)
        finally:
            await opened.reader.close()
            await self._unregister(opened.topic, opened.listener)

    async def _open_reader(self, topic: TopicMetadata, listener: Listener, start: StartPosition) -> None:
        schema, demand = self._reader_schema, DemandClass.of(self._document())
        shaper = EventShaper(topic, self.request, demand, schema, self._notify)
        monitor = SubscriptionMonitor(self.request, topic, self._notify, is_resumed=start.cursor is not None)
        reader = FeedReader(
            self._broker,
            topic,
            demand,
            limit=self._limit,
            use_channels=schema is None or schema.fingerprint.hex() == topic.current_fingerprint,
            on_notice=self._notify,
            save_cursor=self._save_cursor,
            watched_properties=shaper.watched_properties,
        )
        self._batches.extend(await reader.open(start))
        self._opened = _Opened(topic, listener, reader, shaper, monitor)
        try:
            if self._batches:
                await self._deliver_batches(self._opened)
        except BaseException:
            self._opened = None
            await reader.close()
            raise

    async def _start_position(self) -> StartPosition:
        cursor = await self._open_cursor(self.topic, self.request.durable)
        span = await self._broker.span(log_of(self.topic))
        if cursor is None:
            first = await self._first_offset(span.first, span.last + 1)
            await self._write_cursor(Cursor(first - 1))
            return StartPosition(first, self.request.start == "latest")
        if cursor.channel is None and cursor.offset + 1 < span.first:
            self._notify(RETENTION_LOSS)
            cursor = Cursor(span.first - 1)
        return StartPosition(cursor.offset + 1, False, cursor)

    async def _first_offset(self, first: int, after_last: int) -> int:
        start = self.request.start
        if isinstance(start, datetime):
            return await self._broker.offset_at(log_of(self.topic), start.timestamp())
        if isinstance(start, int):
            return max(first, start)
        return first if start == "earliest" else after_last

    async def _register(self, topic: TopicMetadata) -> Listener:
        """Register the demand, and wait until the registry has applied it."""
        listener = await answer_probes(self._broker, self.identity)
        try:
            self._last_read = self._clock.now()
            await topic.put_subscription(self._document())
            tolerances = self.request.tolerances(topic.schema, with_predicate=True)
            if not await topic.wait_for_tolerances(tolerances, REGISTRY_TIMEOUT):
                _log.warning("%s: no answer from the registry; the demand is applied when it runs", self.topic)
        except BaseException:
            await self._unregister(topic, listener)
            raise
        return listener

    async def _unregister(self, topic: TopicMetadata, listener: Listener) -> None:
        await listener.close()
        if self.request.durable is None:
            await topic.remove_subscription(self.identity)

    async def _read(self) -> bool:
        """Acknowledge, and read the next message. False once the subscription is closed."""
        if self._closed:
            return False
        if self._opened is None:
            await self.open()
        opened = self._opened
        if opened is None:
            raise TransportClosed()
        if not self._batches:
            now = self._clock.now()
            if self._cursor_store is not None and self._cursor_store.is_due(now):
                await self._save_cursor()
            if now - self._last_read > REGISTER_AGAIN_AFTER and self.request.durable is None:
                await opened.topic.put_subscription(self._document())
            self._last_read = now
            self._batches.extend(await opened.reader.next(now, self._timeout))
            if not self._batches:
                self._outage.update(self._broker.connected, self._clock.now())
            elif self._outage.since is not None:
                self._outage.update(True, now)
        if self._batches:
            self._delivered = 0
            await self._deliver_batches(opened)
        if self.request.cadence == "tick":
            await self._deliver_predictions(opened)
        return True

    async def _deliver_batches(self, opened: _Opened) -> None:
        # A batch is removed after it was delivered: the caller may be cancelled while static properties are fetched.
        while self._batches:
            batch = self._batches[0]
            decoder = batch.decoder
            if batch.is_state:
                events = await self._shape_state(opened, batch)
            else:
                if batch.events:
                    opened.monitor.publishers.add(decoder.publisher)
                if batch.notices or opened.monitor.checked_bounds.get(decoder.publisher) is not decoder.bound:
                    opened.monitor.check(batch, on_channel=opened.reader.is_on_channel)
                events = await opened.shaper.shape(decoder, batch.events, batch.offset, batch.changed_events)
            self._ready.extend(events)
            self._batches.popleft()
        if opened.reader.feed.events_to_skip:
            self._skip_acknowledged(opened.reader.feed)

    async def _shape_state(self, opened: _Opened, batch: FeedBatch) -> list[Event]:
        events, repeated = await opened.shaper.shape_state(
            batch.decoder, batch.events, batch.offset, any_difference=batch.any_difference
        )
        if repeated:
            opened.reader.include_suppressed_until(batch.decoder.publisher, repeated)
        return events

    async def _deliver_predictions(self, opened: _Opened) -> None:
        """Deliver the predicted events of silent sources when a tick is due."""
        now = self._clock.now()
        if now < self._next_tick:
            return
        self._next_tick = now + self.request.tick
        for decoder in opened.reader.decoders.values():
            predicted = opened.monitor.predict_silent(decoder)
            self._ready.extend(await opened.shaper.shape(decoder, predicted))

    def _skip_acknowledged(self, feed: Feed) -> None:
        """Drop the events of the first message that were acknowledged before the last stop."""
        for _ in range(min(feed.events_to_skip, len(self._ready))):
            self._ready.popleft()
            self._delivered += 1
        feed.events_to_skip = 0

    async def _save_cursor(self, *, failed: bool = False) -> None:
        """Write the position up to which all events are acknowledged, once a message was received."""
        feed = self._opened.reader.feed if self._opened is not None else None
        if feed is not None and feed.has_received:
            await self._write_cursor(self._next_cursor(feed, failed))

    def _next_cursor(self, feed: Feed, failed: bool) -> Cursor:
        """Return the position after the last message, or within it if not all of its events are acknowledged."""
        if not self._ready and not self._batches and not (failed and self._delivered):
            return feed.cursor()
        # Which events are changes depends on the events before: the complete message is delivered again.
        within = self._delivered - failed * self._last_delivered if self.request.emit == "all" else 0
        return feed.cursor(max(0, within))

    def _document(self) -> SubscriptionDocument:
        request = self.request
        return SubscriptionDocument(
            topic=self.topic,
            identity=self.identity,
            tolerance=dict(request.tolerance),
            default_tolerance=request.default_tolerance,
            exact=request.exact,
            properties=request.properties,
            sources={name: sorted(values, key=str) for name, values in request.sources.items()},
            durable=request.durable,
            emit=request.emit,
            where=request.where.canonical if request.where is not None else None,
            since=self._clock.now(),
        )
