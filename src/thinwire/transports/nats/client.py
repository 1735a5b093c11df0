"""The one file that knows the insides of nats-py.

nats-py connects, authenticates, reconnects and reads the protocol. Three of its habits are changed here:

- a message goes straight from the parser to whoever asked for it (an `Inlet`, called at once, which must not block or
  raise): queues and tasks in between cost more than all the rest;
- a command is written to the socket at once instead of waking a task that does;
- what the server complains about never closes the client for good: where the server hangs up, it comes back.

It never sends credentials in the clear to a server that was to speak TLS.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from nats import errors
from nats.aio.client import Client as NatsClient
from nats.aio.client import Srv
from nats.aio.subscription import Subscription

Inlet = Callable[[bytes, bytes, bytes, bytes | None], None]
"""subject, reply subject, payload, header block"""

log = logging.getLogger("thinwire.transports.nats")


class NoTls(errors.Error):
    """The server offers no TLS and this client insists on it."""

    def __str__(self) -> str:
        return "the server offers no TLS"


class Client(NatsClient):
    """A connection that comes back by itself."""

    def __init__(self, *, insist_on_tls: bool = False) -> None:
        super().__init__()
        self._insist_on_tls = insist_on_tls
        self._inlets: dict[int, Inlet] = {}

    @property
    def version(self) -> str:
        """The version of the server."""
        return str(self._server_info.get("version", "unknown"))

    @property
    def encrypted(self) -> bool:
        return bool(self._server_info.get("tls_required"))

    def attach(self, subject: str, inlet: Inlet) -> int:
        """Let what comes under subjects that match go into the inlet, across reconnects."""
        self._sid += 1
        self._inlets[self._sid] = inlet
        self._subs[self._sid] = Subscription(self, self._sid, subject)  # from here they are said again on a reconnect
        if self.is_connected:
            self.write(b"SUB %b  %d\r\n" % (subject.encode(), self._sid))
        return self._sid

    def detach(self, sid: int) -> None:
        """Let no more come."""
        self._inlets.pop(sid, None)
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
        with suppress(TimeoutError, OSError):
            async with asyncio.timeout(patience):
                await self.close()
        self.hang_up()
        await asyncio.gather(*(task for task in tasks if task is not None), return_exceptions=True)

    def hang_up(self) -> None:
        """Cut the connection, with whatever is still on its way; it comes back by itself."""
        writer = getattr(self._transport, "_io_writer", None)
        if writer is not None:
            writer.transport.abort()

    async def _connect_to_server(self, s: Srv) -> None:
        self.hang_up()  # nats-py forgets the socket of an attempt that failed half-way
        await super()._connect_to_server(s)

    async def _attempt_reconnect(self) -> None:
        self.hang_up()  # nats-py would wait, for ever if need be, until a peer that is gone has read the rest
        await super()._attempt_reconnect()

    def _connect_command(self) -> bytes:
        if self._insist_on_tls and not self.encrypted:
            raise NoTls
        command: bytes = super()._connect_command()
        return command

    async def _process_err(self, err_msg: str) -> None:
        await self._error_cb(errors.Error(err_msg.strip("'")))

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes | None) -> None:
        inlet = self._inlets.get(sid)
        if inlet is None:
            return
        try:
            inlet(subject, reply, data, headers)
        except Exception:
            log.exception("a message could not be taken in: %r", subject)
