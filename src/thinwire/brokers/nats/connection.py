"""A connection to a NATS cluster that reconnects in the background, with subscriptions and requests.

Every request has its own reply subject, short because it is transmitted twice: `_INBOX.<eight letters>.<number>`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from thinwire.brokers.nats.asyncio_socket import AsyncioSocket, log
from thinwire.brokers.nats.jetstream_api import RETRY_PAUSE, JetStreamCaller, NoReply, Reply
from thinwire.brokers.nats.options import NatsOptions
from thinwire.brokers.nats.protocol_core import (
    MessageHandler,
    ServerError,
    ServerInfo,
    parse_status,
    publish_command,
    random_name,
    subscribe_command,
    unsubscribe_command,
)
from thinwire.brokers.nats.server_pool import (
    CONNECT_ERRORS,
    Server,
    ServerPool,
    connection_error,
    find_denied_permission,
)
from thinwire.errors import BrokerRefused, PayloadTooLarge, ThinwireError, TransportClosed

RECONNECT_PAUSE = 0.1, 0.4
"""seconds between attempts at the same server, drawn at random so that clients do not reconnect at the same time"""
PING_TIMEOUT = 5.0
"""seconds that a round trip may take"""
CLOSE_TIMEOUT = 2.0
"""seconds for sending buffered data on close"""
PROBE_TIMEOUT = 2.0
"""seconds for a PING after a request without a reply"""
HEADROOM = 1280
"""bytes reserved for the largest headers: a repeated append with an expected last offset and the longest pattern"""


class _Request:
    __slots__ = ("future", "many", "replies", "subject")

    def __init__(self, subject: str, future: asyncio.Future[None], many: bool) -> None:
        self.subject, self.future, self.many = subject, future, many
        self.replies: list[Reply] = []

    def receive(self, reply: Reply) -> None:
        self.replies.append(reply)
        # the last of `many` replies has a status (204: end, 404: none)
        if (not self.many or parse_status(reply.headers)) and not self.future.done():
            self.future.set_result(None)

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)


class NatsConnection(JetStreamCaller):
    """A client's connection to one of several servers. Subscriptions survive a reconnect.

    on_close: called before the connection closes; on_reconnect: called after every reconnect
    max_payload: bytes of a payload: the limit of the server without the headers that a repeated message may need
    """

    def __init__(self, servers: list[str], options: NatsOptions) -> None:
        self.options, self.url = options, ",".join(servers)
        self.closing = self.closed = False
        self.max_payload = self._max_message = 0
        self.on_reconnect: dict[Callable[[], None], None] = {}
        self.on_close: dict[Callable[[], Awaitable[None]], None] = {}
        self._pool = ServerPool(random.sample(servers, len(servers)))
        self._socket: AsyncioSocket | None = None
        self._handlers: dict[int, MessageHandler] = {}
        self._subjects: dict[int, str] = {}
        self._last_sid = self._last_request = 0
        self._prefix = f"{options.inbox}.{random_name(8)}."
        self._requests: dict[bytes, _Request] = {}
        self._connected_or_closed = asyncio.Event()
        self._error: BaseException | None = None
        self._reconnecting: asyncio.Task[None] | None = None
        self._probe: asyncio.Task[None] | None = None

    @property
    def connected(self) -> bool:
        return self._connected_or_closed.is_set() and not self.closed

    @property
    def socket(self) -> AsyncioSocket:
        """The current or last connection to a server."""
        if self._socket is None:
            raise TransportClosed()
        return self._socket

    async def open(self) -> None:
        """Connect. Raise `BrokerRefused` or `BrokerUnavailable` after every server was tried."""
        deadline = self.now() + self.options.connect_timeout

        async def connect(server: Server) -> AsyncioSocket:
            async with asyncio.timeout_at(deadline):
                return await self._connect(server)

        try:
            self._activate(await self._pool.connect(connect, self.url))
        except BaseException:
            self.closing = self.closed = True
            raise
        self.subscribe(f"{self._prefix}*", self._on_reply)

    async def close(self) -> None:
        """Close readers and listeners, then the connection, in bounded time."""
        if self.closing:
            return
        self.closing = True
        for callback in list(self.on_close):
            await callback()
        self.closed = True
        self._fail_requests(TransportClosed())
        self._connected_or_closed.set()
        tasks = [task for task in (self._reconnecting, self._probe) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._socket is not None:
            await self._socket.close(CLOSE_TIMEOUT)

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    async def pause(self) -> None:
        await asyncio.sleep(RETRY_PAUSE)

    async def wait_connected(self, deadline: float | None, reason: ThinwireError | None = None) -> None:
        """Wait for a connection, without limit if `deadline` is None. Raise `reason` if the deadline has passed."""
        if not self._connected_or_closed.is_set() and not self.closed:
            try:
                async with asyncio.timeout_at(deadline):
                    await self._connected_or_closed.wait()
            except TimeoutError:
                raise connection_error(self._error, self.url) from None
        if self.closed:
            raise TransportClosed()
        if deadline is not None and self.now() >= deadline:
            raise reason or connection_error(self._error or TimeoutError(), self.url)

    async def round_trip(self) -> None:
        """Wait until the server has processed all commands that were written before."""
        try:
            await self.socket.ping(PING_TIMEOUT)
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

    def new_inbox(self) -> str:
        """Return a unique subject."""
        self._last_request += 1
        return f"{self._prefix}d.{self._last_request}"  # two tokens: the subscription to replies does not match

    def publish(self, subject: str, payload: bytes, reply: str = "", headers: bytes = b"") -> None:
        """Write a message to the socket."""
        self.check_size(payload, headers)
        self.socket.write(publish_command(subject, payload, reply, headers))

    def check_size(self, payload: bytes, headers: bytes = b"") -> None:
        """Raise `PayloadTooLarge` for a message that would make the server close the connection."""
        if len(payload) > self.max_payload or len(payload) + len(headers) > self._max_message:
            raise PayloadTooLarge(size=len(payload), limit=self.max_payload)

    async def exchange(self, subject: str, payload: bytes, headers: bytes, timeout: float, many: bool) -> list[Reply]:
        if not self.connected:
            raise TransportClosed() if self.closed else NoReply()
        loop = asyncio.get_running_loop()
        self._last_request += 1
        token = b"%x" % self._last_request
        request = self._requests[token] = _Request(subject, loop.create_future(), many)
        timer = loop.call_later(timeout, self._on_timeout, request)
        try:
            self.publish(subject, payload, f"{self._prefix}{self._last_request:x}", headers)
            await request.future
            return request.replies
        finally:
            timer.cancel()
            del self._requests[token]

    def _on_reply(self, subject: bytes, reply: bytes, payload: bytes, headers: bytes | None) -> None:
        request = self._requests.get(subject[len(self._prefix) :])
        if request is not None:
            request.receive(Reply(payload, headers))

    def _on_timeout(self, request: _Request) -> None:
        request.fail(NoReply())
        if self.connected and (self._probe is None or self._probe.done()):
            self._probe = asyncio.create_task(self._abort_if_dead())

    async def _abort_if_dead(self) -> None:
        """Abort a connection without replies. Otherwise the lost link is noticed only after several PING intervals."""
        socket = self.socket
        try:
            await socket.ping(PROBE_TIMEOUT)
        except OSError:
            socket.abort()

    def _fail_requests(self, error: Exception) -> None:
        for request in self._requests.values():
            request.fail(error)

    async def _connect(self, server: Server) -> AsyncioSocket:
        socket = AsyncioSocket(self._handlers, self._on_error, self._on_info, self._on_lost)
        await socket.open(server, self.options)
        if socket.is_lost:  # the server closed the connection right after accepting it
            raise ConnectionResetError
        return socket

    def _activate(self, socket: AsyncioSocket) -> None:
        self._socket = socket
        self._error = None
        self._on_info(socket.info)
        for sid, subject in self._subjects.items():
            socket.write(subscribe_command(subject, sid))
        self._connected_or_closed.set()

    def _on_info(self, info: ServerInfo) -> None:
        self._pool.discover(info.connect_urls, self._pool.current)
        self._max_message = info.max_payload
        self.max_payload = max(info.max_payload - HEADROOM, info.max_payload // 2)

    def _on_error(self, error: ServerError) -> None:
        log.debug("nats: %s", error)
        denied = find_denied_permission(error)
        if denied is None:
            self._error = error
            return
        action, subject = denied
        log.warning("no permission for %s to %s", action, subject)
        for request in self._requests.values():
            if action == "subscription" or request.subject.lower() == subject:
                request.fail(BrokerRefused(f"no permission for {action}", subject=subject))

    def _on_lost(self, socket: AsyncioSocket) -> None:
        if socket is not self._socket or self.closed:
            return
        log.info("connection to %s lost", self.url)
        self._connected_or_closed.clear()
        self._fail_requests(NoReply())
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
                log.debug("nats: %s", type(error).__name__ if isinstance(error, OSError) else repr(error))
                self._error = error
                continue
            log.info("connection to %s restored", self.url)
            self._activate(socket)
            for callback in list(self.on_reconnect):
                callback()
            return
