"""Requests and replies over a NATS connection.

Every request has its own reply subject, short because it is transmitted twice: `_INBOX.<eight letters>.<number>`.
"""

from __future__ import annotations

import asyncio

from thinwire.brokers.nats.jetstream_api import (
    NO_RESPONDERS,
    REQUEST_TIMEOUT,
    RETRY_PAUSE,
    JetStreamCaller,
    NoReply,
    NoResponders,
    Reply,
)
from thinwire.brokers.nats.options import NatsOptions
from thinwire.brokers.nats.protocol_core import ServerInfo, parse_status, publish_command, random_name
from thinwire.brokers.nats.reconnect import ReconnectingConnection
from thinwire.errors import BrokerRefused, PayloadTooLarge, TransportClosed

PROBE_TIMEOUT = 2.0
"""seconds for a PING after a request without a reply"""
HEADROOM = 1280
"""bytes reserved for the headers of a repeated message that expects a last offset, with the longest pattern"""


class _Request:
    __slots__ = ("future", "many", "replies", "subject")

    def __init__(self, subject: str, future: asyncio.Future[None], many: bool) -> None:
        self.subject, self.future, self.many = subject, future, many
        self.replies: list[Reply] = []

    def receive(self, reply: Reply) -> None:
        self.replies.append(reply)
        # a series of replies ends with one that has a status (204: end, 404: none)
        if (not self.many or parse_status(reply.headers)) and not self.future.done():
            self.future.set_result(None)

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)


class NatsConnection(ReconnectingConnection, JetStreamCaller):
    """A reconnecting connection with requests.

    max_payload: bytes of a payload: the limit of the server without the headers that a repeated message may need
    """

    def __init__(self, servers: list[str], options: NatsOptions) -> None:
        super().__init__(servers, options)
        self._prefix = f"{options.inbox}.{random_name(8)}."
        self._last_request = 0
        self._requests: dict[bytes, _Request] = {}
        self.max_payload = self._max_message = 0
        self._probe: asyncio.Task[None] | None = None

    async def open(self) -> None:
        await super().open()
        self.subscribe(f"{self._prefix}*", self._on_reply)

    async def close(self) -> None:
        await super().close()
        if self._probe is not None:
            self._probe.cancel()
            await asyncio.gather(self._probe, return_exceptions=True)

    def new_inbox(self) -> str:
        """Return a unique subject."""
        self._last_request += 1
        return f"{self._prefix}d.{self._last_request}"

    def publish(self, subject: str, payload: bytes, reply: str = "", headers: bytes = b"") -> None:
        """Write a message to the socket."""
        self.check_size(payload, headers)
        self.socket.write(publish_command(subject, payload, reply, headers))

    def check_size(self, payload: bytes, headers: bytes = b"") -> None:
        """Raise `PayloadTooLarge` for a message that would make the server close the connection."""
        if len(payload) > self.max_payload or len(payload) + len(headers) > self._max_message:
            raise PayloadTooLarge(size=len(payload), limit=self.max_payload)

    async def request(
        self, subject: str, payload: bytes, *, headers: bytes = b"", timeout: float = REQUEST_TIMEOUT
    ) -> Reply:
        reply = (await self._request(subject, payload, headers, timeout, many=False))[0]
        if reply.headers is not None and parse_status(reply.headers) == NO_RESPONDERS and not reply.payload:
            raise NoResponders
        return reply

    async def request_many(self, subject: str, payload: bytes, *, timeout: float = REQUEST_TIMEOUT) -> list[Reply]:
        replies = await self._request(subject, payload, b"", timeout, many=True)
        if parse_status(replies[-1].headers) == NO_RESPONDERS:
            raise NoResponders
        return replies

    def attempt_timeout(self, deadline: float) -> float:
        return min(REQUEST_TIMEOUT, max(0.05, deadline - asyncio.get_running_loop().time()))

    async def pause(self) -> None:
        await asyncio.sleep(RETRY_PAUSE)

    async def _request(self, subject: str, payload: bytes, headers: bytes, timeout: float, many: bool) -> list[Reply]:
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

    def _on_info(self, info: ServerInfo) -> None:
        super()._on_info(info)
        self._max_message = info.max_payload
        self.max_payload = max(info.max_payload - HEADROOM, info.max_payload // 2)

    def _fail_pending(self, error: Exception) -> None:
        for request in self._requests.values():
            request.fail(error if isinstance(error, TransportClosed) else NoReply())

    def _on_forbidden(self, action: str, subject: str, error: BrokerRefused) -> None:
        for request in self._requests.values():
            if action == "subscription" or request.subject.lower() == subject:
                request.fail(error)

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
