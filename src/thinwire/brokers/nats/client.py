"""The one file that knows the insides of nats-py.

nats-py connects, authenticates, reconnects and reads the protocol. Three of its habits are changed here:

- what arrives is taken apart at once and goes straight to whoever asked for it: the queues and tasks in between cost
  more than all the rest;
- a command is written to the socket at once instead of waking a task that does;
- what the server complains about never closes the client for good: where the server hangs up, it comes back.

It never sends credentials in the clear to a server that was to speak TLS.

What a NATS server sends, taken apart as it arrives, without a task in between.

Messages go straight into their inlets. Everything else is rare and waits in a queue for the client's reading task.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, cast

from nats import errors
from nats.aio.client import Client as NatsClient
from nats.aio.client import Srv
from nats.aio.subscription import Subscription
from nats.aio.transport import TcpTransport

MessageHandler = Callable[[bytes, bytes, bytes, bytes | None], None]
"""subject, reply subject, payload, header block; called at once, so it must not block"""

log = logging.getLogger("thinwire.brokers.nats")

MAX_LINE = 1 << 20
"""bytes of a line; longer ones are not NATS"""
_MSG, _HMSG = ord("M"), ord("H")


class NatsDataProtocol(asyncio.Protocol):
    """Stands in front of the stream protocol of a connection, and passes on to it all but the data.

    odd: lines that are no messages, and None at the end
    """

    def __init__(self, handlers: Mapping[int, MessageHandler], behind: asyncio.BaseProtocol) -> None:
        self.odd: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._handlers = handlers
        self._behind = cast(asyncio.Protocol, behind)
        self._parts: list[bytes] = []
        self._missing = 0
        """bytes until it is worth looking again"""

    def data_received(self, data: bytes) -> None:
        if self._parts:
            self._parts.append(data)
            self._missing -= len(data)
            if self._missing > 0:
                return
            data = b"".join(self._parts)
            self._parts.clear()
        try:
            at = self._take_apart(data)
        except (ValueError, IndexError):
            raise ConnectionError("not a NATS server") from None
        if at < len(data):
            self._parts.append(data[at:] if at else data)

    def eof_received(self) -> None:
        """The server has hung up: nothing is said to it any more."""

    def connection_lost(self, error: Exception | None) -> None:
        self.odd.put_nowait(None)
        self._behind.connection_lost(error)

    def pause_writing(self) -> None:
        self._behind.pause_writing()

    def resume_writing(self) -> None:
        self._behind.resume_writing()

    def _take_apart(self, data: bytes) -> int:
        """How much of the data is done with."""
        at, end = 0, len(data)
        while (stop := data.find(b"\r\n", at)) >= 0:
            if data[at] not in (_MSG, _HMSG):
                self.odd.put_nowait(data[at:stop])
                at = stop + 2
                continue
            words = data[at:stop].split()
            begin = stop + 2
            after = begin + int(words[-1])
            if after + 2 > end:
                self._missing = after + 2 - end
                return at
            block = int(words[-2]) if data[at] == _HMSG else 0
            self._hand_on(words, data[begin : begin + block] if block else None, data[begin + block : after])
            at = after + 2
        self._missing = 1
        if end - at > MAX_LINE:
            raise ConnectionError("not a NATS server")
        return at

    def _hand_on(self, words: list[bytes], headers: bytes | None, payload: bytes) -> None:
        handler = self._handlers.get(int(words[2]))
        if handler is None:
            return
        reply = words[3] if len(words) == (5 if headers is None else 6) else b""
        try:
            handler(words[1], reply, payload, headers)
        except Exception:
            log.exception("a message could not be taken in: %r", words[1])


INSISTING = 0.1
"""seconds before a task that was cancelled and goes on is cancelled again"""


async def ended(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks until they have ended; what they ended with is of no interest.

    Once is not enough: where what is waited for with a limit fails just then, Python 3.11 lets that failure through
    instead of the cancellation, and nats-py takes it for another attempt that did not succeed.
    """
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=INSISTING)
    await asyncio.gather(*tasks, return_exceptions=True)


class NoTls(errors.Error):
    """The server offers no TLS and this client insists on it."""

    def __str__(self) -> str:
        return "the server offers no TLS"


