"""`NatsBroker` implements `thinwire.brokers.protocol.Broker` with JetStream streams and key-value buckets."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any, Self

from thinwire.brokers.broker_url import Address, OpenedBroker
from thinwire.brokers.nats.appender import JetStreamAppender
from thinwire.brokers.nats.asyncio_socket import log as logger
from thinwire.brokers.nats.bucket import NatsBucket
from thinwire.brokers.nats.connection import NatsConnection
from thinwire.brokers.nats.jetstream_api import NoReply, NoResponders
from thinwire.brokers.nats.log_reader import NatsReader, make_stored_message
from thinwire.brokers.nats.options import NatsOptions, read_options, read_servers
from thinwire.brokers.nats.streams import JetStreamStore
from thinwire.brokers.protocol import ANY, Handler, StoredMessage
from thinwire.brokers.subjects import check_pattern, check_subject
from thinwire.errors import BrokerUnavailable, ConfigError, ServiceUnavailable

LISTENER_QUEUE = 4096
"""unstored messages that may wait for a handler; further messages are dropped"""
_MAX_UNACKNOWLEDGED = 65_536


async def connect(servers: str | Sequence[str], options: NatsOptions | None = None) -> NatsBroker:
    """Connect to a NATS server with JetStream, or to one of several.

    servers: nats://host:4222 or tls://host:4222, with user:password@ or token@ before the host if needed;
    several separated by commas
    """
    addresses, settings = read_servers(servers, options or NatsOptions())
    connection = NatsConnection(addresses, settings)
    await connection.open()
    try:
        await connection.check_jetstream(settings.connect_timeout)
    except BaseException:
        await connection.close()
        raise
    return NatsBroker(connection)


async def open_nats(address: Address, options: Mapping[str, Any], stack: AsyncExitStack) -> OpenedBroker:
    """Factory of `nats://` and `tls://` URLs. The options are the fields of `NatsOptions` and `Tls`."""
    broker = await connect(address.url, read_options(options))
    stack.push_async_callback(broker.close)
    return OpenedBroker(broker)


class NatsListener:
    """Subscription to unstored messages. The handler is called for one message at a time."""

    def __init__(self, connection: NatsConnection, pattern: str, handler: Handler) -> None:
        check_pattern(pattern)
        self._connection, self._pattern, self._handler = connection, pattern, handler
        self._messages: asyncio.Queue[tuple[str, str, bytes]] = asyncio.Queue(LISTENER_QUEUE)
        self._sid = 0
        self._closed = False
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Subscribe, and wait until the server has processed the subscription."""
        await self._connection.wait_connected(self._connection.deadline())
        self._task = asyncio.create_task(self._run())
        self._connection.on_close[self.close] = None
        self._sid = self._connection.subscribe(self._pattern, self._on_message)
        await self._connection.round_trip()

    async def close(self) -> None:
        """Unsubscribe. Afterwards a request to the subject fails at once."""
        self._connection.on_close.pop(self.close, None)
        self._connection.unsubscribe(self._sid)
        if self._connection.connected and not self._connection.closing:
            with suppress(BrokerUnavailable):
                await self._connection.round_trip()
        self._closed = True
        if self._task is not None and self._task is not asyncio.current_task():  # a handler may close its listener
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _on_message(self, subject: bytes, reply: bytes, payload: bytes, headers: bytes | None) -> None:
        try:
            self._messages.put_nowait((subject.decode(), reply.decode(), payload))
        except asyncio.QueueFull:
            logger.warning("slow consumer on %s: message dropped", self._pattern)

    async def _run(self) -> None:
        while not self._closed:
            subject, reply, payload = await self._messages.get()
            try:
                result = await self._handler(subject, payload)
                if result is not None and reply and self._connection.connected:
                    self._connection.publish(reply, result)
            except Exception:
                logger.exception("handler of %s failed for a message on %s", self._pattern, subject)


class NatsBroker(JetStreamStore):
    """One client's connection to a NATS server, opened by `connect`. The base class has the queries on logs."""

    def __init__(self, connection: NatsConnection) -> None:
        super().__init__(connection)
        self._connection: NatsConnection = connection
        self._appender = JetStreamAppender(connection, self)

    @property
    def max_payload(self) -> int:
        return self._connection.max_payload

    @property
    def url(self) -> str:
        return self._connection.url

    @property
    def connected(self) -> bool:
        return self._connection.connected

    async def append(
        self,
        log: str,
        subject: str,
        payload: bytes,
        *,
        expected_last: int = ANY,
        last_pattern: str = "",
        timeout: float = 60.0,
    ) -> int:
        return await self._appender.append(log, subject, payload, expected_last, last_pattern, timeout)

    async def read(
        self, log: str, *, first: int | None = None, subjects: Sequence[str] = (), max_unacknowledged: int = 256
    ) -> NatsReader[StoredMessage]:
        if not 1 <= max_unacknowledged <= _MAX_UNACKNOWLEDGED:
            raise ConfigError(f"choose 1 to {_MAX_UNACKNOWLEDGED:,} messages", max_unacknowledged=max_unacknowledged)
        for pattern in subjects:
            check_pattern(pattern)
        position = (await self.span(log)).last if first is None else max(first, 1) - 1
        reader = NatsReader(
            self._connection,
            self,
            log,
            subjects,
            make_stored_message,
            position=position,
            max_unacknowledged=max_unacknowledged,
        )
        await reader.open()
        return reader

    async def send(self, subject: str, payload: bytes) -> None:
        check_subject(subject)
        await self._connection.wait_connected(self._connection.deadline())
        self._connection.publish(subject, payload)
        await self._connection.socket.drain()

    async def request(self, subject: str, payload: bytes, *, timeout: float = 2.0) -> bytes:
        """As in the protocol. After a lost connection the request is repeated until the timeout."""
        check_subject(subject)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while True:
            if not self._connection.connected:
                await self._connection.wait_connected(deadline)
            try:
                remaining = max(0.001, deadline - loop.time())
                return (await self._connection.request(subject, payload, timeout=remaining)).payload
            except NoResponders:
                raise ServiceUnavailable("no client is subscribed", subject=subject) from None
            except NoReply:
                if loop.time() >= deadline - 0.001:  # too late for another attempt
                    raise ServiceUnavailable("no answer in time", subject=subject, seconds=timeout) from None

    async def listen(self, pattern: str, handler: Handler) -> NatsListener:
        listener = NatsListener(self._connection, pattern, handler)
        await listener.open()
        return listener

    async def bucket(self, name: str) -> NatsBucket:
        bucket = NatsBucket(name, self._connection, self, self._appender)
        await bucket.open()
        return bucket

    async def close(self) -> None:
        await self._connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
