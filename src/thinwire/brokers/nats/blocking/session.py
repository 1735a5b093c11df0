"""Requests over a blocking connection that is opened again when it was lost.

The requests are coroutines because `thinwire.brokers.nats.streams` uses them for this connection and for the asyncio
one. They never suspend, so `run_inline` returns their result without an event loop.
"""

from __future__ import annotations

import random
import time
from collections import deque
from typing import NamedTuple

from thinwire.brokers.nats.blocking.socket_connection import BlockingSocket, ConnectionLost
from thinwire.brokers.nats.jetstream_api import RETRY_PAUSE, JetStreamCaller, NoReply, Reply
from thinwire.brokers.nats.options import NatsOptions
from thinwire.brokers.nats.protocol_core import (
    PONG,
    ProtocolError,
    ServerError,
    parse_status,
    publish_command,
    random_name,
    subscribe_command,
    unsubscribe_command,
)
from thinwire.brokers.nats.server_pool import (
    Server,
    ServerPool,
    connection_error,
    find_denied_permission,
    is_credentials_error,
)
from thinwire.brokers.protocol import run_inline
from thinwire.errors import BrokerRefused, BrokerUnavailable, ThinwireError, TransportClosed

MAX_RECONNECT_PAUSE = 2.0
"""seconds between attempts to connect"""
_REPLY_SID = 1
"""id of the subscription to replies"""


class NatsMessage(NamedTuple):
    """A received message."""

    subject: bytes
    payload: bytes
    headers: bytes | None


class BlockingConnection(JetStreamCaller):
    """One client's connection to one of several servers."""

    def __init__(self, servers: list[str], options: NatsOptions) -> None:
        self.options, self.url = options, ",".join(servers)
        self.prefix = f"{options.inbox}.{random_name(8)}"
        """first tokens of reply subjects"""
        self.closed = False
        self._pool = ServerPool(servers)
        self._socket: BlockingSocket | None = None
        self._last_id = 0
        self._messages: deque[NatsMessage] = deque()
        self._error: ThinwireError | None = None

    def open(self) -> None:
        """Connect. Raise `BrokerRefused` or `BrokerUnavailable` after every server was tried."""
        self._connect(time.monotonic() + self.options.connect_timeout)

    def close(self) -> None:
        self.closed = True
        self.disconnect()

    def disconnect(self) -> None:
        """Close the socket. The next call opens a new one."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._messages.clear()

    def socket(self, deadline: float) -> BlockingSocket:
        """Return the socket. If it is closed, open a new one, with growing pauses, until the deadline."""
        pause = RETRY_PAUSE
        while self._socket is None:
            try:
                self._connect(min(deadline, time.monotonic() + self.options.connect_timeout))
            except BrokerUnavailable:
                if time.monotonic() + pause >= deadline:
                    raise
                time.sleep(pause * random.uniform(0.5, 1.0))  # clients must not reconnect at the same time
                pause = min(2 * pause, MAX_RECONNECT_PAUSE)
        return self._socket

    def publish(self, subject: str, payload: bytes, reply: str) -> None:
        self._write(publish_command(subject, payload, reply))

    def subscribe(self, subject: str) -> int:
        """Subscribe until the connection is lost. Return the subscription id."""
        self._last_id += 1
        sid = _REPLY_SID + self._last_id
        self._write(subscribe_command(subject, sid))
        return sid

    def unsubscribe(self, sid: int) -> None:
        self._write(unsubscribe_command(sid))

    def parse(self, socket: BlockingSocket, *, limit: int = 0) -> bool:
        """Parse commands of the receive buffer, at most `limit` if given. Return False if none is complete."""
        is_parsed = socket.parse(self, limit=limit)
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        return is_parsed

    def pop_message(self) -> NatsMessage | None:
        """Return the next parsed message."""
        return self._messages.popleft() if self._messages else None

    def on_message(self, sid: int, subject: bytes, reply: bytes, payload: bytes, headers: bytes | None) -> None:
        self._messages.append(NatsMessage(subject, payload, headers))

    def on_line(self, line: bytes) -> None:
        if line == b"PING":
            self._write(PONG)
        elif line.startswith(b"-ERR"):
            self._error = self._translate(ServerError.from_line(line))
        elif not line.startswith((b"PONG", b"INFO", b"+OK")):
            raise ConnectionLost

    def now(self) -> float:
        return time.monotonic()

    async def wait_connected(self, deadline: float, reason: ThinwireError | None = None) -> None:
        self.socket(deadline)
        if time.monotonic() >= deadline:
            raise reason or connection_error(TimeoutError(), self.url)

    async def pause(self) -> None:
        time.sleep(RETRY_PAUSE)

    async def exchange(self, subject: str, payload: bytes, headers: bytes, timeout: float, many: bool) -> list[Reply]:
        """Without a reply the connection is closed, because it may be dead; a new one is cheap."""
        self._last_id += 1
        inbox = f"{self.prefix}.{self._last_id}"
        replies: list[Reply] = []
        deadline = time.monotonic() + timeout
        self._messages.clear()
        try:
            self._write(publish_command(subject, payload, inbox, headers))
            while not replies or (many and not parse_status(replies[-1].headers)):
                message = self._next_message(deadline)
                if message.subject == inbox.encode():
                    replies.append(Reply(message.payload, message.headers))
        except (ConnectionLost, ProtocolError):
            self.disconnect()
            raise NoReply from None
        return replies

    def _next_message(self, deadline: float) -> NatsMessage:
        while (message := self.pop_message()) is None:
            if self._socket is None:
                raise ConnectionLost
            if not self.parse(self._socket) and not self._socket.receive(deadline - time.monotonic()):
                raise ConnectionLost
        return message

    def _write(self, command: bytes) -> None:
        if self._socket is None:
            raise ConnectionLost
        self._socket.send(command)

    def _translate(self, error: ServerError) -> ThinwireError | None:
        """Return the error to raise; None for a temporary one, after which the server closes the connection."""
        denied = find_denied_permission(error)
        if denied is not None:
            action, subject = denied
            return BrokerRefused(f"no permission for {action}", subject=subject)
        return connection_error(error, self.url) if is_credentials_error(error) else None

    def _connect(self, deadline: float) -> None:
        if self.closed:
            raise TransportClosed()

        async def connect(server: Server) -> BlockingSocket:
            socket = BlockingSocket(server, self.options, deadline)
            try:
                socket.send(subscribe_command(f"{self.prefix}.*", _REPLY_SID))
            except ConnectionLost:
                raise ConnectionResetError from None
            return socket

        self._socket = run_inline(self._pool.connect(connect, self.url))
        self._pool.discover(self._socket.info.connect_urls, self._pool.current)
