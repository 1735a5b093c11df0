"""Client of the memory broker: `LocalBroker` implements `Broker`, `LocalBucket` implements `Bucket`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from typing import Any, Self, TypeVar

from thinwire.brokers.broker_url import Address, OpenedBroker
from thinwire.brokers.memory.reader import LocalReader
from thinwire.brokers.memory.server import LocalListener, LocalServer, UnstoredMessage
from thinwire.brokers.memory.storage import Documents, WakeUp, Watchers
from thinwire.brokers.nats.options import read_options
from thinwire.brokers.protocol import ANY, BucketEntry, Handler, Retention, Span, StoredMessage
from thinwire.brokers.subjects import check_subject
from thinwire.errors import (
    BrokerUnavailable,
    ConfigError,
    PayloadTooLarge,
    ServiceUnavailable,
    TransportClosed,
    TransportError,
)

Result = TypeVar("Result")


class SimulatedConnection:
    """The connection of one client to the memory broker, with latency and outages.

    url: address of the server, for error messages
    delay: seconds that a message is in transit in one direction
    timeout: seconds that a call without its own timeout waits
    is_up: the client is neither cut off nor closed, and the server is not stopped
    watchers: notified of every change of these states
    """

    def __init__(self, url: str, delay: float, timeout: float) -> None:
        if delay < 0 or timeout <= 0:
            raise ConfigError("delay is 0 or more, timeout more than 0", delay=delay, timeout=timeout)
        self.url = url
        self.delay = delay
        self.timeout = timeout
        self.is_up = True
        self.is_cut = self.is_server_stopped = self.is_closed = False
        self.watchers = Watchers()
        self._interruptions = 0
        self._changed = WakeUp()

    def interrupt(
        self, *, is_cut: bool | None = None, is_server_stopped: bool | None = None, is_closed: bool | None = None
    ) -> None:
        """Set the given states, then lose all messages in transit."""
        self.is_cut = self.is_cut if is_cut is None else is_cut
        self.is_server_stopped = self.is_server_stopped if is_server_stopped is None else is_server_stopped
        self.is_closed = self.is_closed if is_closed is None else is_closed
        self.is_up = not (self.is_cut or self.is_server_stopped or self.is_closed)
        self._interruptions += 1
        self._changed.notify()
        self.watchers.notify()

    async def call(self, work: Callable[[], Result], timeout: float | None = None) -> Result:
        """Run `work` on the server once and return its result.

        After an interruption the request is sent again. If the server has run `work` before, it only sends the result
        again.
        """
        seconds = self.timeout if timeout is None else timeout
        results: list[Result] = []
        try:
            async with asyncio.timeout(seconds):
                while True:
                    if not self.is_up:
                        await self._wait_until_up()
                    interruptions = self._interruptions
                    await asyncio.sleep(self.delay)  # other tasks run even if it is 0, as they would with a socket
                    if self._interruptions == interruptions and not results:
                        results.append(work())
                        if self.delay:
                            await asyncio.sleep(self.delay)
                    if self._interruptions == interruptions:
                        return results[0]
        except TimeoutError:
            raise BrokerUnavailable(url=self.url, timeout=seconds) from None

    async def _wait_until_up(self) -> None:
        while not self.is_up:
            if self.is_closed:
                raise TransportClosed(url=self.url)
            await self._changed.wait()


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
            current = await self._connection.call(lambda: self._documents.changes_after(0, pattern))
            for entry in current:
                if entry.value is not None:
                    yield entry
            yield None
            revision = current[-1].revision if current else 0
            while not self._connection.is_closed:
                changes = self._documents.changes_after(revision, pattern) if self._connection.is_up else []
                for entry in changes:
                    revision = entry.revision
                    yield entry
                if not changes:
                    await wake_up.wait()
                    await asyncio.sleep(self._connection.delay)

    @contextmanager
    def _watching(self) -> Iterator[WakeUp]:
        wake_up = WakeUp()
        self._connection.watchers[wake_up] = self._documents.watchers[wake_up] = None
        try:
            yield wake_up
        finally:
            del self._connection.watchers[wake_up], self._documents.watchers[wake_up]


class LocalBroker:
    """Implements `thinwire.brokers.protocol.Broker`. It is created inside a running event loop.

    timeout: seconds that a call without its own timeout waits until a lost connection is restored
    name: name of the client, with which tests select the client of a fault

    >>> async def append_and_read():
    ...     async with LocalBroker(LocalServer()) as broker:
    ...         await broker.ensure_log("rooms", ["rooms.*"])
    ...         reader = await broker.read("rooms", first=1)
    ...         await broker.append("rooms", "rooms.a", b"21.5")
    ...         message = await reader.next()
    ...         return message.offset, message.subject, message.payload
    >>> asyncio.run(append_and_read())
    (1, 'rooms.a', b'21.5')
    """

    def __init__(self, server: LocalServer, *, timeout: float = 60.0, name: str = "") -> None:
        self.server = server
        self.timeout = timeout
        self.name = name
        self.readers: dict[LocalReader, None] = {}
        self.connection = SimulatedConnection(server.url, server.delay, timeout)
        server.add_client(self)
        self._replies: dict[asyncio.Future[bytes], None] = {}

    @property
    def max_payload(self) -> int:
        return self.server.max_payload

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def connected(self) -> bool:
        return self.connection.is_up

    async def ensure_log(self, log: str, subjects: Sequence[str], retention: Retention | None = None) -> None:
        await self.connection.call(lambda: self.server.ensure_log(log, subjects, retention))

    async def delete_log(self, log: str) -> None:
        await self.connection.call(lambda: self.server.delete_log(log))

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
        self._check_message(subject, payload)

        def store() -> int:
            offset = self.server.logs[log].store(subject, bytes(payload), expected_last, last_pattern)
            if self.server.acknowledgements_to_lose:
                self.server.acknowledgements_to_lose -= 1
                self.connection.interrupt()
            return offset

        return await self.connection.call(store, timeout)

    async def read(
        self, log: str, *, first: int | None = None, subjects: Sequence[str] = (), max_unacknowledged: int = 256
    ) -> LocalReader:
        def open_reader() -> LocalReader:
            messages = self.server.logs[log]
            offset = messages.span().last + 1 if first is None else max(first, 1)
            reader = LocalReader(messages, self.connection, offset, subjects, max_unacknowledged, self.readers.pop)
            self.readers[reader] = None
            return reader

        return await self.connection.call(open_reader)

    async def last(self, log: str, pattern: str, *, up_to: int | None = None) -> StoredMessage | None:
        return await self.connection.call(lambda: self.server.logs[log].last(pattern, up_to))

    async def subjects(self, log: str, pattern: str = ">") -> dict[str, int]:
        return await self.connection.call(lambda: self.server.logs[log].subjects(pattern))

    async def offset_at(self, log: str, time: float) -> int:
        return await self.connection.call(lambda: self.server.logs[log].offset_at(time))

    async def span(self, log: str) -> Span:
        return await self.connection.call(lambda: self.server.logs[log].span())  # noqa: PLW0108 (the log is looked up on the server)

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
            raise ServiceUnavailable("no answer in time", subject=subject, seconds=timeout) from None
        finally:
            del self._replies[reply]
            reply.cancel()

    async def listen(self, pattern: str, handler: Handler) -> LocalListener:
        return await self.connection.call(lambda: LocalListener(pattern, handler, self.connection, self.server))

    async def bucket(self, name: str) -> LocalBucket:
        documents = await self.connection.call(lambda: self.server.bucket(name))
        return LocalBucket(documents, self.connection, self.server.max_payload)

    async def close(self) -> None:
        if self.connection.is_closed:
            return
        self.connection.interrupt(is_closed=True)
        self.server.remove_client(self)
        for reply in self._replies:
            if not reply.done():
                reply.set_exception(TransportClosed(url=self.url))
        for reader in list(self.readers):
            await reader.close()
        for listener in [entry for entry in self.server.listeners if entry.connection is self.connection]:
            await listener.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _check_message(self, subject: str, payload: bytes) -> None:
        check_subject(subject)
        if not isinstance(payload, bytes | bytearray | memoryview):
            raise TransportError("a payload is bytes", subject=subject, given=type(payload).__name__)
        if len(payload) > self.server.max_payload:
            raise PayloadTooLarge(subject=subject, size=len(payload), limit=self.server.max_payload)


async def open_memory(address: Address, options: Mapping[str, Any], stack: AsyncExitStack) -> OpenedBroker:
    """Factory of `memory://name` URLs. All connections to a name in one event loop share a server.

    Options of network connections are accepted and have no effect.
    """
    if options:
        read_options(options)  # raises ConfigError for an unknown option
    server = LocalServer.named(address.rest)
    name = str(options.get("name", ""))
    client, services = LocalBroker(server, name=name), LocalBroker(server, name=name)
    stack.push_async_callback(client.close)
    stack.push_async_callback(services.close)
    return OpenedBroker(client, services)
