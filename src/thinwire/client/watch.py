"""A watch: the notifications of a composite condition over several topics, as an asynchronous iterator.

A watch service evaluates the condition. Requesting a notification acknowledges the ones before it.
"""

from __future__ import annotations

import asyncio

from thinwire.brokers.protocol import Broker
from thinwire.client.consumer import POLL_INTERVAL, Consumer, OnNotice
from thinwire.client.cursor import Cursor
from thinwire.client.watch_hit import Hit
from thinwire.client.watch_reader import WatchReader, WatchRegistration
from thinwire.clock import Clock
from thinwire.codec.kernel_warmup import warm_up
from thinwire.errors import ServiceUnavailable, TransportClosed
from thinwire.filters.composite.watch_grammar import parse_watch
from thinwire.topics.names import evaluator_subject
from thinwire.topics.watches.watch_documents import WatchDocument, WatchOptions
from thinwire.topics.watches.watch_quantities import resolve_live

CURSOR = "=watch"
"""prefix of the cursors of durable watches; not a valid topic name"""
ANSWER_TIMEOUT = 2.0
NEEDS_SERVICE = "no watch service answers: run `thinwire up --only watches`"


class Watch(Consumer[Hit]):
    """Notifications of a watch (`async for`). Created by `Bus.watch`."""

    def __init__(
        self,
        broker: Broker,
        clock: Clock,
        expression: str,
        options: WatchOptions,
        *,
        identity: str,
        durable: str | None,
        ack_every: float,
        limit: int,
        on_notice: OnNotice | None,
    ) -> None:
        super().__init__(broker, clock, identity, ack_every=ack_every, limit=limit, on_notice=on_notice)
        self.expression = str(parse_watch(expression))  # raises for an invalid expression
        self.options = options
        self.durable = durable
        self._source_text = expression
        self._reader: WatchReader | None = None
        self._delivered: Hit | None = None
        self._acknowledged: Hit | None = None

    async def __anext__(self) -> Hit:
        await self.open()
        reader = self._reader
        if reader is None:
            raise StopAsyncIteration
        if self._delivered is not None:
            self._acknowledged, self._delivered = self._delivered, None
            await self._acknowledge(reader, self._acknowledged)
        while not self._ready:
            if self._closed:
                raise StopAsyncIteration
            self._ready.extend(await reader.next(POLL_INTERVAL))
            self._outage.update(self._broker.connected, self._clock.now())
        self._delivered = self._ready.popleft()
        return self._delivered

    @property
    def watch(self) -> str:
        """The identifier of the watch: equal for equal conditions with equal options."""
        if self._reader is None:
            raise TransportClosed("this watch is not open: use `async with bus.watch(...)`")
        return self._reader.watch

    async def open(self) -> None:
        """Resolve the topics and start to read.

        Raises ExpressionError, with the position, for an expression that does not fit the topics, and
        ServiceUnavailable if there is no watch service.
        """
        if self._reader is not None or self._closed:
            return
        resolved = await resolve_live(self._broker, self._source_text)
        await asyncio.to_thread(warm_up)
        document = WatchDocument.of(self.expression, resolved.condition.fingerprint, self.options)
        registration = WatchRegistration(
            self._broker, self._clock, document, self.identity, durable=self.durable is not None
        )
        await self._check_service(registration)
        reader = WatchReader(self._broker, resolved, registration, limit=self._limit, on_notice=self._notify)
        try:
            self._ready.extend(await self._open_reader(reader))
        except BaseException:
            await reader.close()
            raise
        self._reader = reader

    async def close(self, *, failed: bool = False) -> None:
        """Stop. Delivered notifications count as acknowledged, except for the last one if the caller `failed`.

        A durable watch is still evaluated; others are removed with their last watcher.
        """
        if self._closed:
            return
        self._closed = True
        if self._reader is None:
            return
        last = self._acknowledged if failed or self._delivered is None else self._delivered
        try:
            if last is not None:
                await self._write_cursor(_position_after(last))
        finally:
            await self._reader.close()

    async def _open_reader(self, reader: WatchReader) -> list[Hit]:
        cursor = await self._open_cursor(CURSOR, self.durable)
        hits = await reader.open(cursor)
        if cursor is None and self.options.start == "latest" and not hits:
            await self._write_cursor(Cursor(reader.log_end))
        return hits

    async def _check_service(self, registration: WatchRegistration) -> None:
        """Raise ServiceUnavailable if no service runs; a registered durable watch waits for its service instead."""
        try:
            await self._broker.request(evaluator_subject(), b"", timeout=ANSWER_TIMEOUT)
        except ServiceUnavailable:
            if self.durable is None or not await registration.is_registered():
                raise ServiceUnavailable(NEEDS_SERVICE) from None

    async def _acknowledge(self, reader: WatchReader, hit: Hit) -> None:
        reader.done(hit.position.offset)
        if self._cursor_store is not None and self._cursor_store.is_due(self._clock.now()):
            await self._write_cursor(_position_after(hit))


def _position_after(hit: Hit) -> Cursor:
    return Cursor(hit.position.offset - 1, hit.position.within + 1)
