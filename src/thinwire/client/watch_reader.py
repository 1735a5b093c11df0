"""Reading the log of a watch, which a watch service writes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from thinwire.brokers.protocol import Broker, LogReader
from thinwire.client.cursor import Cursor
from thinwire.client.feed_start import RETENTION_LOSS
from thinwire.client.notices import Notice
from thinwire.client.watch_hit import Hit, HitMaker, WatchPosition, notice_of
from thinwire.client.watch_registration import WatchRegistration
from thinwire.codec import EventsMissed
from thinwire.errors import BrokerUnavailable, ServiceUnavailable, UnknownLog, WatchFailed
from thinwire.filters.composite import Delivery, Order
from thinwire.topics.names import evaluator_subject, watch_log_of, watch_subject
from thinwire.topics.watches.watch_log import WatchLog, decode_record
from thinwire.topics.watches.watch_quantities import Resolved

START_TIMEOUT = 30.0
"""seconds that a service has to start a watch"""
CHECK_INTERVAL = 5.0
"""seconds without a notification after which the registration is checked"""
RETRY = 0.2


class WatchReader:
    """Reads the notifications of one watch from a position on.

    log_end: offset of the last record when a new watcher started; limit: records that are fetched ahead
    """

    def __init__(
        self,
        broker: Broker,
        resolved: Resolved,
        registration: WatchRegistration,
        *,
        limit: int,
        on_notice: Callable[[Notice], None],
    ) -> None:
        self.log_end = 0
        self._broker = broker
        self._condition = resolved.condition
        self._hits = HitMaker(resolved.condition, resolved.topics)
        self._registration = registration
        self._watch = registration.document.watch
        self._limit = limit
        self._on_notice = on_notice
        self._reader: LogReader | None = None
        self._skip = self._offset = 0
        self._number: int | None = None
        self._checked = 0.0

    async def open(self, cursor: Cursor | None) -> list[Hit]:
        """Register the watch, wait until it is evaluated, and seek; a new watcher receives the current values."""
        await self._registration.open()
        if not await self._wait_for_service() and cursor is None:
            detail = "no watch service has started it: run `thinwire up --only watches`"
            raise WatchFailed(detail, seconds=START_TIMEOUT)
        self._checked = asyncio.get_running_loop().time()
        return await self._resume(cursor) if cursor is not None else await self._start()

    async def next(self, timeout: float) -> list[Hit]:
        """Return the notifications of the next record; none if there is no record within `timeout` seconds."""
        assert self._reader is not None
        try:
            stored = await self._reader.next(timeout)
        except UnknownLog:
            return await self._restart()
        if stored is None:
            return await self._check()
        self._offset = stored.offset
        self._checked = asyncio.get_running_loop().time()
        record = decode_record(stored.payload)
        for notice in record.notices:
            self._on_notice(notice_of(notice))
        found = [message.delivery(self._condition) for message in record.messages]
        deliveries = [delivery for delivery in found if delivery is not None]
        hits = [self._hits.hit(item, WatchPosition(stored.offset, index)) for index, item in enumerate(deliveries)]
        self._check_numbers(hits)
        skipped, self._skip = self._skip, 0
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
                await self._broker.request(evaluator_subject(self._watch), b"", timeout=1.0)
                return True
            await self._registration.renew()
            await asyncio.sleep(RETRY)
        return False

    async def _resume(self, cursor: Cursor) -> list[Hit]:
        """Continue after the last notification acknowledged."""
        try:
            span = await self._broker.span(watch_log_of(self._watch))
        except UnknownLog:
            detail = "its log was deleted: remove the durable name with `bus.forget_watch`, or use another"
            raise WatchFailed(detail, durable=self._registration.watcher.identity) from None
        if span.last < cursor.offset:  # the watch was removed and started again
            self._on_notice(RETENTION_LOSS)
            return await self._start()
        if span.first > cursor.offset + 1:
            self._on_notice(RETENTION_LOSS)
        self._skip = cursor.within if span.first <= cursor.offset + 1 else 0
        await self._read_from(max(cursor.offset + 1, span.first))
        return []

    async def _start(self) -> list[Hit]:
        """Start a new watcher with the current values of the watch, or with its first notification."""
        document, log = self._registration.document, WatchLog(self._broker, self._watch)
        self._number, self._skip = None, 0
        if document.start != "latest":
            await self._read_from((await self._broker.span(watch_log_of(self._watch))).first)
            return []
        progress = await log.recover(document.fingerprint)
        state = progress.state if progress is not None else None
        self._number = state.number if state is not None else None
        self.log_end = log.last
        await self._read_from(log.last + 1)
        if state is None or not state.held:
            return []
        values = {self._condition.quantities[index]: value for index, value in state.held.items()}
        delivery = Delivery(state.number, state.frontier or Order(0), values)
        # Its position is the end of the log: after an acknowledgement the watcher continues there.
        return [self._hits.hit(delivery, WatchPosition(log.last + 1, -1), standing=True)]

    async def _read_from(self, first: int) -> None:
        self._offset = first - 1
        if self._reader is not None:
            await self._reader.close()
        subjects = [watch_subject(self._watch)]
        self._reader = await self._broker.read(
            watch_log_of(self._watch), first=first, subjects=subjects, limit=self._limit
        )

    async def _check(self) -> list[Hit]:
        """Check from time to time that watch and watcher are still registered."""
        now = asyncio.get_running_loop().time()
        if now - self._checked < CHECK_INTERVAL:
            return []
        self._checked = now
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
            return (await self._broker.span(watch_log_of(self._watch))).last < self._offset
        except UnknownLog:
            return True

    def _check_numbers(self, hits: list[Hit]) -> None:
        """Report a gap in the numbers: retention removed notifications before they were read."""
        for hit in hits:
            if self._number is not None and hit.number > self._number + 1:
                self._on_notice(EventsMissed("", None, self._number + 1, hit.number - 1, "retention"))
            self._number = hit.number
