"""Ours: thinwire's own client, as a user has it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from typing import Any

import thinwire as tw
from thinwire.client import Subscription, TopicPublisher
from thinwire.codec import Missed
from thinwire.schema import Event, Schema
from thinwire.topics.names import log_of
from thinwire_lab.live.stacks import Receiver, Route, Sender


class Thin:
    """Publishers and subscribers on a registered topic."""

    async def prepare(self, route: Route) -> None:
        async with tw.connect(route.url) as bus:
            mode = "hold" if route.emit == "changes" else "predict"
            schema = Schema.from_document(route.schema)
            await bus.register(schema, mode=mode, format=route.format, dictionaries=route.dictionaries)

    async def sender(self, route: Route, name: str) -> Sender:
        opened = AsyncExitStack()
        bus = await opened.enter_async_context(tw.connect(route.url))
        out = await opened.enter_async_context(bus.publisher(route.topic, name=name, linger=route.linger))
        return _ThinSender(opened, out, everything=route.emit == "all")

    async def receiver(self, route: Route, name: str) -> Receiver:
        opened = AsyncExitStack()
        bus = await opened.enter_async_context(tw.connect(route.url))
        asked = bus.subscribe(route.topic, default_tolerance=route.tolerance, emit=route.emit)
        return _ThinReceiver(opened, await opened.enter_async_context(asked))

    async def stored(self, route: Route) -> int:
        from thinwire.brokers.nats.broker import connect

        broker = await connect(route.url)
        try:
            return (await broker.span(log_of(route.topic))).stored_bytes
        finally:
            await broker.close()


class _ThinSender:
    def __init__(self, opened: AsyncExitStack, out: TopicPublisher, everything: bool) -> None:
        self._opened = opened
        self._out = out
        self._everything = everything

    @property
    def sent(self) -> int:
        return self._out.counts.events - self._out.link.suppressed_events

    @property
    def told(self) -> int:
        return self._out.counts.events if self._everything else self.sent

    async def publish(self, events: Sequence[dict[str, Any]]) -> None:
        await self._out.publish_all(events)

    async def flush(self) -> None:
        await self._out.flush()

    async def close(self) -> None:
        await self._opened.aclose()


class _ThinReceiver:
    def __init__(self, opened: AsyncExitStack, subscription: Subscription) -> None:
        self._opened = opened
        self._subscription = subscription
        self._batches: AsyncIterator[list[Event]] = subscription.batches()

    @property
    def taken(self) -> int:
        return sum(counts.events for counts in self._subscription.counts.values())

    @property
    def missed(self) -> int:
        return sum(isinstance(notice, Missed) for notice in self._subscription.notices)

    @property
    def feed(self) -> str:
        return self._subscription.feed

    async def next(self) -> list[Event]:
        return await anext(self._batches)

    def sent(self, events: Sequence[Any]) -> Sequence[Any]:
        return [event for event in events if not event.virtual]

    async def close(self) -> None:
        await self._opened.aclose()
