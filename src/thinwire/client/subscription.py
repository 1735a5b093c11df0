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
from thinwire.client.intake import Intake
from thinwire.client.notices import Notice
from thinwire.client.requests import Requests
from thinwire.client.watching import Absence
from thinwire.clock import Clock
from thinwire.control.names import alive_subject, log_of, publisher_subjects
from thinwire.control.registry import SubscriptionDocument
from thinwire.control.topics import Topic
from thinwire.errors import TransportClosed
from thinwire.events import Event, Schema
from thinwire.link import Counts, Missed, Watermark
from thinwire.link.warming import warm_up
from thinwire.transports.broker import Broker, Listener, LogReader

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
        self._find_topic = find_topic
        self._broker = broker
        self._clock = clock
        self._reader_schema = reader_schema
        self._ack_every = ack_every
        self._limit = limit
        self._on_notice = on_notice
        self._requests = Requests(broker, topic)
        self._absence = Absence(broker.url, self._tell)
        self._ready: deque[Event] = deque()
        self._handed_out = 0
        self._at_once = 0
        self._skip = 0
        self._offset: int | None = None
        self._next_tick = self._turned = 0.0
        self._intake: Intake | None = None
        self._reader: LogReader | None = None
        self._keeper: CursorKeeper | None = None
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
        """The place in the log of the events handed out last."""
        return self._offset

    @property
    def counts(self) -> dict[str, Counts]:
        """What each publisher's link has done so far."""
        links = self._intake.inlet.links if self._intake is not None else {}
        return {name: link.counts for name, link in links.items()}

    @property
    def watermark(self) -> float | None:
        """Up to this time (seconds) the events of every publisher heard of are complete; None before it is known."""
        return self._intake.watermark if self._intake is not None else None

    async def open(self) -> None:
        """Say what is asked, and find the place to begin at."""
        if self._reader is not None or self._closed:
            return
        self._view = await self._find_topic()
        self.asked.check(self._view.schema)
        await asyncio.to_thread(warm_up)
        await self._view.open_log()
        intake = Intake(self._view, self.asked, self._reader_schema, self._tell)
        # The place first, the demand after it: the key frames that answer the demand then lie behind the place.
        first, begins = await self._place()
        await intake.seek(self._broker, first, NEARBY if begins else None)
        self._intake = intake
        await self._ask()
        subjects = [publisher_subjects(self.topic)]
        self._reader = await self._broker.read(log_of(self.topic), first=first, subjects=subjects, limit=self._limit)
        if begins:
            await self._hear_where_everything_stands(intake)

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
                if self.asked.durable is None:
                    await self._view.subscription_ends(self.identity)

    async def _place(self) -> tuple[int, bool]:
        """The offset to begin at, and whether this is a new subscription that begins now."""
        cursor = await self._open_cursor() if self.asked.durable is not None else None
        span = await self._broker.span(log_of(self.topic))
        if cursor is None:
            first = await self._asked_offset(span.first, span.last + 1)
            if self._keeper is not None:
                await self._keeper.keep(Cursor(first - 1), self._clock.now(), at_once=True)
            return first, self.asked.start == "latest"
        self._skip = cursor.within
        if cursor.offset + 1 < span.first:
            self._skip = 0
            self._tell(Missed("", None, None, None, "retention"))
        return max(cursor.offset + 1, span.first), False

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

    async def _ask(self) -> None:
        """Make the demand known, and give the registry a moment to pass it on."""
        self._listener = await self._broker.listen(alive_subject(self.identity), _alive)
        self._turned = self._clock.now()
        await self._view.subscription_starts(self._document())
        if not await self._view.wait_for(self.asked.tolerances(self._view.schema), REGISTRY_PATIENCE):
            _log.warning("%s: the registry has not answered; what is asked here counts when it does", self.topic)

    async def _hear_where_everything_stands(self, intake: Intake) -> None:
        """A subscriber that begins now first hears of every source, from the log or from its publisher."""
        if not intake.inlet.links or any(intake.inlet.lost()):
            await self._requests.call()
        self._ready.extend(await intake.present())

    async def _more(self) -> bool:
        """Work for more events: acknowledge, read a message, see to what is due. False at the end."""
        if self._closed:
            return False
        if self._reader is None or self._intake is None:
            await self.open()
        if self._reader is None or self._intake is None:
            raise TransportClosed()
        await self._acknowledge(self._reader)
        await self._still_here(self._clock.now())
        stored = await self._reader.next(min(PULSE, self.asked.tick) if self.asked.cadence == "tick" else PULSE)
        now = self._clock.now()
        self._absence.note(self._broker.connected, now)
        if stored is not None:
            self._offset, self._handed_out = stored.offset, 0
            self._ready.extend(await self._intake.take(stored, now))
            self._leave_out()
        if stored is None or any(self._intake.inlet.lost()):
            await self._requests.ask(self._intake.inlet, now)
        if self.asked.cadence == "tick" and now >= self._next_tick:
            self._next_tick = now + self.asked.tick
            self._ready.extend(await self._intake.expected())
        return True

    def _leave_out(self) -> None:
        """The events of the first message that were worked off before the last end."""
        while self._skip and self._ready:
            self._ready.popleft()
            self._handed_out += 1
            self._skip -= 1
        self._skip = 0

    async def _still_here(self, now: float) -> None:
        """Who did not come back for long may have been taken for gone by the registry."""
        if now - self._turned > LONG and self.asked.durable is None:
            await self._view.subscription_starts(self._document())
        self._turned = now

    async def _acknowledge(self, reader: LogReader) -> None:
        """More is asked for, so everything handed out is worked off."""
        if self._offset is None:
            return
        reader.done(self._offset)
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
        if not isinstance(notice, Watermark):
            self.notices.append(notice)
        if self._on_notice is not None:
            self._on_notice(notice)


async def _alive(subject: str, payload: bytes) -> bytes | None:
    return b"here"
