"""Registration of a watch and of its watcher, and reading the log of the watch, which a watch service writes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Literal

from thinwire.brokers.protocol import NOTHING, Broker, Bucket, Listener, LogReader
from thinwire.client.consumer import answer_probes
from thinwire.client.cursor import Cursor
from thinwire.client.feed_switch import RETENTION_LOSS
from thinwire.client.notices import Notice
from thinwire.client.watch_hit import Hit, HitMaker, WatchPosition, notice_of
from thinwire.clock import Clock
from thinwire.codec import EventsMissed
from thinwire.errors import (
    BrokerUnavailable,
    ConfigError,
    Conflict,
    LimitExceeded,
    ServiceUnavailable,
    UnknownLog,
    WatchFailed,
)
from thinwire.filters.composite.feed_sequencer import Delivery, LatePolicy, Order
from thinwire.topics.names import WATCHES, evaluator_subject, watch_log_of, watch_subject
from thinwire.topics.watches.watch_documents import (
    MAX_WATCHES,
    WatchDocument,
    WatcherDocument,
    WatchOptions,
    failed_key,
    watch_key,
    watcher_key,
)
from thinwire.topics.watches.watch_log import WatchLog, decode_record
from thinwire.topics.watches.watch_quantities import ResolvedCondition

START_TIMEOUT = 30.0
"""seconds that a service has to start a watch"""
CHECK_INTERVAL = 5.0
"""seconds without a notification after which the registration is checked"""
RETRY_INTERVAL = 0.2
_TOO_MANY = "Share one: equal expressions with equal options are one watch. Or remove durable ones (`forget_watch`)."


class WatchRegistration:
    """The documents of one watcher. While it is open, it answers requests whether the watcher is alive.

    durable: the documents stay when it is closed
    """

    def __init__(self, broker: Broker, clock: Clock, document: WatchDocument, identity: str, *, durable: bool) -> None:
        self.document = document
        self.watcher = WatcherDocument(document.watch, identity, durable, clock.now())
        self._broker = broker
        self._listener: Listener | None = None

    async def open(self) -> None:
        """Register watcher and watch.

        Raises ConfigError for a durable name of another watch, LimitExceeded if there are too many watches.
        """
        bucket = await self._bucket()
        await self._check_name(bucket)
        self._listener = await answer_probes(self._broker, self.watcher.identity)
        await bucket.delete(failed_key(self.document.watch))  # the failure of an earlier attempt
        # The watcher first: a service that removes an unused watch looks for watchers afterwards.
        await bucket.put(self.watcher.key, self.watcher.encode())
        await self._add_watch(bucket)

    async def is_registered(self) -> bool:
        known = await (await self._bucket()).get(self.watcher.key)
        return known is not None and known.value is not None

    async def renew(self) -> None:
        """Register again if the service has removed the watcher. Raises WatchFailed if it cannot evaluate the watch."""
        bucket = await self._bucket()
        failed = await bucket.get(failed_key(self.document.watch))
        if failed is not None and failed.value is not None:
            raise WatchFailed(failed.value.decode(errors="replace"), watch=self.document.watch)
        if not await self.is_registered():
            await bucket.put(self.watcher.key, self.watcher.encode())
        await self._add_watch(bucket)

    async def close(self) -> None:
        if self._listener is None:
            return
        await self._listener.close()
        if not self.watcher.durable:
            await (await self._bucket()).delete(self.watcher.key)

    async def _add_watch(self, bucket: Bucket) -> None:
        entry = await bucket.get(self.document.key)
        if entry is not None and entry.value is not None:
            return
        if len(await bucket.entries(watch_key())) >= MAX_WATCHES:
            await bucket.delete(self.watcher.key)
            raise LimitExceeded("too many watches", advice=_TOO_MANY, limit=MAX_WATCHES)
        with suppress(Conflict):  # another watcher has registered it concurrently
            await bucket.put(self.document.key, self.document.encode(), revision=NOTHING)

    async def _check_name(self, bucket: Bucket) -> None:
        if not self.watcher.durable:
            return
        for entry in await bucket.entries(watcher_key("*", self.watcher.identity)):
            if entry.value is not None and entry.key != self.watcher.key:
                detail = "this durable name belongs to another watch: use another, or remove it with `bus.forget_watch`"
                raise ConfigError(detail, durable=self.watcher.identity)

    async def _bucket(self) -> Bucket:
        return await self._broker.bucket(WATCHES)


def make_options(
    max_delay: float, late_policy: LatePolicy, start: Literal["latest", "earliest"] | datetime
) -> WatchOptions:
    """Return the options of a watch. Raises ConfigError for an invalid one.

    >>> make_options(1.0, "drop", "latest").late_policy
    'drop'
    """
    if isinstance(start, datetime):
        if start.tzinfo is None:
            raise ConfigError("give the start a time zone, such as timezone.utc", start=start)
        return WatchOptions(max_delay, late_policy, start.timestamp())
    if start not in ("latest", "earliest"):
        raise ConfigError("start is 'latest', 'earliest' or a datetime", start=start)
    return WatchOptions(max_delay, late_policy, start)


class WatchReader:
    """Reads the notifications of one watch from a position on.

    watch: the identifier of the watch
    log_end: offset of the last record when a new watcher started; limit: records that are fetched ahead
    """

    def __init__(
        self,
        broker: Broker,
        resolved: ResolvedCondition,
        registration: WatchRegistration,
        *,
        limit: int,
        on_notice: Callable[[Notice], None],
    ) -> None:
        self.log_end = 0
        self._broker = broker
        self._condition = resolved.condition
        self._hit_maker = HitMaker(resolved.condition, resolved.topics)
        self._registration = registration
        self.watch = registration.document.watch
        self._limit = limit
        self._on_notice = on_notice
        self._reader: LogReader | None = None
        self._hits_to_skip = self._offset = 0
        self._last_number: int | None = None
        self._checked_at = 0.0

    async def open(self, cursor: Cursor | None) -> list[Hit]:
        """Register the watch, wait until it is evaluated, and seek; a new watcher receives the current values."""
        await self._registration.open()
        if not await self._wait_for_service() and cursor is None:
            detail = "no watch service has started it: run `thinwire up --only watches`"
            raise WatchFailed(detail, seconds=START_TIMEOUT)
        self._checked_at = asyncio.get_running_loop().time()
        return await self._resume(cursor) if cursor is not None else await self._start()

    async def next(self, timeout: float) -> list[Hit]:
        """Return the notifications of the next record; none if there is no record within `timeout` seconds."""
        assert self._reader is not None
        try:
            stored = await self._reader.next(timeout)
        except UnknownLog:
            return await self._restart()
        if stored is None:
            return await self._check_registration()
        self._offset = stored.offset
        self._checked_at = asyncio.get_running_loop().time()
        record = decode_record(stored.payload)
        for notice in record.notices:
            self._on_notice(notice_of(notice))
        found = [message.delivery(self._condition) for message in record.messages]
        deliveries = enumerate(delivery for delivery in found if delivery is not None)
        hits = [self._hit_maker.make(item, WatchPosition(stored.offset, index)) for index, item in deliveries]
        self._check_numbers(hits)
        skipped, self._hits_to_skip = self._hits_to_skip, 0
        if not hits[skipped:]:
            self._reader.done(stored.offset)
        return hits[skipped:]

    def done(self, offset: int) -> None:
        """Acknowledge the records up to an offset."""
        if self._reader is not None:
            self._reader.done(offset)

    async def close(self) -> None:
        if self._reader is not None:
            await self._reader.close()
        await self._registration.close()

    async def _wait_for_service(self) -> bool:
        """Wait until the watch is evaluated. Raises WatchFailed if it cannot be."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + START_TIMEOUT
        while loop.time() < deadline:
            with suppress(ServiceUnavailable, BrokerUnavailable):
                await self._broker.request(evaluator_subject(self.watch), b"", timeout=1.0)
                return True
            await self._registration.renew()
            await asyncio.sleep(RETRY_INTERVAL)
        return False

    async def _resume(self, cursor: Cursor) -> list[Hit]:
        """Continue after the last notification acknowledged."""
        try:
            span = await self._broker.span(watch_log_of(self.watch))
        except UnknownLog:
            detail = "its log was deleted: remove the durable name with `bus.forget_watch`, or use another"
            raise WatchFailed(detail, durable=self._registration.watcher.identity) from None
        if span.last < cursor.offset:  # the watch was removed and started again
            self._on_notice(RETENTION_LOSS)
            return await self._start()
        if span.first > cursor.offset + 1:
            self._on_notice(RETENTION_LOSS)
        self._hits_to_skip = cursor.within if span.first <= cursor.offset + 1 else 0
        await self._read_from(max(cursor.offset + 1, span.first))
        return []

    async def _start(self) -> list[Hit]:
        """Start a new watcher with the current values (`held`, a `standing` hit), or with the first notification."""
        document, log = self._registration.document, WatchLog(self._broker, self.watch)
        self._last_number, self._hits_to_skip = None, 0
        if document.start != "latest":
            await self._read_from((await self._broker.span(watch_log_of(self.watch))).first)
            return []
        progress = await log.recover(document.fingerprint)
        state = progress.state if progress is not None else None
        self._last_number = state.number if state is not None else None
        self.log_end = log.last
        await self._read_from(log.last + 1)
        if state is None or not state.held:
            return []
        values = {self._condition.quantities[index]: value for index, value in state.held.items()}
        delivery = Delivery(state.number, state.frontier or Order(0), values)
        # Its position is the end of the log: after an acknowledgement the watcher continues there.
        return [self._hit_maker.make(delivery, WatchPosition(log.last + 1, -1), standing=True)]

    async def _read_from(self, first: int) -> None:
        self._offset = first - 1
        if self._reader is not None:
            await self._reader.close()
        subjects = [watch_subject(self.watch)]
        self._reader = await self._broker.read(
            watch_log_of(self.watch), first=first, subjects=subjects, max_unacknowledged=self._limit
        )

    async def _check_registration(self) -> list[Hit]:
        """Check from time to time that watch and watcher are still registered."""
        now = asyncio.get_running_loop().time()
        if now - self._checked_at < CHECK_INTERVAL:
            return []
        self._checked_at = now
        with suppress(BrokerUnavailable):
            await self._registration.renew()
            if await self._is_log_replaced():
                return await self._restart()
        return []

    async def _restart(self) -> list[Hit]:
        """Register again: the watch was removed because it had no watcher."""
        self._on_notice(RETENTION_LOSS)
        await self._registration.renew()
        return await self._start() if await self._wait_for_service() else []

    async def _is_log_replaced(self) -> bool:
        try:
            return (await self._broker.span(watch_log_of(self.watch))).last < self._offset
        except UnknownLog:
            return True

    def _check_numbers(self, hits: list[Hit]) -> None:
        """Report a gap in the numbers: retention removed notifications before they were read."""
        for hit in hits:
            if self._last_number is not None and hit.number > self._last_number + 1:
                self._on_notice(EventsMissed("", None, self._last_number + 1, hit.number - 1, "retention"))
            self._last_number = hit.number
