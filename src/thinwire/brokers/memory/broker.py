"""Client of the memory broker: `LocalBroker` implements `Broker`, `LocalBucket` implements `Bucket`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from types import TracebackType
from typing import Any, Self

from thinwire.brokers.broker_url import Address, OpenedBroker
from thinwire.brokers.memory.connection import LocalReader, SimulatedConnection
from thinwire.brokers.memory.server import LocalListener, LocalServer, UnstoredMessage
from thinwire.brokers.memory.storage import Documents, MessageLog, WakeUp
from thinwire.brokers.nats.options import read_options
from thinwire.brokers.protocol import ANY, NOTHING, BucketEntry, Capabilities, Handler, Retention, Span, Stored
from thinwire.brokers.subjects import check_subject
from thinwire.errors import Conflict, PayloadTooLarge, ServiceUnavailable, TransportClosed, TransportError


class LocalBucket:
    """Implements `thinwire.brokers.protocol.Bucket`."""

    def __init__(self, documents: Documents, connection: SimulatedConnection, max_payload: int) -> None:
        self.max_payload = max_payload
        self._documents = documents
        self._connection = connection

    async def get(self, key: str) -> BucketEntry | None:
        return await self._connection.call(lambda: self._documents.get(key))

    async def put(self, key: str, value: bytes, *, revision: int = ANY) -> int:
        if len(value) > self.max_payload:
            raise PayloadTooLarge(key=key, size=len(value), limit=self.max_payload)
        return await self._connection.call(lambda: self._documents.put(key, bytes(value), revision))

    async def delete(self, key: str, *, revision: int = ANY) -> None:
        await self._connection.call(lambda: self._documents.delete(key, revision))

    async def entries(self, pattern: str = ">") -> list[BucketEntry]:
        return await self._connection.call(lambda: self._documents.entries(pattern))

    async def watch(self, pattern: str = ">") -> AsyncGenerator[BucketEntry | None, None]:
        with self._watching() as wake_up:
            current = await self._connection.call(lambda: self._documents.since(0, pattern))
            for entry in current:
                if entry.value is not None:
                    yield entry
            yield None
            revision = current[-1].revision if current else 0
            while not self._connection.closed:
                changes = self._documents.since(revision, pattern) if self._connection.up else []
                for entry in changes:
                    revision = entry.revision
                    yield entry
                if not changes:
                    await wake_up.wait()
                    await self._connection.transmit()

    @contextmanager
    def _watching(self) -> Iterator[WakeUp]:
        wake_up = WakeUp()
        watched = (self._connection.watchers, self._documents.watchers)
        for watchers in watched:
            watchers.add(wake_up)
        try:
            yield wake_up
        finally:
            for watchers in watched:
                watchers.remove(wake_up)


class LocalBroker:
    """Implements `thinwire.brokers.protocol.Broker`. It is created inside a running event loop.

    timeout: seconds that a call without its own timeout waits for a lost connection

    >>> async def append_and_read():
    ...     async with LocalBroker(LocalServer()) as broker:
    ...         await broker.open_log("rooms", ["rooms.*"])
    ...         reader = await broker.read("rooms", first=1)
    ...         await broker.append("rooms", "rooms.a", b"21.5")
    ...         message = await reader.next()
    ...         return message.offset, message.subject, message.payload
    >>> asyncio.run(append_and_read())
    (1, 'rooms.a', b'21.5')
    """

    def __init__(self, server: LocalServer, *, timeout: float = 60.0) -> None:
        self.server = server
        self.timeout = timeout
        self.readers: dict[LocalReader, None] = {}
        self.connection = server.add_client(self)
        self._replies: dict[asyncio.Future[bytes], None] = {}

    @property
    def capabilities(self) -> Capabilities:
        return self.server.capabilities

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def connected(self) -> bool:
        return self.connection.up

    async def open_log(self, log: str, subjects: Sequence[str], retention: Retention | None = None) -> None:
        await self.connection.call(lambda: self.server.open_log(log, subjects, retention))

    async def delete_log(self, log: str) -> None:
        await self.connection.call(lambda: self.server.delete_log(log))

    async def append(
        self, log: str, subject: str, payload: bytes, *, after: int = ANY, within: str = "", timeout: float = 60.0
    ) -> int:
        self._check_message(subject, payload)

        def store() -> int:
            messages = self.server.log(log)
            _check_last(messages, within or subject, after)
            offset = messages.store(subject, bytes(payload))
            self.server.acknowledge(self.connection)
            return offset

        return await self.connection.call(store, timeout)

    async def read(
        self, log: str, *, first: int | None = None, subjects: Sequence[str] = (), limit: int = 256
    ) -> LocalReader:
        def open_reader() -> LocalReader:
            messages = self.server.log(log)
            offset = messages.span().last + 1 if first is None else max(first, 1)
            reader = LocalReader(messages, self.connection, offset, subjects, limit, self.readers.pop)
            self.readers[reader] = None
            return reader

        return await self.connection.call(open_reader)

    async def last(self, log: str, pattern: str, *, up_to: int | None = None) -> Stored | None:
        return await self.connection.call(lambda: self.server.log(log).last(pattern, up_to))

    async def subjects(self, log: str, pattern: str = ">") -> dict[str, int]:
        return await self.connection.call(lambda: self.server.log(log).subjects(pattern))

    async def offset_at(self, log: str, time: float) -> int:
        return await self.connection.call(lambda: self.server.log(log).offset_at(time))

    async def span(self, log: str) -> Span:
        return await self.connection.call(lambda: self.server.log(log).span())

    async def logs(self) -> list[str]:
        return await self.connection.call(lambda: sorted(self.server.logs))

    async def send(self, subject: str, payload: bytes) -> None:
        self._check_message(subject, payload)
        await self.connection.call(lambda: self.server.deliver(UnstoredMessage(subject, bytes(payload))))

    async def request(self, subject: str, payload: bytes, *, timeout: float = 2.0) -> bytes:
        self._check_message(subject, payload)
        loop = asyncio.get_running_loop()
        reply: asyncio.Future[bytes] = loop.create_future()
        message = UnstoredMessage(subject, bytes(payload), reply)
        deadline = loop.time() + timeout
        self._replies[reply] = None
        try:
            if not await self.connection.call(lambda: self.server.deliver(message), timeout):
                raise ServiceUnavailable("no client is subscribed", subject=subject)
            async with asyncio.timeout_at(deadline):
                return await reply
        except TimeoutError:
            raise ServiceUnavailable("in time", subject=subject, timeout=timeout) from None
        finally:
            del self._replies[reply]
            reply.cancel()

    async def listen(self, pattern: str, handler: Handler) -> LocalListener:
        return await self.connection.call(lambda: LocalListener(pattern, handler, self.connection, self.server))

    async def bucket(self, name: str, *, history: int = 1) -> LocalBucket:
        documents = await self.connection.call(lambda: self.server.bucket(name))
        return LocalBucket(documents, self.connection, self.server.max_payload)

    async def close(self) -> None:
        if self.connection.closed:
            return
        self.connection.change(closed=True)
        self.server.remove_client(self)
        for reply in self._replies:
            if not reply.done():
                reply.set_exception(TransportClosed(url=self.url))
        for reader in list(self.readers):
            await reader.close()
        for listener in [one for one in self.server.listeners if one.connection is self.connection]:
            await listener.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _check_message(self, subject: str, payload: bytes) -> None:
        self.connection.check_open()
        check_subject(subject)
        if not isinstance(payload, bytes | bytearray | memoryview):
            raise TransportError("a payload is bytes", subject=subject, given=type(payload).__name__)
        if len(payload) > self.capabilities.max_payload:
            raise PayloadTooLarge(subject=subject, size=len(payload), limit=self.capabilities.max_payload)


async def open_memory(address: Address, options: Mapping[str, Any], stack: AsyncExitStack) -> OpenedBroker:
    """Factory of `memory://name` URLs. All connections to a name in one event loop share a server.

    Options of network connections are accepted and have no effect.
    """
    if options:
        read_options(options)  # raises ConfigError for an unknown option
    server = LocalServer.named(address.rest)
    client, services = LocalBroker(server), LocalBroker(server)
    stack.push_async_callback(client.close)
    stack.push_async_callback(services.close)
    return OpenedBroker(client, services)


def _check_last(log: MessageLog, within: str, after: int) -> None:
    if after == ANY:
        return
    newest = log.last(within)
    last = NOTHING if newest is None else newest.offset
    if last != after:
        raise Conflict(log=log.name, within=within, expected=after, last=last)
