"""A topic as its subscriber sees it: an endless series of events, each with its bound.

Nothing runs on its own: asking for the next event reads the log, so a subscriber that is slow holds the log back and
not the memory. Asking also says that the events handed out before are worked off.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import datetime
from types import TracebackType

from thinwire.client.asking import Asked
from thinwire.client.cursors import Cursor, CursorKeeper
from thinwire.client.inlet import Inlet
from thinwire.client.notices import Notice, Unreadable
from thinwire.client.requests import Requests
from thinwire.client.seeking import rewind
from thinwire.client.shaping import Shape
from thinwire.client.topics import Topic
from thinwire.client.watching import Watch
from thinwire.clock import Clock
from thinwire.control.factoring import Factoring
from thinwire.control.names import alive_subject, log_of, publisher_in, publisher_subjects
from thinwire.control.registry import SubscriptionDocument
from thinwire.errors import PeerFault, TransportClosed, UnknownFacts, UnknownSchema
from thinwire.events import Event, Schema
from thinwire.link import Counts, Delivery, Missed, Subscriber, Watermark
from thinwire.link.warming import warm_up
from thinwire.transports.broker import Broker, Listener, LogReader, Stored

MAX_NOTICES = 1024
NEARBY = 4096
"""messages that a new subscriber reads to know where everything stands; beyond that it asks the publishers"""
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
        find_topic: Callable[[], Awaitable[Topic]],
        broker: Broker,
        clock: Clock,
        topic: str,
        asked: Asked,
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
        self._broker = broker
        self._find_topic = find_topic
        self._clock = clock
        self._reader_schema = reader_schema
        self._ack_every = ack_every
        self._limit = limit
        self._on_notice = on_notice
        self._ready: deque[Event] = deque()
        self._handed_out = 0
        self._at_once = 0
        self._offset: int | None = None
        self._watch = Watch(asked, self._tell)
        self._requests = Requests(broker, topic)
        self._shapes: dict[bytes, tuple[Shape, Factoring | None]] = {}
        self._reader: LogReader | None = None
        self._keeper: CursorKeeper | None = None
        self._listener: Listener | None = None
        self._skip = 0
        self._fresh = False
        self._asked_for = False
        self._heard: set[str] = set()
        self._next_tick = self._turned = 0.0
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
            await self._more()
        self._handed_out += 1
        self._at_once = 1
        return self._ready.popleft()

    async def batches(self) -> AsyncGenerator[list[Event], None]:
        """The events as they come, all of a message at once; asking for the next batch says this one is worked off."""
        while not self._closed:
            while not self._ready:
                await self._more()
            batch = list(self._ready)
            self._ready.clear()
            self._handed_out += len(batch)
            self._at_once = len(batch)
            yield batch

    @property
    def offset(self) -> int | None:
        """The place in the log of the events handed out last."""
        return self._offset

    @property
    def counts(self) -> dict[str, Counts]:
        """What each publisher's link has done so far."""
        return {name: link.counts for name, link in self._inlet.links.items()}

    @property
    def watermark(self) -> float | None:
        """Up to this time (seconds) the events of every publisher heard of are complete; None before it is known."""
        return self._watch.watermark(self._inlet.links)

    async def open(self) -> None:
        """Say what is asked, and find the place to begin at."""
        if self._reader is not None or self._closed:
            return
        self._view = await self._find_topic()
        await asyncio.to_thread(warm_up)
        self.asked.check(self._view.schema)
        self._inlet = Inlet(self._view.lookup, only_changes=self.asked.emit == "changes")
        await self._view.open_log()
        first = await self._first_offset()  # before the demand is known: the key frames that answer it lie behind
        self._listener = await self._broker.listen(alive_subject(self.identity), _alive)
        self._asked_for = True
        self._turned = self._clock.now()
        await self._view.subscription_starts(self._document())
        if not await self._view.wait_for(self.asked.tolerances(self._view.schema), REGISTRY_PATIENCE):
            _log.warning("%s: the registry has not answered; what is asked here counts when it does", self.topic)
        subjects = [publisher_subjects(self.topic)]
        self._reader = await self._broker.read(log_of(self.topic), first=first, subjects=subjects, limit=self._limit)
        if self._fresh:
            await self._begin()

    async def close(self, *, failed: bool = False) -> None:
        """Stop. What was handed out counts as worked off, but for the last event or batch where the caller failed on
        it. A durable subscription stays known to the registry, others end."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._keeper is not None and self._offset is not None:
                await self._keeper.keep(self._worked_off(failed), self._clock.now(), at_once=True)
        finally:
            if self._reader is not None:
                await self._reader.close()
            if self._listener is not None:
                await self._listener.close()
            if self._asked_for and self.asked.durable is None:
                await self._view.subscription_ends(self.identity)

    async def _first_offset(self) -> int:
        """Where to read from; the links are brought up to it."""
        cursor = await self._open_cursor() if self.asked.durable is not None else None
        span = await self._broker.span(log_of(self.topic))
        if cursor is None:
            first = await self._asked_offset(span.first, span.last + 1)
            if self._keeper is not None:
                await self._keeper.keep(Cursor(first - 1), self._clock.now(), at_once=True)
        else:
            first, self._skip = cursor.offset + 1, cursor.within
        if first < span.first:
            self._tell(Missed("", None, None, None, "retention"))
            first = span.first
        await self._view.learn(b"")
        self._fresh = self.asked.start == "latest" and cursor is None
        furthest = NEARBY if self._fresh else None
        self._inlet = await rewind(self._broker, self.topic, first, self._inlet, furthest=furthest)
        self._inlet.offset = first - 1
        return first

    async def _begin(self) -> None:
        """A subscriber that begins now first hears where every source stands, from the log or from its publisher."""
        if not self._inlet.links or any(self._inlet.lost()):
            await self._requests.call()
        for link in self._inlet.links.values():
            await self._shape(link, link.present())

    async def _open_cursor(self) -> Cursor | None:
        assert self.asked.durable is not None
        self._keeper, cursor = await CursorKeeper.open(
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

    async def _more(self) -> None:
        """Work for more events: acknowledge, read a message, see to what is due."""
        if self._reader is None:
            await self.open()
        if self._closed or self._reader is None:
            raise StopAsyncIteration if self._closed else TransportClosed()
        await self._acknowledge()
        await self._still_here(self._clock.now())
        stored = await self._reader.next(self._patience())
        now = self._clock.now()
        if stored is not None:
            await self._take(stored, now)
        if stored is None or any(self._inlet.lost()):
            await self._requests.ask(self._inlet, now)
        if self.asked.cadence == "tick" and now >= self._next_tick:
            self._next_tick = now + self.asked.tick
            for link in self._inlet.links.values():
                await self._shape(link, self._watch.expected(link))

    async def _still_here(self, now: float) -> None:
        """Who did not come back for long may have been taken for gone by the registry."""
        if now - self._turned > LONG and self.asked.durable is None:
            await self._view.subscription_starts(self._document())
        self._turned = now

    def _patience(self) -> float:
        if self.asked.cadence == "tick":
            return min(PULSE, self.asked.tick)
        return PULSE

    async def _take(self, stored: Stored, now: float) -> None:
        """The events of a message, ready to be handed out."""
        deliveries = await self._receive(stored, now)
        self._offset = stored.offset
        self._handed_out = 0
        self._watch.stored_at(stored)
        events = [thing for thing in deliveries if type(thing) is Event]
        if events:
            self._heard.add(publisher_in(stored.subject))
        if len(events) != len(deliveries):
            for thing in deliveries:
                if not isinstance(thing, Event) and not self._before_the_beginning(thing):
                    self._tell(thing)
        self._watch.check_bounds(self._inlet.links, self._view)
        await self._shape(self._inlet.link(publisher_in(stored.subject)), events)
        if self._skip:
            for _ in range(min(self._skip, len(self._ready))):
                self._ready.popleft()
                self._handed_out += 1
            self._skip = 0

    def _before_the_beginning(self, thing: Delivery) -> bool:
        """Is it word of events that happened before anything was asked for?"""
        return isinstance(thing, Missed) and thing.first is None and thing.publisher not in self._heard

    async def _receive(self, stored: Stored, now: float) -> list[Delivery]:
        """What a message brings; a schema that is not known yet is asked for, once."""
        try:
            return self._inlet.receive(stored, now)
        except UnknownSchema as unknown:
            if await self._view.learn(bytes.fromhex(unknown.fingerprint)):
                return self._inlet.link(publisher_in(stored.subject)).receive(stored.payload, now=now)
            self._tell(Unreadable(publisher_in(stored.subject), stored.offset, str(unknown)))
        except PeerFault as fault:
            self._tell(Unreadable(publisher_in(stored.subject), stored.offset, str(fault)))
        return []

    async def _shape(self, link: Subscriber, events: list[Event]) -> None:
        """Make events of one publisher ready to be handed out."""
        if not events:
            return
        shape, factoring = self._shape_of(link)
        if factoring is not None:
            events = await self._with_facts(factoring, events)
        self._ready.extend(shape(events))

    async def _with_facts(self, factoring: Factoring, events: list[Event]) -> list[Event]:
        joined: list[Event] = []
        for event in events:
            try:
                joined.append(await self._view.join_facts(factoring, event))
            except UnknownFacts as unknown:
                self._tell(Unreadable(event.publisher, self._offset or 0, str(unknown)))
        return joined

    def _shape_of(self, link: Subscriber) -> tuple[Shape, Factoring | None]:
        assert link.replica is not None
        fingerprint = link.replica.fingerprint
        known = self._shapes.get(fingerprint)
        if known is None:
            factoring = self._view.factoring_of(fingerprint)
            schema = factoring.schema if factoring is not None else link.replica.expander.rules.schema
            known = self._shapes[fingerprint] = Shape(self.asked, schema, self._reader_schema), factoring
        return known

    async def _acknowledge(self) -> None:
        """More is asked for, so everything handed out is worked off."""
        if self._offset is None or self._reader is None:
            return
        self._reader.done(self._offset)
        if self._keeper is not None:
            await self._keeper.keep(Cursor(self._offset), self._clock.now())

    def _worked_off(self, failed: bool) -> Cursor:
        """Where to go on after the end: behind the last message, or within it where events of it are left."""
        assert self._offset is not None
        if not self._ready and not (failed and self._handed_out):
            return Cursor(self._offset)
        # Which events count as changes depends on what came before; those of a message come again as a whole.
        within = self._handed_out - failed * self._at_once if self.asked.emit == "all" else 0
        return Cursor(self._offset - 1, max(0, within))

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
            since=self._clock.now(),
        )

    def _tell(self, notice: Notice) -> None:
        if isinstance(notice, Watermark):
            self._watch.marked(notice)
        else:
            self.notices.append(notice)
        if self._on_notice is not None:
            self._on_notice(notice)


async def _alive(subject: str, payload: bytes) -> bytes | None:
    return b"here"
