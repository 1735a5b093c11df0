"""TCP proxy on the loopback address that counts bytes and can interrupt connections.

The demonstration and benchmarks count the bytes of a link with it; tests interrupt the link.

    async with Proxy("127.0.0.1", server.port) as proxy:
        broker = await connect(f"nats://127.0.0.1:{proxy.port}")
        proxy.cut()
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from typing import Protocol, Self, cast

from thinwire.brokers.embedded import LOOPBACK

QUEUE = 65_536
"""bytes of the receive buffers in front of a lane"""
_READ = 256 * 1024
"""bytes of a read without a lane"""


class Lane(Protocol):
    """One direction of a connection that delays bytes; a subclass of `Proxy` provides it.

    held: bytes in transit; room: bytes that still fit
    """

    held: int

    @property
    def room(self) -> int: ...

    def send(self, data: bytes) -> None:
        """Accept bytes, to be delivered later."""

    def clear(self) -> None:
        """Discard the bytes in transit."""


class Proxy:
    """A proxy in front of a TCP server.

    to_broker, from_broker: bytes forwarded in each direction; connections: number of accepted clients
    paused: bytes wait until `resume`; discarding: bytes from the server are discarded
    """

    def __init__(self, target_host: str, target_port: int, *, port: int = 0) -> None:
        self.target_host, self.target_port = target_host, target_port
        self.port = port
        self.to_broker = self.from_broker = self.connections = 0
        self.paused = self.discarding = False
        self._refusing = False
        self._server: asyncio.Server | None = None
        self._ends: dict[_End, None] = {}
        self._connecting: set[asyncio.Task[None]] = set()

    def make_lane(self, deliver: Callable[[bytes], None], *, to_broker: bool) -> Lane | None:
        """Return the lane of a new connection in one direction, or None to forward bytes at once."""
        return None

    async def start(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _End(self, to_broker=True), LOOPBACK, self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def stop(self) -> None:
        """Abort all connections and stop listening."""
        self.abort_connections()
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
        await asyncio.gather(*self._connecting, return_exceptions=True)
        await asyncio.sleep(0)  # aborted sockets close in the next iteration of the loop

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def cut(self) -> None:
        """Abort all connections with the bytes in transit, and refuse new ones until `restore`."""
        self._refusing = True
        self.abort_connections()

    def restore(self) -> None:
        """Accept connections again."""
        self._refusing = False

    def pause(self) -> None:
        """Stop forwarding; bytes wait."""
        self.paused = True
        self._update_all()

    def resume(self) -> None:
        """Forward the bytes that waited, and continue."""
        self.paused = False
        self._update_all()

    def abort_connections(self) -> None:
        for task in self._connecting:
            task.cancel()
        for end in list(self._ends):
            end.abort()

    def count(self, size: int, to_broker: bool) -> None:
        if to_broker:
            self.to_broker += size
        else:
            self.from_broker += size

    def add(self, end: _End) -> None:
        self._ends[end] = None

    def remove(self, end: _End) -> None:
        self._ends.pop(end, None)

    def accept(self, client: _End) -> None:
        """Connect a new client to the server."""
        if self._refusing:
            client.abort()
            return
        self.connections += 1
        task = asyncio.create_task(self._connect(client))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _connect(self, client: _End) -> None:
        loop = asyncio.get_running_loop()
        try:
            _, server = await loop.create_connection(
                lambda: _End(self, to_broker=False), self.target_host, self.target_port
            )
        except (OSError, asyncio.CancelledError):
            client.abort()
            return
        client.pair_with(server)

    def _update_all(self) -> None:
        for end in list(self._ends):
            end.update()


class _End(asyncio.BufferedProtocol):
    """One of the two sockets of a connection. Bytes read from it are written to the other one."""

    def __init__(self, proxy: Proxy, *, to_broker: bool) -> None:
        self.to_broker = to_broker
        self._proxy = proxy
        self._transport: asyncio.Transport | None = None
        self._lane = proxy.make_lane(self._on_delivery, to_broker=to_broker)
        self._buffer = memoryview(bytearray(_READ if self._lane is None else QUEUE))
        self._other: _End | None = None
        self._waiting: deque[bytes] = deque()
        self._at_eof = False
        self._other_is_full = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._proxy.add(self)
        if self._lane is not None:
            # the default kernel buffer accepts megabytes, which would hide a full lane from the sender
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, QUEUE)
        if self.to_broker:
            self._transport.pause_reading()  # until the connection to the server exists
            self._proxy.accept(self)

    def pair_with(self, other: _End) -> None:
        if self._transport is None or other._transport is None or self._transport.is_closing():
            other.abort()
            return
        self._other, other._other = other, self
        self.update()
        other.update()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer if self._lane is None else self._buffer[: max(1, self._lane.room)]

    def buffer_updated(self, nbytes: int) -> None:
        data = bytes(self._buffer[:nbytes])
        if self._lane is not None:
            self._lane.send(data)
            self.update()
        elif self._waiting or self._proxy.paused or self._other is None:
            self._waiting.append(data)
            self.update()
        else:
            self._forward(data)

    def eof_received(self) -> bool:
        self._finish()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        if self._other is None:
            self._proxy.remove(self)
        self._finish()

    def pause_writing(self) -> None:
        if self._other is not None:
            self._other._other_is_full = True
            self._other.update()

    def resume_writing(self) -> None:
        if self._other is not None:
            self._other._other_is_full = False
            self._other.update()

    def update(self) -> None:
        """Forward waiting bytes if possible, and pause or resume reading."""
        is_blocked = self._proxy.paused or self._other is None
        while self._waiting and not is_blocked and not self._other_is_full:
            self._forward(self._waiting.popleft())
        if self._transport is not None and not self._transport.is_closing():
            is_full = self._lane is not None and not self._lane.room
            if is_blocked or self._other_is_full or self._waiting or is_full:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()
        in_transit = self._lane is not None and self._lane.held
        if self._at_eof and not self._waiting and not in_transit and not is_blocked:
            self._close_both()

    def abort(self) -> None:
        """Close the socket and discard the bytes in transit."""
        self._proxy.remove(self)
        self._waiting.clear()
        if self._lane is not None:
            self._lane.clear()
        if self._transport is not None:
            self._transport.abort()

    def _on_delivery(self, data: bytes) -> None:
        self._waiting.append(data)
        self.update()

    def _forward(self, data: bytes) -> None:
        self._proxy.count(len(data), self.to_broker)
        if self._proxy.discarding and not self.to_broker:
            return
        if self._other is not None and self._other._transport is not None:
            self._other._transport.write(data)

    def _finish(self) -> None:
        self._at_eof = True
        self.update()

    def _close_both(self) -> None:
        self._proxy.remove(self)
        for end in (self._other, self):
            if end is not None and end._transport is not None:
                end._transport.close()
