"""A broker over NATS: the page `thinwire.brokers.protocol`, on JetStream streams and key-value buckets.

Words that are stored nowhere: said to whoever listens now, answered or not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from thinwire.brokers.nats.appender import JetStreamAppender
from thinwire.brokers.nats.bucket import NatsBucket
from thinwire.brokers.nats.client import log
from thinwire.brokers.nats.connection import NatsConnection
from thinwire.brokers.nats.jetstream_api import NobodyThere, Unanswered
from thinwire.brokers.nats.log_reader import NatsSubscription, stored
from thinwire.brokers.nats.options import NatsOptions, read_servers
from thinwire.brokers.nats.streams import Store
from thinwire.brokers.protocol import ANY, Capabilities, Handler, Retention, Span, Stored
from thinwire.brokers.subjects import check_pattern, check_subject
from thinwire.errors import BrokerUnavailable, ConfigError, NobodyAnswers

WAITING = 4096
"""words that may wait for a handler; those beyond are lost, as they are where nobody listens"""


async def send(connection: NatsConnection, subject: str, payload: bytes) -> None:
    """Say something."""
    check_subject(subject)
    await connection.ready(connection.deadline())
    connection.post(subject, payload)
    with suppress(OSError):  # a word may be lost, and is not said again
        await connection.client.room()


async def request(connection: NatsConnection, subject: str, payload: bytes, timeout: float) -> bytes:
    """Ask until there is an answer or the time is over; after a cut it is asked again."""
    check_subject(subject)
    deadline = connection.deadline(timeout)
    loop = asyncio.get_running_loop()
    while True:
        await connection.ready(deadline)
        try:
            answer = await connection.ask(subject, payload, patience=max(0.001, deadline - loop.time()))
            return answer.payload
        except NobodyThere:
            raise NobodyAnswers("nobody listens", subject=subject) from None
        except Unanswered:
            if loop.time() >= deadline - 0.001:
                raise NobodyAnswers("no answer in time", subject=subject, seconds=timeout) from None


class NatsListener:
    """Hears words under a pattern and hands them to a handler, one after the other."""

    def __init__(self, connection: NatsConnection, pattern: str, handler: Handler) -> None:
        check_pattern(pattern)
        self._connection, self._pattern, self._handler = connection, pattern, handler
        self._words: asyncio.Queue[tuple[str, str, bytes]] = asyncio.Queue(WAITING)
        self._sid = 0
        self._closed = False
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """From here on words are heard."""
        await self._connection.ready(self._connection.deadline())
        self._task = asyncio.create_task(self._work())
        self._connection.open_ends.add(self)
        self._sid = self._connection.attach(self._pattern, self._on_message)
        await self._connection.round_trip()

    async def close(self) -> None:
        """Once this returns, whoever asks hears that nobody listens."""
        self._connection.open_ends.discard(self)
        self._connection.detach(self._sid)
        if self._connection.connected and not self._connection.closing:
            with suppress(BrokerUnavailable):
                await self._connection.round_trip()
        self._closed = True
        if self._task is not None and self._task is not asyncio.current_task():  # a handler may end its own listener
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _on_message(self, subject: bytes, reply: bytes, payload: bytes, headers: bytes | None) -> None:
        try:
            self._words.put_nowait((subject.decode(), reply.decode(), payload))
        except asyncio.QueueFull:
            log.warning("the listener of %s does not keep up: a word is lost", self._pattern)

    async def _work(self) -> None:
        while not self._closed:
            subject, reply, payload = await self._words.get()
            try:
                answer = await self._handler(subject, payload)
                if answer is not None and reply and self._connection.connected:
                    self._connection.post(reply, answer)
            except Exception:
                log.exception("the handler of %s failed", subject)


_MAX_LIMIT = 65_536


async def connect(servers: str | Sequence[str], options: NatsOptions | None = None) -> NatsBroker:
    """Connect to a NATS server with JetStream, or to one of several.

    servers: nats://host:4222 or tls://host:4222, with user:password@ or token@ in front of the host where needed;
    several separated by commas
    """
    addresses, settings = read_servers(servers, options or NatsOptions())
    connection = NatsConnection(addresses, settings)
    await connection.open()
    broker = NatsBroker(connection)
    try:
        await broker.check_jetstream()
    except BaseException:
        await broker.close()
        raise
    return broker


class NatsBroker:
    """One client's connection to a NATS server; made by `connect`."""

    def __init__(self, connection: NatsConnection) -> None:
        self._connection = connection
        self._store = Store(connection)
        self._appender = JetStreamAppender(connection, self._store)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(gapless=True, headers=True, max_payload=self._connection.max_payload)

    @property
    def url(self) -> str:
        return self._connection.url

    @property
    def connected(self) -> bool:
        return self._connection.connected

    async def check_jetstream(self) -> None:
        """Refuse a server that stores nothing."""
        await self._connection.check_jetstream(self._connection.options.connect_timeout)

    async def open_log(self, log: str, subjects: Sequence[str], retention: Retention | None = None) -> None:
        await self._store.open_log(log, subjects, retention or Retention())

    async def delete_log(self, log: str) -> None:
        await self._store.delete_log(log)

    async def append(
        self, log: str, subject: str, payload: bytes, *, after: int = ANY, within: str = "", timeout: float = 60.0
    ) -> int:
        return await self._appender.append(log, subject, payload, after=after, within=within, timeout=timeout)

    async def read(
        self, log: str, *, first: int | None = None, subjects: Sequence[str] = (), limit: int = 256
    ) -> NatsSubscription[Stored]:
        if not 1 <= limit <= _MAX_LIMIT:
            raise ConfigError(f"1 to {_MAX_LIMIT} messages", limit=limit)
        for pattern in subjects:
            check_pattern(pattern)
        position = (await self._store.span(log)).last if first is None else max(first, 1) - 1
        reader = NatsSubscription(self._connection, self._store, log, subjects, stored, position=position, limit=limit)
        await reader.open()
        return reader

    async def last(self, log: str, pattern: str, *, up_to: int | None = None) -> Stored | None:
        return await self._store.last(log, pattern, up_to)

    async def subjects(self, log: str, pattern: str = ">") -> dict[str, int]:
        return await self._store.subjects(log, pattern)

    async def offset_at(self, log: str, time: float) -> int:
        return await self._store.offset_at(log, time)

    async def span(self, log: str) -> Span:
        return await self._store.span(log)

    async def logs(self) -> list[str]:
        return await self._store.logs()

    async def send(self, subject: str, payload: bytes) -> None:
        await send(self._connection, subject, payload)

    async def request(self, subject: str, payload: bytes, *, timeout: float = 2.0) -> bytes:
        return await request(self._connection, subject, payload, timeout)

    async def listen(self, pattern: str, handler: Handler) -> NatsListener:
        listener = NatsListener(self._connection, pattern, handler)
        await listener.open()
        return listener

    async def bucket(self, name: str, *, history: int = 1) -> NatsBucket:
        bucket = NatsBucket(name, self._connection, self._store, self._appender)
        await bucket.open(history)
        return bucket

    async def describe(self) -> dict[str, object]:
        """What somebody who looks for a fault wants to know of the server."""
        account = await self._connection.api("INFO", deadline=self._connection.deadline())
        client = self._connection.client
        return {
            "url": self.url,
            "version": client.version,
            "encrypted": client.encrypted,
            "max_payload": client.max_payload,
            "jetstream": True,
            "streams": account.get("streams"),
            "stored_bytes": account.get("storage"),
            "round_trip": await self._connection.round_trip(),
        }

    async def close(self) -> None:
        await self._connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
