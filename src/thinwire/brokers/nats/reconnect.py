"""A connection to a NATS cluster that reconnects in the background."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable
from typing import Protocol

from thinwire.brokers.nats.asyncio_socket import AsyncioSocket, log
from thinwire.brokers.nats.options import NatsOptions
from thinwire.brokers.nats.protocol_core import (
    MessageHandler,
    ServerError,
    ServerInfo,
    subscribe_command,
    unsubscribe_command,
)
from thinwire.brokers.nats.server_pool import CONNECT_ERRORS, Server, ServerPool, connection_error
from thinwire.errors import BrokerRefused, ThinwireError, TransportClosed

RECONNECT_PAUSE = 0.1, 0.4
"""seconds between attempts at the same server, drawn at random so that clients do not reconnect at the same time"""
PING_TIMEOUT = 5.0
"""seconds that a round trip may take"""
CLOSE_TIMEOUT = 2.0
"""seconds for sending buffered data on close"""
PERMISSION_ERROR = re.compile(r'permissions violation for (publish|subscription) to "([^"]+)"')


class Closeable(Protocol):
    """A reader or a listener, which is closed before the connection."""

    async def close(self) -> None: ...


class ReconnectingConnection:
    """A client's connection to one of several servers. Subscriptions survive a reconnect.

    resources: closed before the connection; on_reconnect: called after every reconnect
    """

    def __init__(self, servers: list[str], options: NatsOptions) -> None:
        self.servers, self.options = servers, options
        self.url = ",".join(servers)
        self.closing = self.closed = False
        self.on_reconnect: dict[Callable[[], None], None] = {}
        self.resources: dict[Closeable, None] = {}
        self._pool = ServerPool(random.sample(servers, len(servers)))
        self._socket: AsyncioSocket | None = None
        self._handlers: dict[int, MessageHandler] = {}
        self._subjects: dict[int, str] = {}
        self._last_sid = 0
        self._up = asyncio.Event()
        self._error: BaseException | None = None
        self._reconnecting: asyncio.Task[None] | None = None

    @property
    def connected(self) -> bool:
        return self._up.is_set() and not self.closed

    @property
    def socket(self) -> AsyncioSocket:
        """The current or last connection to a server."""
        if self._socket is None:
            raise TransportClosed()
        return self._socket

    @property
    def info(self) -> ServerInfo:
        """INFO of the current or last server."""
        return self.socket.info

    async def open(self) -> None:
        """Connect. Raise `BrokerRefused` or `BrokerUnavailable` after every server was tried."""
        deadline = asyncio.get_running_loop().time() + self.options.connect_timeout

        async def connect(server: Server) -> AsyncioSocket:
            async with asyncio.timeout_at(deadline):
                return await self._connect(server)

        try:
            self._use(await self._pool.connect(connect, self.url))
        except BaseException:
            self.closing = self.closed = True
            raise

    async def close(self) -> None:
        """Close all resources, then the connection, in bounded time."""
        if self.closing:
            return
        self.closing = True
        for resource in list(self.resources):
            await resource.close()
        self.closed = True
        self._fail_pending(TransportClosed())
        self._up.set()
        if self._reconnecting is not None:
            self._reconnecting.cancel()
            await asyncio.gather(self._reconnecting, return_exceptions=True)
        if self._socket is not None:
            await self._socket.close(CLOSE_TIMEOUT)

    def deadline(self, timeout: float | None = None) -> float:
        """Return the time of the event loop at which a call that starts now times out."""
        return asyncio.get_running_loop().time() + (self.options.timeout if timeout is None else timeout)

    async def wait_connected(self, deadline: float | None, reason: ThinwireError | None = None) -> None:
        """Wait for a connection, without limit if `deadline` is None. Raise `reason` if the deadline has passed."""
        if not self._up.is_set() and not self.closed:
            try:
                async with asyncio.timeout_at(deadline):
                    await self._up.wait()
            except TimeoutError:
                raise connection_error(self._error, self.url) from None
        if self.closed:
            raise TransportClosed()
        if deadline is not None and asyncio.get_running_loop().time() >= deadline:
            raise reason or connection_error(self._error or TimeoutError(), self.url)

    async def round_trip(self) -> float:
        """Return the seconds of a round trip. The server has processed everything that was written before."""
        try:
            return await self.socket.ping(PING_TIMEOUT)
        except OSError:
            raise connection_error(self._error or TimeoutError(), self.url) from None

    def subscribe(self, subject: str, handler: MessageHandler) -> int:
        """Pass messages whose subject matches to `handler`, across reconnects. Return the subscription id."""
        self._last_sid += 1
        self._handlers[self._last_sid] = handler
        self._subjects[self._last_sid] = subject
        if self.connected:
            self.socket.write(subscribe_command(subject, self._last_sid))
        return self._last_sid

    def unsubscribe(self, sid: int) -> None:
        if self._handlers.pop(sid, None) is not None:
            del self._subjects[sid]
            if self.connected:
                self.socket.write(unsubscribe_command(sid))

    def _fail_pending(self, error: Exception) -> None:
        """Called when the connection is lost or closed: outstanding requests get no reply."""

    def _on_forbidden(self, action: str, subject: str, error: BrokerRefused) -> None:
        """Called when the server denies a permission; `subject` is in lower case."""

    async def _connect(self, server: Server) -> AsyncioSocket:
        socket = AsyncioSocket(self._handlers, self._on_error, self._on_info, self._on_lost)
        await socket.open(server, self.options)
        if socket.is_lost:  # the server closed the connection right after accepting it
            raise ConnectionResetError
        return socket

    def _use(self, socket: AsyncioSocket) -> None:
        self._socket = socket
        self._error = None
        self._on_info(socket.info)
        for sid, subject in self._subjects.items():
            socket.write(subscribe_command(subject, sid))
        self._up.set()

    def _on_info(self, info: ServerInfo) -> None:
        self._pool.discover(info.connect_urls, self._pool.current)

    def _on_error(self, error: ServerError) -> None:
        log.debug("nats: %s", error)
        forbidden = PERMISSION_ERROR.search(str(error))
        if forbidden is None:
            self._error = error
            return
        action, subject = forbidden.groups()
        log.warning("no permission for %s to %s", action, subject)
        self._on_forbidden(action, subject, BrokerRefused(f"no permission for {action}", subject=subject))

    def _on_lost(self, socket: AsyncioSocket) -> None:
        if socket is not self._socket or self.closed:
            return
        log.info("connection to %s lost", self.url)
        self._up.clear()
        self._fail_pending(ConnectionError("connection lost"))
        if self._reconnecting is None or self._reconnecting.done():
            self._reconnecting = asyncio.create_task(self._reconnect())

    async def _reconnect(self) -> None:
        """Try the servers in turn until one accepts. The first attempt at each is immediate."""
        attempts = 0
        while not self.closed:
            if attempts >= len(self._pool):
                await asyncio.sleep(random.uniform(*RECONNECT_PAUSE))
            attempts += 1
            try:
                async with asyncio.timeout(self.options.connect_timeout):
                    socket = await self._connect(self._pool.advance())
            except (*CONNECT_ERRORS, ThinwireError) as error:
                log.debug("nats: %s", type(error).__name__ if isinstance(error, OSError) else error)
                self._error = error
                continue
            log.info("connection to %s restored", self.url)
            self._use(socket)
            for callback in list(self.on_reconnect):
                callback()
            return