class Client(NatsClient):
    """A connection that comes back by itself."""

    def __init__(self, *, insist_on_tls: bool = False) -> None:
        super().__init__()
        self._insist_on_tls = insist_on_tls
        self._handlers: dict[int, MessageHandler] = {}
        self._attempt: asyncio.Task[None] | None = None

    @property
    def version(self) -> str:
        """The version of the server."""
        return str(self._server_info.get("version", "unknown"))

    @property
    def encrypted(self) -> bool:
        return bool(self._server_info.get("tls_required"))

    def attach(self, subject: str, handler: MessageHandler) -> int:
        """Let what comes under subjects that match go into the inlet, across reconnects."""
        self._sid += 1
        self._handlers[self._sid] = handler
        self._subs[self._sid] = Subscription(self, self._sid, subject)  # from here they are said again on a reconnect
        if self.is_connected:
            self.write(b"SUB %b  %d\r\n" % (subject.encode(), self._sid))
        return self._sid

    def detach(self, sid: int) -> None:
        """Let no more come."""
        self._handlers.pop(sid, None)
        if self._subs.pop(sid, None) is not None and self.is_connected:
            self.write(b"UNSUB %d\r\n" % sid)

    def write(self, command: bytes) -> None:
        """Send a command, after those that nats-py holds back."""
        transport = self._transport
        assert transport is not None
        if self._pending:
            transport.writelines(self._pending)
            self._pending = []
            self._pending_data_size = 0
        transport.write(command)

    async def room(self) -> None:
        """Wait until the socket takes more."""
        transport = self._transport
        if transport is not None:
            await transport.drain()  # type: ignore[no-untyped-call]

    async def leave(self, patience: float) -> None:
        """Close, in bounded time, and wait for the tasks."""
        tasks = [self._reading_task, self._ping_interval_task, self._flusher_task, self._reconnection_task]
        if self._flush_queue is not None:  # otherwise it has never been connected
            with suppress(TimeoutError, OSError):
                async with asyncio.timeout(patience):
                    await self.close()
        self.hang_up()
        await ended(*(task for task in tasks if task is not None))

    def hang_up(self) -> None:
        """Cut the connection, with whatever is still on its way; it comes back by itself."""
        if self._transport:
            self._streams()[1].transport.abort()

    async def _connect_to_server(self, s: Srv) -> None:
        self.hang_up()  # nats-py forgets the socket of an attempt that failed half-way
        await super()._connect_to_server(s)

    async def _attempt_reconnect(self) -> None:
        before, self._attempt = self._attempt, asyncio.current_task()
        if before is not None:  # nats-py cancels it and would let both connect at the same time
            await ended(before)
        self.hang_up()  # nats-py would wait, for ever if need be, until a peer that is gone has read the rest
        await super()._attempt_reconnect()

    async def _process_connect_init(self) -> None:
        # nats-py starts these anew, and forgets those of an attempt that failed half-way
        for task in (self._reading_task, self._ping_interval_task, self._flusher_task):
            if task is not None:
                task.cancel()
        await super()._process_connect_init()

    def _connect_command(self) -> bytes:
        if self._insist_on_tls and not self.encrypted:
            raise NoTls
        command: bytes = super()._connect_command()
        return command

    async def _read_loop(self) -> None:
        with suppress(OSError):
            intake = self._put_intake_in_front()
            while (line := await intake.odd.get()) is not None:
                await self._take_line(line)
        if not self.is_closed and not self.is_reconnecting:
            await self._process_op_err(errors.UnexpectedEOF())

    def _put_intake_in_front(self) -> NatsDataProtocol:
        """From here on nothing goes through the stream reader; what is in it already comes first."""
        reader, writer = self._streams()
        early = bytes(reader._buffer)  # type: ignore[attr-defined]
        reader._buffer.clear()  # type: ignore[attr-defined]
        transport = writer.transport
        intake = NatsDataProtocol(self._handlers, transport.get_protocol())
        transport.set_protocol(intake)
        intake.data_received(early)
        if reader.at_eof() or transport.is_closing():
            intake.odd.put_nowait(None)
        return intake

    def _streams(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        transport = self._transport
        assert isinstance(transport, TcpTransport)
        assert transport._io_reader is not None
        assert transport._io_writer is not None
        return transport._io_reader, transport._io_writer

    async def _take_line(self, line: bytes) -> None:
        kind, _, rest = line.partition(b" ")
        if kind == b"PING":
            self.write(b"PONG\r\n")
        elif kind == b"PONG":
            self._take_pong()
        elif kind == b"INFO":
            await self._process_info(json.loads(rest))
        elif kind == b"-ERR":
            await self._error_cb(errors.Error(rest.decode("utf-8", "replace").strip("'").lower()))

    def _take_pong(self) -> None:
        self._pings_outstanding = 0
        if self._pongs and not (pong := self._pongs.pop(0)).done():
            pong.set_result(True)
