"""Stacks: the ways to bring events from publishers to subscribers that are compared, over the same broker and client.

Generating, pacing, measuring and counting events are the same for all stacks; only sending and receiving differ.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Any, Literal, Protocol, cast

import thinwire as tw
from thinwire import Publisher, Subscription
from thinwire.brokers.protocol import Broker
from thinwire.codec import EventsMissed
from thinwire.errors import ConfigError
from thinwire.schema import Event, Schema
from thinwire.topics.names import log_of


@dataclass(frozen=True)
class Route:
    """The broker, topic and settings of a stack, as plain values that can be passed to a process.

    schema: as a document; tolerance: of the measurements, for stacks that support it
    linger: seconds for which a batch is open; emit: "all" events, or "changes", which are those that were sent
    format: of frames; dictionaries: whether frames are packed with dictionaries
    """

    url: str
    schema: Mapping[str, Any]
    linger: float = 0.05
    tolerance: float = 0.5
    emit: Literal["all", "changes"] = "all"
    format: Literal["compact", "json"] = "compact"
    dictionaries: bool = False

    @property
    def topic(self) -> str:
        return str(self.schema["name"])

    def to_document(self) -> dict[str, Any]:
        return asdict(self)


class StackSender(Protocol):
    """The publishing end of a stack."""

    @property
    def sent(self) -> int:
        """The number of published events that were sent."""

    @property
    def delivered_events(self) -> int:
        """The number of published events that reach a subscriber."""

    async def publish(self, events: Sequence[dict[str, Any]]) -> None:
        """Publish events that are due."""

    async def flush(self) -> None:
        """Wait until the broker has stored everything."""

    async def close(self) -> None: ...


class StackReceiver(Protocol):
    """The subscribing end of a stack."""

    @property
    def delivered(self) -> int:
        """The number of received events, including those left out because they show no change."""

    @property
    def missed(self) -> int:
        """The number of events reported as lost."""

    @property
    def feed(self) -> str:
        """What is read: the "log" of the publishers or a "channel"."""

    async def next(self) -> Sequence[Mapping[str, Any]]:
        """Return the events that arrive next together."""

    def sent(self, events: Sequence[Any]) -> Sequence[Any]:
        """Return those of the events that were sent, not predicted."""

    async def close(self) -> None: ...


class Stack(Protocol):
    """A way to bring events from publishers to subscribers; each end has its own connection."""

    async def prepare(self, route: Route) -> None:
        """Create what the broker needs before the first connection."""

    async def sender(self, route: Route, name: str) -> StackSender: ...

    async def receiver(self, route: Route, name: str) -> StackReceiver: ...

    async def stored(self, route: Route) -> int:
        """Return the bytes that the broker stores for the topic."""


STACKS = {
    "thinwire": "thinwire_lab.live.stacks:ThinwireStack",
    "json": "thinwire_lab.live.json_stack:JsonEvents",
    "json-batched": "thinwire_lab.live.json_stack:JsonBatches",
}
"""name -> `module:class`"""


def stack(name: str) -> Stack:
    """Return the stack of this name."""
    if name not in STACKS:
        raise ConfigError("no such stack", stack=name, choose_from=sorted(STACKS))
    module, _, kind = STACKS[name].partition(":")
    return cast(Stack, getattr(import_module(module), kind)())


def route_to(url: str, schema: Schema, **settings: Any) -> Route:
    """Return a route for events of a schema."""
    return Route(url, schema.to_document(), **settings)


async def connect_broker(route: Route) -> Broker:
    from thinwire.brokers.nats.broker import connect

    return await connect(route.url)


async def stored_bytes(route: Route, log: str) -> int:
    """Return the bytes that the broker stores for a log."""
    broker = await connect_broker(route)
    try:
        return (await broker.span(log)).stored_bytes
    finally:
        await broker.close()


class ThinwireStack:
    """The client of thinwire on a registered topic."""

    async def prepare(self, route: Route) -> None:
        async with tw.connect(route.url) as bus:
            mode = "hold" if route.emit == "changes" else "predict"
            schema = Schema.from_document(route.schema)
            await bus.register(schema, mode=mode, format=route.format, dictionaries=route.dictionaries)

    async def sender(self, route: Route, name: str) -> StackSender:
        resources = AsyncExitStack()
        bus = await resources.enter_async_context(tw.connect(route.url))
        publisher = await resources.enter_async_context(bus.publisher(route.topic, name=name, linger=route.linger))
        return _ThinwireSender(resources, publisher, delivers_all=route.emit == "all")

    async def receiver(self, route: Route, name: str) -> StackReceiver:
        resources = AsyncExitStack()
        bus = await resources.enter_async_context(tw.connect(route.url))
        subscribed = bus.subscribe(route.topic, default_tolerance=route.tolerance, emit=route.emit)
        return _ThinwireReceiver(resources, await resources.enter_async_context(subscribed))

    async def stored(self, route: Route) -> int:
        return await stored_bytes(route, log_of(route.topic))


class _ThinwireSender:
    def __init__(self, resources: AsyncExitStack, publisher: Publisher, delivers_all: bool) -> None:
        self._resources = resources
        self._publisher = publisher
        self._delivers_all = delivers_all

    @property
    def sent(self) -> int:
        return self._publisher.counts.events - self._publisher.encoder.suppressed_events

    @property
    def delivered_events(self) -> int:
        return self._publisher.counts.events if self._delivers_all else self.sent

    async def publish(self, events: Sequence[dict[str, Any]]) -> None:
        await self._publisher.publish_all(events)

    async def flush(self) -> None:
        await self._publisher.flush()

    async def close(self) -> None:
        await self._resources.aclose()


class _ThinwireReceiver:
    def __init__(self, resources: AsyncExitStack, subscription: Subscription) -> None:
        self._resources = resources
        self._subscription = subscription
        self._batches: AsyncIterator[list[Event]] = subscription.batches()

    @property
    def delivered(self) -> int:
        return sum(counts.events for counts in self._subscription.counts.values())

    @property
    def missed(self) -> int:
        return sum(isinstance(notice, EventsMissed) for notice in self._subscription.notices)

    @property
    def feed(self) -> str:
        return self._subscription.feed

    async def next(self) -> list[Event]:
        return await anext(self._batches)

    def sent(self, events: Sequence[Any]) -> Sequence[Any]:
        return [event for event in events if not event.virtual]

    async def close(self) -> None:
        await self._resources.aclose()
