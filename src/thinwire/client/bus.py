"""The bus: a connection to a broker, and the publishers, subscriptions and watches on it."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any, Literal, TypeVar

from thinwire.brokers.broker_url import open_broker, read_url
from thinwire.brokers.protocol import Broker, Bucket
from thinwire.client.consumer import OnNotice
from thinwire.client.local_services import SERVICES, run_service
from thinwire.client.publisher import MAX_PENDING, Publisher
from thinwire.client.subscription import Subscription
from thinwire.client.subscription_request import Start, make_request
from thinwire.client.watch import CURSOR, Watch
from thinwire.client.watch_reader import make_options
from thinwire.clock import Clock, WallClock
from thinwire.codec import Demand, StreamConfig
from thinwire.codec.tolerance_vector import Tolerance
from thinwire.errors import ThinwireError, TransportClosed
from thinwire.filters.composite.feed_sequencer import LatePolicy
from thinwire.schema import Schema
from thinwire.topics.names import CURSORS, REGISTRY, WATCHES, check_name_token, check_topic
from thinwire.topics.registry_client import register_schema, remove_subscription
from thinwire.topics.topic_documents import TopicDocument
from thinwire.topics.topic_metadata import TopicMetadata, is_registry_running
from thinwire.topics.topic_settings import Settings
from thinwire.topics.watches.watch_documents import watcher_key

Part = TypeVar("Part", Publisher, Subscription, Watch)


def connect(url: str, *, name: str = "", services: bool = True, clock: Clock | None = None, **options: Any) -> Bus:
    """Return a bus for the broker at a URL; use it with `async with`.

    url: `nats://host:4222` or `tls://...` (several servers separated by commas), `embedded://` (starts a nats-server;
        `embedded:///folder` stores its data in a folder), `memory://name` (in this process)
    name: of the client; the default name of its publishers
    services: run all services in this process, for `embedded://` and `memory://`
    options: of the connection: `token`, `user`, `password`, `credentials`, `nkey`, `ca`, `certificate`,
        `key`, `hostname`, `connect_timeout`, `timeout`

    >>> import asyncio
    >>> from thinwire import Property, Schema
    >>> rooms = Schema("rooms", [Property("room", "string", "dimension"), Property("t", "number", step="0.1")])
    >>> async def example():
    ...     async with connect("memory://example") as bus:
    ...         await bus.register(rooms)
    ...         async with bus.subscribe("rooms", tolerance={"t": 0.5}) as events, bus.publisher("rooms") as out:
    ...             await out.publish({"room": "11.1", "t": 20.5})
    ...             return await anext(events)
    >>> event = asyncio.run(example())
    >>> event["t"], event.bound["t"], event.virtual
    (20.5, 0.5, False)
    """
    return Bus(url, name=name, services=services, clock=clock or WallClock(), options=options)


class Bus:
    """A connection to a broker, which creates publishers, subscriptions and watches. Created by `connect`.

    Closing it closes the publishers, subscriptions and watches on it, last one first.
    """

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
        self._names = 0

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._address.shown!r}, name={self.name!r})"

    async def __aenter__(self) -> Bus:
        try:
            self._broker, own = await open_broker(self._address, self._options, self._stack)
            if own is not None and self.services:
                for name in SERVICES:
                    await run_service(name, own, self.clock, self._stack)
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
        """Close everything that is open, then the connection. Publishers store their pending frames first."""
        problems: list[ThinwireError] = []
        for part in reversed(self._parts):
            try:
                await (part.close() if isinstance(part, Publisher) else part.close(failed=failed))
            except ThinwireError as problem:  # the others are closed nevertheless
                problems.append(problem)
        self._parts.clear()
        self._broker = None
        await self._stack.aclose()
        if problems:
            raise problems[0]

    async def served(self) -> bool:
        """Report whether a registry answers. Without one, publishers and subscriptions use the log directly."""
        return await is_registry_running(self.broker)

    async def register(self, schema: Schema, **settings: Any) -> TopicDocument:
        """Register a topic under the name of its schema, or a new version of the schema.

        settings: `retain` (store events without subscriptions as well), `format` ("compact" or "json"), `predictor`,
        `max_silence`, `key_frame_interval`, `audit_every`, `late_policy`, `dictionaries` (compress with trained
        dictionaries)
        """
        check_topic(schema.name)
        return await register_schema(self._registry, schema, Settings(**settings) if settings else None)

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
        """Return a publisher of a topic; use it with `async with`.

        name: unique among the publishers of the topic; a restarted publisher uses the same name
        schema: of a topic that is not registered; it is registered if a registry runs. A topic without a schema takes
            bytes: `await out.publish(b"...")`
        tolerance, default_tolerance, config: used while there is no registry
        linger, max_batch, max_pending, recover, dictionaries: see `Publisher`
        """
        demand = Demand(tolerance=dict(tolerance or {}), default_tolerance=default_tolerance)
        part = Publisher(
            partial(self._open_topic, topic, schema, register=True, dictionaries=bool(dictionaries)),
            self.broker,
            self.clock,
            check_topic(topic),
            config or StreamConfig(version=0, demand=demand),
            name=check_name_token(name or self._next_name(), "name"),
            linger=linger,
            max_batch=max_batch,
            max_pending=max_pending,
            recover=recover,
            dictionaries=dictionaries,
        )
        return self._add(part)

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
        """Subscribe to a topic: `async for event in bus.subscribe(...)`.

        tolerance: maximum difference from the true value, by property; `default_tolerance` for other measurements
        properties: the properties to deliver, all by default; dimensions and the time are always delivered
        sources: values of dimensions, `{"sensor": "T1"}` or `{"sensor": ["T1", "T2"]}`
        where: a predicate such as "price between 10 and 20 and region = 'EU'"; its properties are exact
        emit: "all" events, or "changes": only events in which a value differs by more than its tolerance from the event
            delivered last
        cadence: "event", or "tick": every `tick` seconds also the predicted events of silent sources, without a bound
        durable: a name under which the position is stored; the subscription continues after the last acknowledged event
        start: of a new subscription: "latest", "earliest", an offset of the log, or a datetime
        exact: True, or the names of properties without tolerance
        schema: of a topic that is not registered; of a registered one, the version that events are converted to. Events
            of a topic without a schema are bytes: `event["payload"]`
        ack_every: seconds between two writes of the cursor
        limit: messages that are fetched ahead
        on_notice: called for each notice: `EventsMissed`, `BoundExceeded`, `ClockSkew`, `MessageUnreadable`,
            `BrokerUnreachable`, `NoTranslator`, `Audit`, `Watermark`
        """
        request = make_request(
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
        part = Subscription(
            partial(self._open_topic, topic, schema),
            self.broker,
            self.clock,
            check_topic(topic),
            request,
            identity=durable or f"s{secrets.token_hex(6)}",
            reader_schema=schema,
            ack_every=ack_every,
            limit=limit,
            on_notice=on_notice,
        )
        return self._add(part)

    def watch(
        self,
        expression: str,
        *,
        durable: str | None = None,
        max_delay: float = 1.0,
        late_policy: LatePolicy = "apply",
        start: Literal["latest", "earliest"] | datetime = "latest",
        ack_every: float = 0.2,
        limit: int = 256,
        on_notice: OnNotice | None = None,
    ) -> Watch:
        """Watch a condition over several registered topics: `async for hit in bus.watch("...")`.

        A watch service evaluates it. Without one, opening the watch raises ServiceUnavailable.

        expression: `topic[source].property +- threshold`, combined with `and`, `or` and parentheses
        durable: a name under which the position is stored
        max_delay: seconds that an event waits for earlier events of other publishers; `math.inf` to wait for the
            watermark of every publisher, which is sent at least every `max_silence` seconds
        late_policy: "apply" events that are later, with the flag `late`, or "drop" them
        start: of a new watch: "latest", "earliest", or a datetime
        ack_every, limit: as in `subscribe`; limit counts records of the watch's log
        on_notice: called for each notice: `EventsMissed`, `BoundExceeded`, `MessageUnreadable`, `PublisherLost`,
            `BrokerUnreachable`
        """
        part = Watch(
            self.broker,
            self.clock,
            expression,
            make_options(max_delay, late_policy, start),
            identity=check_name_token(durable, "durable") if durable is not None else f"h{secrets.token_hex(6)}",
            durable=durable,
            ack_every=ack_every,
            limit=limit,
            on_notice=on_notice,
        )
        return self._add(part)

    async def forget_watch(self, durable: str) -> None:
        """Remove a durable watch and its position."""
        bucket = await self.broker.bucket(WATCHES)
        for entry in await bucket.entries(watcher_key("*", check_name_token(durable, "durable"))):
            await bucket.delete(entry.key)
        await (await self.broker.bucket(CURSORS)).delete(f"{CURSOR}.{durable}")

    async def forget(self, topic: str, durable: str) -> None:
        """Remove a durable subscription and its position."""
        await remove_subscription(self._registry, check_topic(topic), check_name_token(durable, "durable"))
        await (await self.broker.bucket(CURSORS)).delete(f"{topic}.{durable}")

    async def _open_topic(self, name: str, schema: Schema | None, **options: bool) -> TopicMetadata:
        return await TopicMetadata.open(self.broker, self._registry, name, schema, **options)

    @property
    def _registry(self) -> Bucket:
        if self._bucket is None:
            raise TransportClosed("this bus is not open: use `async with connect(...)`")
        return self._bucket

    def _add(self, part: Part) -> Part:
        self._parts.append(part)
        return part

    def _next_name(self) -> str:
        self._names += 1
        return self.name if self._names == 1 else f"{self.name}-{self._names}"
