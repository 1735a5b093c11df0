"""A broker over NATS: the page `thinwire.brokers.protocol_broker`, on JetStream streams and key-value buckets."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from thinwire.brokers.nats import broker_words as words
from thinwire.brokers.nats.appender import Appender
from thinwire.brokers.nats.bucket import NatsBucket
from thinwire.brokers.nats.connection import Connection
from thinwire.brokers.nats.log_reader import Feed, stored
from thinwire.brokers.nats.options import Options, read_servers
from thinwire.brokers.nats.streams import Store
from thinwire.brokers.protocol import Capabilities
from thinwire.brokers.protocol_broker import ANY, Handler, Retention, Span, Stored
from thinwire.brokers.subjects import check_pattern
from thinwire.errors import ConfigError

_MAX_LIMIT = 65_536


async def connect(servers: str | Sequence[str], options: Options | None = None) -> NatsBroker:
    """Connect to a NATS server with JetStream, or to one of several.

    servers: nats://host:4222 or tls://host:4222, with user:password@ or token@ in front of the host where needed;
    several separated by commas
    """
    addresses, settings = read_servers(servers, options or Options())
    connection = Connection(addresses, settings)
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

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._store = Store(connection)
        self._appender = Appender(connection, self._store)

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
    ) -> Feed[Stored]:
        if not 1 <= limit <= _MAX_LIMIT:
            raise ConfigError(f"1 to {_MAX_LIMIT} messages", limit=limit)
        for pattern in subjects:
            check_pattern(pattern)
        position = (await self._store.span(log)).last if first is None else max(first, 1) - 1
        reader = Feed(self._connection, self._store, log, subjects, stored, position=position, limit=limit)
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
        await words.send(self._connection, subject, payload)

    async def request(self, subject: str, payload: bytes, *, timeout: float = 2.0) -> bytes:
        return await words.request(self._connection, subject, payload, timeout)

    async def listen(self, pattern: str, handler: Handler) -> words.NatsListener:
        listener = words.NatsListener(self._connection, pattern, handler)
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
