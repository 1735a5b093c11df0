"""What is compared: ways to bring events from publishers to subscribers, all over the same broker and client library.

Making events, pacing, measuring and counting are the same for all of them; only sending and receiving differ.

Ours: thinwire's own client, as a user has it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Any, Literal, Protocol, cast

import thinwire as tw
from thinwire.client import Publisher, Subscription
from thinwire.codec import EventsMissed
from thinwire.errors import ConfigError
from thinwire.schema import Event, Schema
from thinwire.topics.names import log_of


@dataclass(frozen=True)
class Route:
    """Where events go, and how; plain values, so that a process can be told.

    schema: as a document; tolerance: of the measurements, where the stack knows such a thing
    linger: seconds for which a batch waits for more; emit: "all" events, or "changes", those that were sent
    format: of frames; dictionaries: whether they are packed with what messages share
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
    """A publisher's end."""

    @property
    def sent(self) -> int:
        """Events that travelled, of those published so far."""

    @property
    def delivered_events(self) -> int:
        """Events that reach a subscriber of those published so far."""

    async def publish(self, events: Sequence[dict[str, Any]]) -> None:
        """Take events that are due."""

    async def flush(self) -> None:
        """Return when everything is stored at the broker."""

    async def close(self) -> None: ...


class StackReceiver(Protocol):
    """A subscriber's end."""

    @property
    def taken(self) -> int:
        """Events that came so far, those left out because they showed no change included."""

    @property
    def missed(self) -> int:
        """Events that are known to be lost."""

    @property
    def feed(self) -> str:
        """What it reads: the "log" that publishers write, or a "channel"."""

    async def next(self) -> Sequence[Mapping[str, Any]]:
        """The events that came next, as many as came together."""

    def sent(self, events: Sequence[Any]) -> Sequence[Any]:
        """Those of them that travelled: the others were known to be so by silence."""

    async def close(self) -> None: ...


class Stack(Protocol):
    """One way to do it: a connection for each end."""

    async def prepare(self, route: Route) -> None:
        """What has to be at the broker before anybody connects."""

    async def sender(self, route: Route, name: str) -> StackSender: ...

    async def receiver(self, route: Route, name: str) -> StackReceiver: ...

    async def stored(self, route: Route) -> int:
        """Bytes the broker keeps of the topic."""


STACKS = {
    "thinwire": "thinwire_lab.live.stacks:Thin",
    "json": "thinwire_lab.live.json_stack:JsonEvents",
    "json-batched": "thinwire_lab.live.json_stack:JsonBatches",
}
"""name -> where it is written, `module:class`"""


def stack(name: str) -> Stack:
    """The stack of this name."""
    if name not in STACKS:
        raise ConfigError("no such stack", stack=name, choose_from=sorted(STACKS))
    module, _, kind = STACKS[name].partition(":")
    return cast(Stack, getattr(import_module(module), kind)())


def route_to(url: str, schema: Schema, **settings: Any) -> Route:
    """A route for events of a schema."""
    return Route(url, schema.to_document(), **settings)


class Thin:
    """Publishers and subscribers on a registered topic."""

    async def prepare(self, route: Route) -> None:
        async with tw.connect(route.url) as bus:
            mode = "hold" if route.emit == "changes" else "predict"
            schema = Schema.from_document(route.schema)
            await bus.register(schema, mode=mode, format=route.format, dictionaries=route.dictionaries)

    async def sender(self, route: Route, name: str) -> StackSender:
        opened = AsyncExitStack()
        bus = await opened.enter_async_context(tw.connect(route.url))
        out = await opened.enter_async_context(bus.publisher(route.topic, name=name, linger=route.linger))
        return _ThinSender(opened, out, everything=route.emit == "all")

    async def receiver(self, route: Route, name: str) -> StackReceiver:
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
    def __init__(self, opened: AsyncExitStack, out: Publisher, everything: bool) -> None:
        self._opened = opened
        self._out = out
        self._everything = everything

    @property
    def sent(self) -> int:
        return self._out.counts.events - self._out.encoder.suppressed_events

    @property
    def delivered_events(self) -> int:
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
        return sum(isinstance(notice, EventsMissed) for notice in self._subscription.notices)

    @property
    def feed(self) -> str:
        return self._subscription.feed

    async def next(self) -> list[Event]:
        return await anext(self._batches)

    def sent(self, events: Sequence[Any]) -> Sequence[Any]:
        return [event for event in events if not event.virtual]

    async def close(self) -> None:
        await self._opened.aclose()
