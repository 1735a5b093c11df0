"""The bus: what users connect to, publish on and subscribe to.

A connection to a broker from its opening to its end, with the publishers, subscriptions and watches made on it.

What there is of a topic, looked up when a publisher or subscription opens; a publisher may make a new one known.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from thinwire.brokers.broker_url import read_url
from thinwire.brokers.protocol import Broker, Bucket
from thinwire.client.event_rejection import carries_payloads
from thinwire.client.local_services import open_broker, run_services
from thinwire.client.publisher import MAX_PENDING, Publisher
from thinwire.client.served_watch import CURSOR, forget_watcher, watch_options
from thinwire.client.subscription import OnNotice, Subscription
from thinwire.client.subscription_request import Start, asked
from thinwire.client.watch import Watch
from thinwire.clock import Clock, WallClock
from thinwire.codec import Demand, StreamConfig
from thinwire.codec.demand import Tolerance
from thinwire.errors import NobodyAnswers, ThinwireError, TransportClosed, UnknownTopic
from thinwire.filters.composite.feed_sequencer import LatePolicy
from thinwire.schema import Schema, opaque
from thinwire.topics.names import CURSORS, REGISTRY, WATCHES, check_name_token, check_topic
from thinwire.topics.registry_client import ping, register_schema, remove_subscription, topic_document
from thinwire.topics.topic import TopicMetadata
from thinwire.topics.topic_documents import TopicDocument
from thinwire.topics.topic_settings import Settings

Part = TypeVar("Part", Publisher, Subscription, Watch)


class Connection:
    """Opened and closed with `async with`; what was made on it is closed with it, the latest first."""

    def __init__(self, url: str, *, name: str, services: bool, clock: Clock, options: Mapping[str, Any]) -> None:
        self.name = check_name_token(name or f"c{secrets.token_hex(4)}", "name")
        self.services = services
        self.clock = clock
        self._address = read_url(url)
        self._options = {"name": self.name, **options}
        self._stack = AsyncExitStack()
        self._broker: Broker | None = None
        self._bucket: Bucket | None = None
        self._parts: list[Publisher | Subscription | Watch] = []
        self._made = 0

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._address.shown!r}, name={self.name!r})"

    async def __aenter__(self) -> Self:
        try:
            self._broker, own = await open_broker(self._address, self._options, self._stack)
            if own is not None and self.services:
                await run_services(own, self.clock, self._stack)
            self._bucket = await self._broker.bucket(REGISTRY)
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close(failed=kind is not None)

    @property
    def broker(self) -> Broker:
        """The connection to the broker."""
        if self._broker is None:
            raise TransportClosed("this bus is not open: use `async with connect(...)`")
        return self._broker

    async def close(self, *, failed: bool = False) -> None:
        """End what is still open, publishers after storing what they have, and leave the broker."""
        problems: list[ThinwireError] = []
        for part in reversed(self._parts):
            try:
                await (part.close() if isinstance(part, Publisher) else part.close(failed=failed))
            except ThinwireError as problem:  # the others must be closed all the same
                problems.append(problem)
        self._parts.clear()
        self._broker = None
        await self._stack.aclose()
        if problems:
            raise problems[0]

    @property
    def _registry(self) -> Bucket:
        if self._bucket is None:
            raise TransportClosed("this bus is not open: use `async with connect(...)`")
        return self._bucket

    def _keep(self, part: Part) -> Part:
        """It is closed with the connection."""
        self._parts.append(part)
        return part

    def _fresh_name(self) -> str:
        self._made += 1
        return self.name if self._made == 1 else f"{self.name}-{self._made}"


class TopicFinder:
    """Finds topics at a broker, and registers them there."""

    def __init__(self, broker: Broker, registry: Bucket) -> None:
        self._broker = broker
        self._registry = registry

    async def served(self) -> bool:
        """Does a registry answer?"""
        try:
            await ping(self._broker)
        except NobodyAnswers:
            return False
        return True

    async def register(self, schema: Schema, **settings: Any) -> TopicDocument:
        """Make a topic known, or a new version of its schema."""
        check_topic(schema.name)
        return await register_schema(self._registry, schema, Settings(**settings) if settings else None)

    async def find(
        self, name: str, schema: Schema | None, *, register: bool, dictionaries: bool = False
    ) -> TopicMetadata:
        """What there is of a topic; a new one may be registered, with dictionaries where its publisher wants them."""
        fresh = await topic_document(self._registry, check_topic(name)) is None
        settings = {"dictionaries": True} if fresh and dictionaries else {}
        if schema is None and fresh:
            return await self._find_payloads(name, register=register, **settings)
        if register and schema is not None and await self.served():
            await self.register(schema, **settings)
        return await TopicMetadata.find(self._broker, self._registry, name, schema)

    async def _find_payloads(self, name: str, *, register: bool, **settings: Any) -> TopicMetadata:
        """A topic without a schema: what nobody was there to take is kept in the log all the same, for no state tells
        of it later."""
        if not register and not await carries_payloads(self._broker, name):
            raise UnknownTopic(topic=name)
        if register and await self.served():
            await self.register(opaque(name), retain=True, **settings)
        return await TopicMetadata.find(self._broker, self._registry, name, opaque(name))


def connect(url: str, *, name: str = "", services: bool = True, clock: Clock | None = None, **options: Any) -> Bus:
    """A bus on the broker at this URL; use it with `async with`.

    url: `nats://host:4222` or `tls://...` (several servers joined by commas), `embedded://` (starts a real nats-server
        here, `embedded:///folder` keeps its data there), `memory://name` (in this process)
    name: who connects; the default name of publishers
    services: run a registry and a translator in this process, for a broker that is started here or in memory
    options: passed on to the connection: `token`, `user`, `password`, `credentials`, `nkey`, `ca`, `certificate`,
        `key`, `hostname`, `connect_timeout`; `limits`, such as "up=56kbit,delay=150ms", narrows the line to the broker

    >>> import asyncio
    >>> from thinwire import Property, Schema
    >>> rooms = Schema("rooms", [Property("room", "string", "dimension"), Property("t", "number", step="0.1")])
    >>> async def story():
    ...     async with connect("memory://story") as bus:
    ...         await bus.register(rooms)
    ...         async with bus.subscribe("rooms", tolerance={"t": 0.5}) as events, bus.publisher("rooms") as out:
    ...             await out.publish({"room": "11.1", "t": 20.5})
    ...             return await anext(events)
    >>> event = asyncio.run(story())
    >>> event["t"], event.bound["t"], event.virtual
    (20.5, 0.5, False)
    """
    return Bus(url, name=name, services=services, clock=clock or WallClock(), options=options)


class Bus(Connection):
    """A connection with everything on it. Made by `connect`."""

    async def served(self) -> bool:
        """Does a registry answer? Without one the bus works directly on the log."""
        return await self._topics.served()

    async def register(self, schema: Schema, **settings: Any) -> TopicDocument:
        """Make a topic known under the schema's name, or a new version of its schema.

        settings: `retain` (keep publishing and storing while nobody subscribes), `format` ("compact" or "json"),
        `predictor`, `max_silence`, `key_frame_interval`, `audit_every`, `late_policy`, `dictionaries` (have publishers
        pack with what messages share, where that pays)
        """
        return await self._topics.register(schema, **settings)

    def publisher(
        self,
        topic: str,
        *,
        name: str = "",
        schema: Schema | None = None,
        tolerance: Mapping[str, Tolerance] | None = None,
        default_tolerance: float = 0,
        config: StreamConfig | None = None,
        linger: float = 0.005,
        max_batch: int = 65_536,
        max_pending: int = MAX_PENDING,
        recover: bool = False,
        dictionaries: bool | None = None,
    ) -> Publisher:
        """A publisher of a topic; use it with `async with`.

        name: its own among the publishers of the topic; a restarted one comes back under the same name
        schema: of a topic that is not registered; with a registry running, it is registered. Without one, a topic that
            nobody has registered takes bytes, whatever they mean: `await out.publish(b"...")`
        tolerance, default_tolerance, config: how far off values may be, where no registry decides
        linger, max_batch, max_pending, recover, dictionaries: see `Publisher`
        """
        demand = Demand(tolerance=dict(tolerance or {}), default_tolerance=default_tolerance)
        made = Publisher(
            lambda: self._topics.find(topic, schema, register=True, dictionaries=bool(dictionaries)),
            self.broker,
            self.clock,
            check_topic(topic),
            config or StreamConfig(version=0, demand=demand),
            name=check_name_token(name or self._fresh_name(), "name"),
            linger=linger,
            max_batch=max_batch,
            max_pending=max_pending,
            recover=recover,
            dictionaries=dictionaries,
        )
        return self._keep(made)

    def subscribe(
        self,
        topic: str,
        *,
        tolerance: Mapping[str, Tolerance] | None = None,
        default_tolerance: float = 0,
        properties: Sequence[str] | None = None,
        sources: Mapping[str, Any] | None = None,
        where: str | None = None,
        emit: Literal["all", "changes"] = "all",
        cadence: Literal["event", "tick"] = "event",
        tick: float = 1.0,
        durable: str | None = None,
        start: Start = "latest",
        exact: bool | Sequence[str] = False,
        schema: Schema | None = None,
        ack_every: float = 0.2,
        limit: int = 256,
        on_notice: OnNotice | None = None,
    ) -> Subscription:
        """The events of a topic: `async for event in bus.subscribe(...)`.

        tolerance: per property, how far a value may be from the truth; `default_tolerance` for the other measurements
        properties: the ones to deliver, all by default; dimensions and the time always come
        sources: values of dimensions, `{"sensor": "T1"}` or `{"sensor": ["T1", "T2"]}`
        where: only events that match, such as "price between 10 and 20 and region = 'EU'"; what it names is exact
        emit: "all" events, or "changes": only those in which a value moved by more than its tolerance
        cadence: "event" as they come, or "tick": every `tick` seconds also what is expected of silent sources, as
            provisional events without a bound
        durable: go on under this name after the last event worked off
        start: where a new subscription begins: "latest", "earliest", an offset of the log, or a datetime
        exact: True, or names of properties that must arrive as they were sent
        schema: of a topic that is not registered; of a registered one, the version to read it as. The events of a
            topic without one are bytes: `event["payload"]`
        ack_every: seconds between two notes of what a durable one has worked off, at most
        limit: messages read ahead, at most
        on_notice: called with what is told beside events: `EventsMissed`, `BoundExceeded`, `ClockSkew`,
        `MessageUnreadable`, `NoTranslator`,
            `Audit`, `Watermark`
        """
        wanted = asked(
            tolerance=tolerance,
            default_tolerance=default_tolerance,
            properties=properties,
            sources=sources,
            where=where,
            emit=emit,
            cadence=cadence,
            tick=tick,
            durable=check_name_token(durable, "durable") if durable is not None else None,
            start=start,
            exact=exact,
        )
        made = Subscription(
            lambda: self._topics.find(topic, schema, register=False),
            self.broker,
            self.clock,
            check_topic(topic),
            wanted,
            identity=durable or f"s{secrets.token_hex(6)}",
            reader_schema=schema,
            ack_every=ack_every,
            limit=limit,
            on_notice=on_notice,
        )
        return self._keep(made)

    def watch(
        self,
        expression: str,
        *,
        durable: str | None = None,
        max_delay: float = 1.0,
        late_policy: LatePolicy = "apply",
        start: Literal["latest", "earliest"] | datetime = "latest",
        schemas: Sequence[Schema] = (),
        ack_every: float = 0.2,
        limit: int = 256,
        on_notice: OnNotice | None = None,
    ) -> Watch:
        """Be told when quantities of several topics have moved: `async for hit in bus.watch("...")`.

        expression: `topic[source].property +- threshold`, joined by `and`, `or` and parentheses
        durable: go on under this name after the last notification worked off; needs the watch service
        max_delay: seconds that an event waits for others that happened before it; `math.inf` to wait for the word of
            every publisher that nothing is missing, which comes at least every `max_silence` of a topic
        late_policy: "apply" what comes later than that, flagged `late`, or "drop" it
        start: where a watch begins that is new: "latest", "earliest", or a datetime
        schemas: of topics that are not registered; such a watch is evaluated in this process
        ack_every, limit: as in `subscribe`; limit counts records of the watch's log
        on_notice: called with what is told beside notifications: `EventsMissed`, `BoundExceeded`, `MessageUnreadable`,
        `PublisherLost`, `NoTranslator`
        """
        made = Watch(
            self.broker,
            self.clock,
            expression,
            watch_options(max_delay, late_policy, start),
            identity=check_name_token(durable, "durable") if durable is not None else f"h{secrets.token_hex(6)}",
            durable=durable,
            schemas=schemas,
            ack_every=ack_every,
            limit=limit,
            on_notice=on_notice,
        )
        return self._keep(made)

    async def forget_watch(self, durable: str) -> None:
        """End a durable watch for good: nobody evaluates it for this name any more, and its place is lost."""
        await forget_watcher(await self.broker.bucket(WATCHES), check_name_token(durable, "durable"))
        await (await self.broker.bucket(CURSORS)).delete(f"{CURSOR}.{durable}")

    async def forget(self, topic: str, durable: str) -> None:
        """End a durable subscription for good: nobody is asked for it any more, and its place is lost."""
        await remove_subscription(self._registry, check_topic(topic), check_name_token(durable, "durable"))
        await (await self.broker.bucket(CURSORS)).delete(f"{topic}.{durable}")

    @property
    def _topics(self) -> TopicFinder:
        return TopicFinder(self.broker, self._registry)
