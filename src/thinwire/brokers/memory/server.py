"""The memory broker: storage, connected clients, subscriptions to unstored messages, and fault injection."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from thinwire.brokers.memory.storage import Documents, MessageLog
from thinwire.brokers.protocol import Handler, Retention
from thinwire.brokers.subjects import check_pattern, matches
from thinwire.clock import Clock, WallClock
from thinwire.errors import ConfigError, PayloadTooLarge, TransportError, UnknownLog

if TYPE_CHECKING:
    from thinwire.brokers.memory.broker import LocalBroker, SimulatedConnection

QUEUE_LIMIT = 65_536
"""unstored messages that may wait for a handler; further messages are dropped"""
DEFAULT_LOG_BYTES = 1 << 28
"""size limit of a log without a limit of its own, because the logs are in memory"""

_log = logging.getLogger(__name__)
_servers_by_name: dict[tuple[asyncio.AbstractEventLoop, str], LocalServer] = {}


class Logs(dict[str, MessageLog]):
    """The logs by name. Access to a name without a log raises `UnknownLog`."""

    def __missing__(self, name: str) -> MessageLog:
        raise UnknownLog(log=name)


class LocalServer:
    """Logs, buckets and listeners, shared by the clients of one event loop.

    name: name in the URL memory://name
    clock: gives the times of messages, which `max_age` of a retention is compared with
    max_payload: largest number of bytes in a message
    delay: seconds that a message or a response is in transit
    acknowledgements_to_lose: number of following appends whose acknowledgement will be lost

    Storage survives `stop` and `start`. While the server is stopped or a client is cut off, the calls of the client
    wait. Iteration follows insertion order everywhere, so that runs under virtual time are reproducible.

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
    ) -> None:
        if max_payload < 1:
            raise ConfigError("must be 1 or more", max_payload=max_payload)
        self.name = name
        self.clock = clock or WallClock()
        self.max_payload = max_payload
        self.delay = delay
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
        for key in [key for key in _servers_by_name if key[0].is_closed()]:
            del _servers_by_name[key]  # a loop that ended before its clients were closed
        return _servers_by_name.setdefault((loop, name), LocalServer(name))

    @property
    def url(self) -> str:
        return f"memory://{self.name}"

    def stop(self) -> None:
        """Disconnect all clients. Storage remains."""
        self._set_running(False)

    def start(self) -> None:
        """Accept connections again; clients reconnect."""
        self._set_running(True)

    def cut(self, client: LocalBroker | None = None) -> None:
        """Cut off one client, or all current clients, until `restore`."""
        for target in self._targets(client):
            target.connection.interrupt(is_cut=True)

    def restore(self, client: LocalBroker | None = None) -> None:
        """Reconnect one client, or all."""
        for target in self._targets(client):
            target.connection.interrupt(is_cut=False)

    def lose_acknowledgements(self, count: int) -> None:
        """Store the next `count` appended messages, but interrupt the connection before the acknowledgement."""
        self.acknowledgements_to_lose += count

    def redeliver(self, count: int = 1, client: LocalBroker | None = None) -> None:
        """Move the readers of one client, or of all, back by `count` offsets. They drop the repeated messages."""
        for target in self._targets(client):
            for reader in target.readers:
                reader.rewind(count)

    def ensure_log(self, name: str, patterns: Sequence[str], retention: Retention | None) -> None:
        if name not in self.logs:
            limits = retention or Retention()
            if limits.max_bytes is None:
                limits = replace(limits, max_bytes=DEFAULT_LOG_BYTES)
            self._created_logs += 1
            log_id = f"{self.clock.now():.6f}-{self._created_logs}"
            self.logs[name] = MessageLog(name, patterns, limits, self.clock, log_id=log_id)

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
            client.connection.interrupt(is_server_stopped=True)

    def remove_client(self, client: LocalBroker) -> None:
        self.clients.remove(client)
        if not self.clients and self._loop is not None and _servers_by_name.get((self._loop, self.name)) is self:
            del _servers_by_name[self._loop, self.name]

    def _set_running(self, running: bool) -> None:
        self.running = running
        for client in self.clients:
            client.connection.interrupt(is_server_stopped=not running)

    def _targets(self, client: LocalBroker | None) -> list[LocalBroker]:
        """Return the clients that a fault affects: the given client, or all."""
        return list(self.clients) if client is None else [client]


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
        return self.connection.is_up and matches(self.pattern, subject)

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
        if self.connection.is_up and not message.reply.done():
            message.reply.set_result(bytes(reply))
