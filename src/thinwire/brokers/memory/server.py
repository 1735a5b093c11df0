"""The memory broker: storage, connected clients, subscriptions to unstored messages, and fault injection."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from thinwire.brokers.memory.storage import Documents, MessageLog
from thinwire.brokers.protocol import Capabilities, Handler, Retention
from thinwire.brokers.subjects import check_pattern, matches
from thinwire.clock import Clock, WallClock
from thinwire.errors import ConfigError, PayloadTooLarge, TransportError, UnknownLog

if TYPE_CHECKING:
    from thinwire.brokers.memory.broker import LocalBroker, SimulatedConnection
    from thinwire.brokers.memory.reader import LocalReader

QUEUE_LIMIT = 65_536
"""unstored messages that a listener may lag behind; later ones are dropped"""

_log = logging.getLogger(__name__)
_named: dict[tuple[asyncio.AbstractEventLoop, str], LocalServer] = {}


class Logs(dict[str, MessageLog]):
    """The logs by name. Access to a missing one raises `UnknownLog`."""

    def __missing__(self, name: str) -> MessageLog:
        raise UnknownLog(log=name)


class LocalServer:
    """Logs, buckets and listeners, shared by the clients of one event loop.

    name: as in memory://name; clock: source of message times and retention; max_payload: bytes in a message
    delay: seconds that a message or a response is in transit; log_size: default size limit of a log in bytes
    acknowledgements_to_lose: number of coming appends whose acknowledgement will be lost

    Storage survives `stop` and `start`. While the server is stopped or a client is cut off, its calls wait. Iteration
    follows insertion order everywhere, so that runs under a virtual-time event loop are reproducible.

    >>> from thinwire.brokers.memory import LocalBroker
    >>> async def lose_acknowledgement():
    ...     server = LocalServer()
    ...     async with LocalBroker(server) as broker:
    ...         await broker.ensure_log("rooms", ["rooms.>"])
    ...         server.lose_acknowledgements(1)
    ...         offset = await broker.append("rooms", "rooms.a", b"21.5")
    ...         return offset, (await broker.span("rooms")).messages
    >>> asyncio.run(lose_acknowledgement())
    (1, 1)
    """

    def __init__(
        self,
        name: str = "",
        *,
        clock: Clock | None = None,
        max_payload: int = 1 << 20,
        delay: float = 0.0,
        log_size: int = 1 << 28,
    ) -> None:
        for setting, value in {"max_payload": max_payload, "log_size": log_size}.items():
            if value < 1:
                raise ConfigError("must be 1 or more", **{setting: value})
        self.name = name
        self.clock = clock or WallClock()
        self.max_payload = max_payload
        self.delay = delay
        self.log_size = log_size
        self.logs = Logs()
        self.buckets: dict[str, Documents] = {}
        self.listeners: list[LocalListener] = []
        self.clients: list[LocalBroker] = []
        self.running = True
        self._loop: asyncio.AbstractEventLoop | None = None
        self._created_logs = 0
        self.acknowledgements_to_lose = 0

    @staticmethod
    def named(name: str) -> LocalServer:
        """Return the server of this name in the running event loop. It is created if it does not exist.

        It is removed when its last client closes.
        """
        loop = asyncio.get_running_loop()
        for key in [key for key in _named if key[0].is_closed()]:
            del _named[key]  # its clients never closed
        return _named.setdefault((loop, name), LocalServer(name))

    @property
    def url(self) -> str:
        return f"memory://{self.name}"

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(gapless=True, headers=False, max_payload=self.max_payload)

    def stop(self) -> None:
        """Disconnect all clients. Storage remains."""
        self._set_running(False)

    def start(self) -> None:
        """Accept connections again; clients reconnect."""
        self._set_running(True)

    def cut(self, client: LocalBroker | None = None) -> None:
        """Cut off one client, or all current clients, until `restore`."""
        for connection in self._connections(client):
            connection.change(cut=True)

    def restore(self, client: LocalBroker | None = None) -> None:
        """Reconnect one client, or all."""
        for connection in self._connections(client):
            connection.change(cut=False)

    def lose_acknowledgements(self, count: int) -> None:
        """Store the next `count` appended messages, but interrupt the connection before the acknowledgement."""
        self.acknowledgements_to_lose += count

    def redeliver(self, count: int = 1, client: LocalBroker | None = None) -> None:
        """Move readers back by `count` offsets, as a redelivery would. They drop the repeated messages."""
        for reader in self._readers(client):
            reader.rewind(count)

    def ensure_log(self, name: str, patterns: Sequence[str], retention: Retention | None) -> None:
        if name not in self.logs:
            limits = retention or Retention()
            size = self.log_size if limits.size is None else limits.size
            self._created_logs += 1
            log_id = f"{self.clock.now():.6f}-{self._created_logs}"
            self.logs[name] = MessageLog(name, patterns, replace(limits, size=size), self.clock, log_id=log_id)

    def delete_log(self, name: str) -> None:
        log = self.logs.pop(name, None)
        if log is not None:
            log.delete()

    def bucket(self, name: str) -> Documents:
        return self.buckets.setdefault(name, Documents(name))

    def deliver(self, message: UnstoredMessage) -> int:
        """Pass a message to all matching listeners and return their number."""
        listeners = [listener for listener in self.listeners if listener.is_receiving(message.subject)]
        for listener in listeners:
            listener.deliver(message)
        return len(listeners)

    def add_client(self, client: LocalBroker) -> None:
        loop = asyncio.get_running_loop()
        if self.clients and loop is not self._loop:
            raise TransportError("a memory server serves one event loop at a time", url=self.url)
        self._loop = loop
        self.clients.append(client)
        if not self.running:
            client.connection.change(stopped=True)

    def remove_client(self, client: LocalBroker) -> None:
        self.clients.remove(client)
        if not self.clients and self._loop is not None and _named.get((self._loop, self.name)) is self:
            del _named[self._loop, self.name]

    def _set_running(self, running: bool) -> None:
        self.running = running
        for connection in self._connections():
            connection.change(stopped=not running)

    def _connections(self, client: LocalBroker | None = None) -> list[SimulatedConnection]:
        return [one.connection for one in self.clients if client in (None, one)]

    def _readers(self, client: LocalBroker | None) -> Iterator[LocalReader]:
        return (reader for one in self.clients if client in (None, one) for reader in one.readers)


class UnstoredMessage(NamedTuple):
    """A message between connected clients; `reply` is the future of a request."""

    subject: str
    payload: bytes
    reply: asyncio.Future[bytes] | None = None


class LocalListener:
    """Subscription to unstored messages. The handler is called for one message at a time, while connected."""

    def __init__(self, pattern: str, handler: Handler, connection: SimulatedConnection, server: LocalServer) -> None:
        check_pattern(pattern)
        self.pattern = pattern
        self.handler = handler
        self.closed = False
        self.connection = connection
        self._server = server
        self._messages: asyncio.Queue[UnstoredMessage] = asyncio.Queue(QUEUE_LIMIT)
        self._task = asyncio.create_task(self._run())
        server.listeners.append(self)

    def is_receiving(self, subject: str) -> bool:
        return self.connection.up and matches(self.pattern, subject)

    def deliver(self, message: UnstoredMessage) -> None:
        with suppress(asyncio.QueueFull):
            self._messages.put_nowait(message)

    async def close(self) -> None:
        if not self.closed:
            self._server.listeners.remove(self)
            self.closed = True
            if self._task is not asyncio.current_task():  # a handler may close its own listener
                self._task.cancel()
                await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while not self.closed:
            message = await self._messages.get()
            try:
                await self._handle(message)
            except Exception:  # a failing handler must not stop the listener
                _log.exception("handler of %s failed for a message on %s", self.pattern, message.subject)

    async def _handle(self, message: UnstoredMessage) -> None:
        reply = await self.handler(message.subject, message.payload)
        if reply is None or message.reply is None:
            return
        if len(reply) > self._server.max_payload:
            raise PayloadTooLarge(subject=message.subject, size=len(reply), limit=self._server.max_payload)
        if self.connection.up and not message.reply.done():
            message.reply.set_result(bytes(reply))
