"""A topic as its subscriber sees it: an endless series of events, each with its bound.

Nothing is read on its own: asking for the next event reads, so a subscriber that is slow holds the log back and not the
memory. Asking also says that the events handed out before are worked off.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import datetime
from types import TracebackType
from typing import Literal

from thinwire.brokers.protocol import Broker, Listener
from thinwire.client.cursor import Cursor, CursorKeeper
from thinwire.client.feed_reader import FeedReader, StartPosition
from thinwire.client.notices import Notice, OutageMonitor
from thinwire.client.subscription_request import SubscriptionRequest
from thinwire.clock import Clock
from thinwire.codec import Counts, EventsMissed, Watermark
from thinwire.codec.kernel_warmup import warm_up
from thinwire.errors import TransportClosed
from thinwire.schema import Event, Schema
from thinwire.topics.demand_class import DemandClass
from thinwire.topics.names import alive_subject, log_of
from thinwire.topics.topic import TopicMetadata
from thinwire.topics.topic_documents import SubscriptionDocument

MAX_NOTICES = 1024
REGISTRY_PATIENCE = 2.0
LONG = 5.0
"""seconds of other work after which a subscription makes sure that it is still known"""
PULSE = 0.5
"""seconds without a message after which a subscription looks around: lost links, ticks, cursors"""

_log = logging.getLogger("thinwire.client")

OnNotice = Callable[[Notice], None]


class Subscription:
    """Events of a topic, as `async for` or in batches. Made by `Bus.subscribe`.

    notices: the last things it was told beside events (what was missed, coarser bounds, clocks that differ)
    """

    def __init__(
        self,
        find_topic: Callable[[], Awaitable[TopicMetadata]],
        broker: Broker,
        clock: Clock,
        topic: str,
        asked: SubscriptionRequest,
        *,
        identity: str,
        reader_schema: Schema | None = None,
        ack_every: float = 0.2,
        limit: int = 256,
        on_notice: OnNotice | None = None,
    ) -> None:
        self.topic = topic
        self.asked = asked
        self.identity = identity
        self.notices: deque[Notice] = deque(maxlen=MAX_NOTICES)
        self._find_topic = find_topic
        self._broker = broker
        self._clock = clock
        self._reader_schema = reader_schema
        self._ack_every = ack_every
        self._limit = limit
        self._on_notice = on_notice
        self._outage_monitor = OutageMonitor(broker.url, self._notify)
        self._ready: deque[Event] = deque()
        self._handed_out = 0
        self._at_once = 0
        self._offset: int | None = None
        self._next_tick = self._turned = 0.0
        self._reading: FeedReader | None = None
        self._cursor_store: CursorKeeper | None = None
        self._listener: Listener | None = None
        self._closed = False

    async def __aenter__(self) -> Subscription:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close(failed=kind is not None)

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Event:
        while not self._ready:
            if not await self._more():
                raise StopAsyncIteration
        self._handed_out += 1
        self._at_once = 1
        return self._ready.popleft()

    async def batches(self) -> AsyncGenerator[list[Event], None]:
        """The events as they come, all of a message at once; asking for the next batch says this one is worked off."""
        while self._ready or await self._more():
            if self._ready:
                batch = list(self._ready)
                self._ready.clear()
                self._handed_out += len(batch)
                self._at_once = len(batch)
                yield batch

    @property
    def offset(self) -> int | None:
        """The place in the log up to which everything has been received."""
        return self._reading.feed.log_offset or self._offset if self._reading is not None else None

    @property
    def feed(self) -> Literal["log", "channel"]:
        """What it reads now: the log of the topic, or the channel of those who ask for the same."""
        return "channel" if self._reading is not None and self._reading.on_channel else "log"

    @property
    def counts(self) -> dict[str, Counts]:
        """What each publisher's link has done so far."""
        return self._reading.counts if self._reading is not None else {}

    @property
    def dictionary_bytes(self) -> int:
        """Bytes of dictionaries that came from the store so far."""
        return self._view.dictionary_bytes if self._reading is not None else 0

    @property
    def watermark(self) -> float | None:
        """Up to this time (seconds) the events of every publisher heard of are complete; None before it is known."""
        return self._reading.intake.watermark if self._reading is not None else None

    async def open(self) -> None:
        """Say what is asked, and find the place to begin at."""
        if self._reading is not None or self._closed:
            return
        self._view = view = await self._find_topic()
        self.asked.check(view.schema)
        await asyncio.to_thread(warm_up)
        await view.open_log()
        # The place first, the demand after it: the key frames that answer the demand then lie behind the place.
        place = await self._place()
        await self._ask()
        reading = FeedReader(
            self._broker,
            self._clock,
            view,
            self.asked,
            DemandClass.of(self._document()),
            reader=self._reader_schema,
            limit=self._limit,
            tell=self._notify,
            keep=self._keep,
        )
        await reading.begin(place)
        try:
            self._ready.extend(await reading.deliver_current_state() if place.begins else ())
        except BaseException:
            await reading.close()
            raise
        self._reading = reading

    async def close(self, *, failed: bool = False) -> None:
        """Stop. What was handed out counts as worked off, but for the last event or batch where the caller failed on
        it. A durable subscription stays known to the registry, others end."""
        if self._closed:
            return
        self._closed = True
        reading = self._reading
        try:
            if self._cursor_store is not None and reading is not None and not reading.feed.fresh:
                await self._cursor_store.keep(self._next_cursor(reading, failed), self._clock.now())
        finally:
            if reading is not None:
                await reading.close()
            if self._listener is not None:
                await self._listener.close()
                if self.asked.durable is None:
                    await self._view.subscription_ends(self.identity)

    async def _place(self) -> StartPosition:
        """Where to begin."""
        cursor = await self._open_cursor() if self.asked.durable is not None else None
        span = await self._broker.span(log_of(self.topic))
        if cursor is None:
            first = await self._asked_offset(span.first, span.last + 1)
            if self._cursor_store is not None:
                await self._cursor_store.keep(Cursor(first - 1), self._clock.now())
            return StartPosition(first, self.asked.start == "latest")
        if cursor.channel is None and cursor.offset + 1 < span.first:
            self._notify(EventsMissed("", None, None, None, "retention"))
            cursor = Cursor(span.first - 1)
        return StartPosition(cursor.offset + 1, False, cursor)

    async def _open_cursor(self) -> Cursor | None:
        assert self.asked.durable is not None
        self._cursor_store, cursor = await CursorKeeper.open(
            self._broker, self.topic, self.asked.durable, every=self._ack_every
        )
        return cursor

    async def _asked_offset(self, first: int, after_last: int) -> int:
        start = self.asked.start
        if isinstance(start, datetime):
            return await self._broker.offset_at(log_of(self.topic), start.timestamp())
        if isinstance(start, int):
            return max(first, start)
        return first if start == "earliest" else after_last

    async def _ask(self) -> None:
        """Make the demand known, and give the registry a moment to pass it on."""
        self._listener = await self._broker.listen(alive_subject(self.identity), _alive)
        self._turned = self._clock.now()
        await self._view.subscription_starts(self._document())
        if not await self._view.wait_for(self.asked.tolerances(self._view.schema, deciding=True), REGISTRY_PATIENCE):
            _log.warning("%s: the registry has not answered; what is asked here counts when it does", self.topic)

    async def _more(self) -> bool:
        """Work for more events: acknowledge, go over where that is better, read a message. False at the end."""
        if self._closed:
            return False
        if self._reading is None:
            await self.open()
        if self._reading is None:
            raise TransportClosed()
        reading = self._reading
        await self._acknowledge(reading)
        await self._still_here(self._clock.now())
        self._offset = self.offset
        rest = await reading.switch_feed(self._clock.now())
        if rest:
            self._handed_out = 0
            self._ready.extend(rest)
            return True
        stored, events = await reading.next(min(PULSE, self.asked.tick) if self.asked.cadence == "tick" else PULSE)
        now = self._clock.now()
        self._outage_monitor.note(self._broker.connected, now)
        if stored is not None:
            self._handed_out = 0
            self._ready.extend(events)
            self._leave_out(reading)
        if stored is None or any(reading.intake.log_decoder.lost()):
            await reading.ask_for_the_lost(now)
        if self.asked.cadence == "tick" and now >= self._next_tick:
            self._next_tick = now + self.asked.tick
            self._ready.extend(await reading.intake.expected())
        return True

    def _leave_out(self, reading: FeedReader) -> None:
        """The events of the first message that were worked off before the last end."""
        while reading.skip and self._ready:
            self._ready.popleft()
            self._handed_out += 1
            reading.skip -= 1
        reading.skip = 0

    async def _still_here(self, now: float) -> None:
        """Who did not come back for long may have been taken for gone by the registry."""
        if now - self._turned > LONG and self.asked.durable is None:
            await self._view.subscription_starts(self._document())
        self._turned = now

    async def _acknowledge(self, reading: FeedReader) -> None:
        """More is asked for, so everything handed out is worked off."""
        if reading.feed.fresh:
            return
        reading.feed.done()
        if self._cursor_store is not None and self._cursor_store.is_due(self._clock.now()):
            await self._cursor_store.keep(reading.cursor(), self._clock.now())

    async def _keep(self) -> None:
        """The feed is about to be left: note what is worked off of it."""
        if self._cursor_store is not None and self._reading is not None and not self._reading.feed.fresh:
            await self._cursor_store.keep(self._reading.cursor(), self._clock.now())

    def _next_cursor(self, reading: FeedReader, failed: bool) -> Cursor:
        """Where to go on after the end: behind the last message, or within it where events of it are left."""
        if not self._ready and not (failed and self._handed_out):
            return reading.cursor()
        # Which events count as changes depends on what came before; those of a message come again as a whole.
        within = self._handed_out - failed * self._at_once if self.asked.emit == "all" else 0
        return reading.cursor(max(0, within))

    def _document(self) -> SubscriptionDocument:
        asked = self.asked
        return SubscriptionDocument(
            topic=self.topic,
            identity=self.identity,
            tolerance=dict(asked.tolerance),
            default_tolerance=asked.default_tolerance,
            exact=asked.exact,
            properties=asked.properties,
            sources={name: sorted(choice, key=str) for name, choice in asked.sources.items()},
            durable=asked.durable,
            emit=asked.emit,
            where=asked.where.canonical if asked.where is not None else None,
            since=self._clock.now(),
        )

    def _notify(self, notice: Notice) -> None:
        if not isinstance(notice, Watermark):
            self.notices.append(notice)
        if self._on_notice is not None:
            self._on_notice(notice)


async def _alive(subject: str, payload: bytes) -> bytes | None:
    return b"here"
