"""What a watcher writes so that a watch is evaluated for it: the watch, where nobody has asked for it, and itself.

A watch that is evaluated beside the broker: it is asked for, and its log is followed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Literal, cast

from thinwire.brokers.protocol import NOTHING, Broker, Bucket, Listener, LogReader
from thinwire.client.cursor import Cursor, CursorKeeper
from thinwire.client.notices import Notice
from thinwire.client.watch_hit import Hit, HitMaker, WatchPosition, notice_of
from thinwire.clock import Clock
from thinwire.codec import EventsMissed
from thinwire.errors import (
    BrokerUnavailable,
    ConfigError,
    Conflict,
    NobodyAnswers,
    TooManyWatches,
    UnknownLog,
    WatchFailed,
)
from thinwire.filters.composite import Delivery, Order
from thinwire.filters.composite.feed_sequencer import LatePolicy
from thinwire.topics.names import WATCHES, alive_subject, evaluator_subject, watch_log_of, watch_subject
from thinwire.topics.watches.watch_documents import (
    MAX_WATCHES,
    WatchDocument,
    WatcherDocument,
    WatchOptions,
    WatchStart,
    failed_key,
    watch_key,
    watcher_key,
)
from thinwire.topics.watches.watch_log import WatchLog
from thinwire.topics.watches.watch_quantities import Resolved
from thinwire.topics.watches.watch_records import read_record


class WatchAsking:
    """One watcher's word that it follows a watch; it answers while it lives.

    durable: its word stays when it leaves
    """

    def __init__(self, broker: Broker, clock: Clock, document: WatchDocument, identity: str, *, durable: bool) -> None:
        self.document = document
        self.watcher = WatcherDocument(document.watch, identity, durable, clock.now())
        self._broker = broker
        self._listener: Listener | None = None

    async def ask(self) -> None:
        """Say it. Raises ConfigError where the durable name belongs to another watch, TooManyWatches at the limit."""
        bucket = await self._bucket()
        await self._check_name(bucket)
        self._listener = await self._broker.listen(alive_subject(self.watcher.identity), _alive)
        await bucket.delete(failed_key(self.document.watch))  # of an attempt before this one
        # The watcher first: who is about to end the watch looks for watchers after it has taken the watch back.
        await bucket.put(self.watcher.key, self.watcher.encode())
        await self._describe(bucket)

    async def is_known(self) -> bool:
        """Is it written that it follows the watch?"""
        known = await (await self._bucket()).get(self.watcher.key)
        return known is not None and known.value is not None

    async def check(self) -> None:
        """Is it still known, and can the watch be evaluated? Who was away for long may have been taken for gone."""
        bucket = await self._bucket()
        failed = await bucket.get(failed_key(self.document.watch))
        if failed is not None and failed.value is not None:
            raise WatchFailed(failed.value.decode(errors="replace"), watch=self.document.watch)
        if not await self.is_known():
            await bucket.put(self.watcher.key, self.watcher.encode())
        await self._describe(bucket)

    async def end(self) -> None:
        """Follow it no more; a durable one only leaves."""
        if self._listener is None:
            return
        await self._listener.close()
        if not self.watcher.durable:
            await (await self._bucket()).delete(self.watcher.key)

    async def _describe(self, bucket: Bucket) -> None:
        """Make sure that the watch is known."""
        entry = await bucket.get(self.document.key)
        if entry is not None and entry.value is not None:
            return
        if len(await bucket.entries(watch_key())) >= MAX_WATCHES:
            await bucket.delete(self.watcher.key)
            raise TooManyWatches(limit=MAX_WATCHES)
        with suppress(Conflict):  # somebody else asked for it at the same time
            await bucket.put(self.document.key, self.document.encode(), revision=NOTHING)

    async def _check_name(self, bucket: Bucket) -> None:
        """A durable name belongs to one watch."""
        if not self.watcher.durable:
            return
        for entry in await bucket.entries(watcher_key("*", self.watcher.identity)):
            if entry.value is not None and entry.key != self.watcher.key:
                detail = "this durable name belongs to another watch: forget it (`bus.forget_watch`), or choose another"
                raise ConfigError(detail, durable=self.watcher.identity)

    async def _bucket(self) -> Bucket:
        return await self._broker.bucket(WATCHES)


async def forget_watcher(bucket: Bucket, durable: str) -> None:
    """End a durable watcher for good."""
    for entry in await bucket.entries(watcher_key("*", durable)):
        await bucket.delete(entry.key)


def watch_options(
    max_delay: float, late_policy: LatePolicy, start: Literal["latest", "earliest"] | datetime
) -> WatchOptions:
    """What is asked of a watch beside its expression. Raises ConfigError where it cannot begin at `start`.

    >>> watch_options(1.0, "drop", "latest").late_policy
    'drop'
    """
    return WatchOptions(max_delay, late_policy, _begins(start))


def _begins(start: Literal["latest", "earliest"] | datetime) -> WatchStart:
    if start in ("latest", "earliest"):
        return cast(WatchStart, start)
    if not isinstance(start, datetime):
        raise ConfigError("start is 'latest', 'earliest' or a datetime", start=start)
    if start.tzinfo is None:
        raise ConfigError("give the start a time zone, such as timezone.utc", start=start)
    return start.timestamp()


async def _alive(subject: str, payload: bytes) -> bytes | None:
    return b"here"


CURSOR = "=watch"
"""under which the places of durable watchers are kept; no topic can have this name"""
PATIENCE = 30.0
"""seconds that a service has to begin a watch"""
LOOK = 5.0
"""seconds without a notification after which a watcher makes sure that all is well"""
ATTEMPT = 0.2


class ServedWatch:
    """One watcher of a watch.

    durable: the name under which its place is kept; limit: records read ahead
    """

    def __init__(
        self,
        broker: Broker,
        clock: Clock,
        resolved: Resolved,
        document: WatchDocument,
        identity: str,
        *,
        durable: str | None,
        ack_every: float,
        limit: int,
        tell: Callable[[Notice], None],
    ) -> None:
        self._broker = broker
        self._clock = clock
        self._document = document
        self._condition = resolved.condition
        self._hits = HitMaker(resolved.condition, resolved.topics)
        self._asking = WatchAsking(broker, clock, document, identity, durable=durable is not None)
        self._durable = durable
        self._ack_every = ack_every
        self._limit = limit
        self._tell = tell
        self._cursor_store: CursorKeeper | None = None
        self._reader: LogReader | None = None
        self._skip = self._offset = 0
        self._number: int | None = None
        self._looked = 0.0

    async def open(self) -> list[Hit]:
        """Ask for the watch, wait until it is evaluated, and go to the place; newcomers hear what it holds."""
        cursor = None
        if self._durable is not None:
            self._cursor_store, cursor = await CursorKeeper.open(
                self._broker, CURSOR, self._durable, every=self._ack_every
            )
        await self._asking.ask()
        begun = await self._begun()
        if not begun and cursor is None:
            raise WatchFailed("no service has begun it in time: run `thinwire up --only watches`", seconds=PATIENCE)
        self._looked = asyncio.get_running_loop().time()
        if cursor is not None:
            return await self._resume(cursor)
        return await self._join()

    async def is_known(self) -> bool:
        """Has it followed the watch before, under its durable name?"""
        return await self._asking.is_known()

    async def next(self, timeout: float) -> list[Hit]:
        """The notifications of the next record; none where none came within so many seconds."""
        assert self._reader is not None
        try:
            stored = await self._reader.next(timeout)
        except UnknownLog:
            return await self._begin_anew()
        if stored is None:
            return await self._look()
        self._offset = stored.offset
        self._looked = asyncio.get_running_loop().time()
        record = read_record(stored.payload)
        for notice in record.notices:
            self._tell(notice_of(notice))
        found = [message.delivery(self._condition) for message in record.messages]
        deliveries = [delivery for delivery in found if delivery is not None]
        hits = [self._hits.hit(one, WatchPosition(stored.offset, place)) for place, one in enumerate(deliveries)]
        self._check_numbers(hits)
        skipped, self._skip = self._skip, 0
        if not hits[skipped:]:
            self._reader.done(stored.offset)
        return hits[skipped:]

    async def acknowledge(self, hit: Hit) -> None:
        """A notification is worked off, and all before it."""
        if self._reader is None or hit.position is None:
            return
        self._reader.done(hit.position.offset)
        if self._cursor_store is not None and self._cursor_store.is_due(self._clock.now()):
            await self._cursor_store.keep(_behind(hit), self._clock.now())

    async def close(self, last: Hit | None) -> None:
        """Follow it no more; last: the last notification worked off, if any. A durable one is still followed."""
        try:
            if self._cursor_store is not None and last is not None:
                await self._cursor_store.keep(_behind(last), self._clock.now())
        finally:
            if self._reader is not None:
                await self._reader.close()
            await self._asking.end()

    async def _begun(self) -> bool:
        """Wait until the watch is evaluated; raises `WatchFailed` where it cannot be."""
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while asyncio.get_running_loop().time() < deadline:
            with suppress(NobodyAnswers, BrokerUnavailable):
                json.loads(await self._broker.request(evaluator_subject(self._document.watch), b"", timeout=1.0))
                return True
            await self._asking.check()
            await asyncio.sleep(ATTEMPT)
        return False

    async def _resume(self, cursor: Cursor) -> list[Hit]:
        """Behind the last notification worked off."""
        try:
            span = await self._broker.span(watch_log_of(self._document.watch))
        except UnknownLog:
            detail = "its log is gone: forget the durable name, or choose another"
            raise WatchFailed(detail, durable=self._durable) from None
        if span.last < cursor.offset:  # it has begun anew, because the name was forgotten meanwhile
            self._tell(EventsMissed("", None, None, None, "retention"))
            return await self._join()
        if span.first > cursor.offset + 1:
            self._tell(EventsMissed("", None, None, None, "retention"))
        self._skip = cursor.within if span.first <= cursor.offset + 1 else 0
        await self._read_from(max(cursor.offset + 1, span.first))
        return []

    async def _join(self) -> list[Hit]:
        """Where a watcher begins that is new: what the watch holds now, or with its first notification."""
        log, self._number, self._skip = WatchLog(self._broker, self._document.watch), None, 0
        if self._document.start != "latest":
            await self._read_from((await self._broker.span(watch_log_of(self._document.watch))).first)
            return []
        progress = await log.recover(self._document.fingerprint)
        state = progress.state if progress is not None else None
        self._number = state.number if state is not None else None
        await self._read_from(log.last + 1)
        if state is None or not state.held:
            if self._cursor_store is not None:
                await self._cursor_store.keep(Cursor(log.last), self._clock.now())
            return []
        values = {self._condition.quantities[place]: value for place, value in state.held.items()}
        delivery = Delivery(state.number, state.frontier or Order(0), values)
        # behind the last record: worked off, it is gone on from there
        return [self._hits.hit(delivery, WatchPosition(log.last + 1, -1), standing=True)]

    async def _read_from(self, first: int) -> None:
        watch = self._document.watch
        self._offset = first - 1
        if self._reader is not None:
            await self._reader.close()
        self._reader = await self._broker.read(
            watch_log_of(watch), first=first, subjects=[watch_subject(watch)], limit=self._limit
        )

    async def _look(self) -> list[Hit]:
        """Is the watch still there, and are we known to follow it? Who was away for too long begins anew."""
        now = asyncio.get_running_loop().time()
        if now - self._looked < LOOK:
            return []
        self._looked = now
        with suppress(BrokerUnavailable):
            await self._asking.check()
            if await self._is_another_log():
                return await self._begin_anew()
        return []

    async def _begin_anew(self) -> list[Hit]:
        """Nobody was known to follow the watch, and it ended: it is asked for again."""
        self._tell(EventsMissed("", None, None, None, "retention"))
        await self._asking.check()
        return await self._join() if await self._begun() else []

    async def _is_another_log(self) -> bool:
        """Has the log begun anew, because nobody followed the watch for a while?"""
        try:
            return (await self._broker.span(watch_log_of(self._document.watch))).last < self._offset
        except UnknownLog:
            return True

    def _check_numbers(self, hits: list[Hit]) -> None:
        """A jump means that notifications have left the log before they were read."""
        for hit in hits:
            if self._number is not None and hit.number > self._number + 1:
                self._tell(EventsMissed("", None, self._number + 1, hit.number - 1, "retention"))
            self._number = hit.number


def _behind(hit: Hit) -> Cursor:
    """Where to go on behind a notification."""
    assert hit.position is not None
    return Cursor(hit.position.offset - 1, hit.position.within + 1)
