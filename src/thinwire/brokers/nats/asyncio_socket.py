"""asyncio driver of the NATS protocol: one connection to one server, until it is lost."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import cast

from thinwire.brokers.nats.options import NatsOptions, Tls
from thinwire.brokers.nats.protocol_core import (
    PING,
    PONG,
    MessageHandler,
    ProtocolError,
    ServerError,
    ServerInfo,
    connect_command,
    is_accepted,
    parse_commands,
    parse_info,
    requires_tls,
)
from thinwire.brokers.nats.server_pool import Server

PING_INTERVAL = 10.0
"""seconds between PINGs"""
MAX_UNANSWERED_PINGS = 2
"""the connection is aborted if this many PINGs are unanswered when the next one is due"""

log = logging.getLogger("thinwire.brokers.nats")


class AsyncioSocket(asyncio.Protocol):
    """A connection to a server. Messages are passed to the handler of their subscription as they arrive.

    handlers: by subscription id; owned by the caller
    on_error: called with each -ERR; on_info: called with each later INFO; on_lost: called once when the connection is
        lost after the handshake

    A command is written to the socket at once, without a task in between.
    """

    def __init__(
        self,
        handlers: Mapping[int, MessageHandler],
        on_error: Callable[[ServerError], None],
        on_info: Callable[[ServerInfo], None],
        on_lost: Callable[[AsyncioSocket], None],
    ) -> None:
        self.info: ServerInfo
        self.is_lost = False
        self._find_handler = handlers.get
        self._on_error, self._on_info, self._on_lost = on_error, on_info, on_lost
        self._transport: asyncio.Transport
        self._handshake_lines: asyncio.Queue[bytes | Exception] | None = asyncio.Queue()
        self._buffer: list[bytes] = []
        self._missing = 0
        """bytes that must arrive before the buffer is parsed again"""
        self._unanswered_pings: deque[asyncio.Future[None]] = deque()
        self._ping_timer: asyncio.TimerHandle | None = None
        self._writable, self._closed = asyncio.Event(), asyncio.Event()
        self._writable.set()

    async def open(self, server: Server, options: NatsOptions) -> None:
        """Connect and complete the handshake. Raise one of `CONNECT_ERRORS` if it fails."""
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: self, server.host, server.port)
        try:
            await self._handshake(server, options)
        except BaseException:
            self.abort()
            raise
        self._handshake_lines = None
        self._schedule_ping()

    def write(self, command: bytes) -> None:
        self._transport.write(command)

    async def drain(self) -> None:
        """Wait until the write buffer has room, or the connection is lost."""
        await self._writable.wait()

    async def ping(self, timeout: float) -> None:
        """Send PING and wait for PONG. Raise `OSError` if it does not arrive within `timeout` seconds."""
        async with asyncio.timeout(timeout):
            await self._send_ping()

    def abort(self) -> None:
        """Close the connection at once. Buffered data is discarded."""
        self._transport.abort()

    async def close(self, timeout: float) -> None:
        """Send buffered data and close. After `timeout` seconds the connection is aborted."""
        self._transport.close()
        try:
            async with asyncio.timeout(timeout):
                await self._closed.wait()
        except TimeoutError:
            self.abort()
            await self._closed.wait()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._buffer:
            self._buffer.append(data)
            self._missing -= len(data)
            if self._missing > 0:
                return
            data = b"".join(self._buffer)
            self._buffer.clear()
        try:
            consumed, self._missing = parse_commands(data, 0, len(data), self)
        except ProtocolError as error:
            self._fail_handshake(error)
            self.abort()
            return
        if consumed < len(data):
            self._buffer.append(data[consumed:] if consumed else data)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        if self._ping_timer is not None:
            self._ping_timer.cancel()
        for pong in self._unanswered_pings:
            if not pong.done():
                pong.set_exception(ConnectionResetError("connection lost"))
                pong.exception()  # PINGs of the timer have no waiter; without this asyncio logs the exception
        self._writable.set()
        self._closed.set()
        if self._handshake_lines is None:
            self._on_lost(self)
        else:
            self._fail_handshake(exc or ConnectionResetError("connection closed by the server"))

    def on_message(self, sid: int, subject: bytes, reply: bytes, payload: bytes, headers: bytes | None) -> None:
        handler = self._find_handler(sid)
        if handler is None:
            return
        try:
            handler(subject, reply, payload, headers)
        except Exception:
            log.exception("handler failed for a message on %r", subject)

    def on_line(self, line: bytes) -> None:
        if self._handshake_lines is not None:
            self._handshake_lines.put_nowait(line)
        elif line == b"PING":
            self.write(PONG)
        elif line == b"PONG":
            if self._unanswered_pings and not (pong := self._unanswered_pings.popleft()).done():
                pong.set_result(None)
        elif line.startswith(b"INFO "):
            self.info = parse_info(line)
            self._on_info(self.info)
        elif line.startswith(b"-ERR"):
            self._on_error(ServerError.from_line(line))

    async def _handshake(self, server: Server, options: NatsOptions) -> None:
        self.info = parse_info(await self._handshake_line())
        if requires_tls(self.info, options):
            await self._start_tls(server, options.tls or Tls())
        self.write(connect_command(self.info, options))
        while not is_accepted(await self._handshake_line()):
            pass

    async def _start_tls(self, server: Server, tls: Tls) -> None:
        if self._buffer or (self._handshake_lines is not None and self._handshake_lines.qsize()):
            raise ProtocolError  # clear text after INFO must not be mistaken for encrypted data
        loop = asyncio.get_running_loop()
        name = tls.hostname or server.tls_name
        transport = await loop.start_tls(self._transport, self, tls.context(), server_hostname=name)
        assert transport is not None
        self._transport = transport

    async def _handshake_line(self) -> bytes:
        assert self._handshake_lines is not None
        line = await self._handshake_lines.get()
        if isinstance(line, Exception):
            raise line
        return line

    def _fail_handshake(self, error: Exception) -> None:
        if self._handshake_lines is not None:
            self._handshake_lines.put_nowait(error)

    def _schedule_ping(self) -> None:
        self._ping_timer = asyncio.get_running_loop().call_later(PING_INTERVAL, self._on_ping_timer)

    def _on_ping_timer(self) -> None:
        if len(self._unanswered_pings) >= MAX_UNANSWERED_PINGS:
            self.abort()
            return
        self._send_ping()
        self._schedule_ping()

    def _send_ping(self) -> asyncio.Future[None]:
        pong: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.is_lost:
            pong.set_exception(ConnectionResetError("connection lost"))
        else:
            self._unanswered_pings.append(pong)
            self.write(PING)
        return pong
