"""A wire that can be watched, narrowed and cut: a TCP proxy on the loopback address.

It knows nothing of what passes. Benchmarks count the bytes of a link with it, tests break the link with it, and with
limits it is as slow as a modem or a satellite, acknowledgements included.

    async with Proxy("127.0.0.1", server.port, limits=read_limits("up=56kbit,delay=150ms")) as wire:
        broker = await connect(f"nats://127.0.0.1:{wire.port}")
        wire.cut()

Bytes of a socket on their way through a limited lane: what is read now goes on when its time has come.

A passage holds as many bytes as are on the line at full speed and a queue behind it; whoever reads for it stops when it
is full, so that a sender feels a narrow line as it would feel it elsewhere.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Self, cast

from thinwire.brokers.embedded import LOOPBACK
from thinwire.brokers.link_limits import FREE, Limit, Limits, TrafficShaper, lanes

QUEUE = 65_536
"""bytes that wait in front of a narrow line"""
UNBOUNDED = 4 << 20
"""bytes on their way at once where only a delay is asked for"""
MOST = 64 << 20
EARLY = 0.0005
"""seconds: an event loop rounds a wait up to whole milliseconds, half of one on average, which is taken off here"""


def capacity(limit: Limit) -> int:
    """Bytes that a passage holds.

    >>> capacity(Limit(bandwidth=7_000, delay=0.15)), capacity(Limit(delay=0.15))
    (66586, 4194304)
    """
    if limit.bandwidth is None:
        return UNBOUNDED
    return QUEUE + min(MOST, int(limit.bandwidth * (limit.delay + limit.jitter)))


class Passage:
    """The bytes of one socket in one direction; several passages may share a lane, as connections share a line.

    arrive: told the bytes that have come through, in order

    Attributes: `held`, the bytes on their way.
    """

    def __init__(self, lane: TrafficShaper, arrive: Callable[[bytes], None]) -> None:
        self.lane = lane
        self.held = 0
        self._arrive = arrive
        self._capacity = capacity(lane.limit)
        self._packets: deque[tuple[float, bytes]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def room(self) -> int:
        """Bytes that still fit."""
        return max(0, self._capacity - self.held)

    def send(self, data: bytes) -> None:
        """Put bytes on their way."""
        now, grain = asyncio.get_running_loop().time(), self.lane.grain
        for at in range(0, len(data), grain):
            packet = data[at : at + grain]
            self._packets.append((self.lane.send(len(packet), now), packet))
        self.held += len(data)
        self._wait()

    def clear(self) -> None:
        """Lose what is on its way."""
        self._packets.clear()
        self.held = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait(self) -> None:
        if self._timer is None and self._packets:
            self._timer = asyncio.get_running_loop().call_at(self._packets[0][0] - EARLY, self._hand_on)

    def _hand_on(self) -> None:
        """Everything that is due, in one go: a loop that was busy elsewhere has nothing to catch up with later."""
        self._timer = None
        now = asyncio.get_running_loop().time() + EARLY
        due = []
        while self._packets and self._packets[0][0] <= now:
            due.append(self._packets.popleft()[1])
        data = b"".join(due)
        self.held -= len(data)
        if data:
            self._arrive(data)
        self._wait()


_READ = 256 * 1024
"""bytes that are read at once"""


class Proxy:
    """A way to a TCP server.

    limits: what it lets through, all connections together: they share the line; seed: of its jitter
    """

    def __init__(
        self, target_host: str, target_port: int, *, port: int = 0, limits: Limits = FREE, seed: int = 0
    ) -> None:
        self.target_host, self.target_port = target_host, target_port
        self.port = port
        self.limits = limits
        self.seed = seed
        self.to_broker = 0
        """bytes that clients have sent"""
        self.from_broker = 0
        """bytes that they have received"""
        self.connections = 0
        """clients that have come"""
        self.paused = False
        self.deaf = False
        """does what the broker says get lost on the way?"""
        self._refusing = False
        self._server: asyncio.Server | None = None
        self._ends: set[_End] = set()
        self._dialling: set[asyncio.Task[None]] = set()
        self._up, self._down = lanes(limits, seed)

    async def start(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _End(self, to_broker=True), LOOPBACK, self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def stop(self) -> None:
        """End everything; bytes on their way are lost."""
        self._drop()
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
        await asyncio.gather(*self._dialling, return_exceptions=True)
        await asyncio.sleep(0)  # sockets close in the next round of the loop

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def cut(self) -> None:
        """Drop every connection with what is on its way, and let nobody in until `restore`."""
        self._refusing = True
        self._drop()

    def restore(self) -> None:
        """Let clients in again."""
        self._refusing = False

    def pause(self) -> None:
        """Let nothing through; it waits."""
        self.paused = True
        for end in self._ends:
            end.look()

    def resume(self) -> None:
        """Let through what has waited."""
        self.paused = False
        for end in list(self._ends):
            end.look()

    def _drop(self) -> None:
        for task in self._dialling:
            task.cancel()
        for end in list(self._ends):
            end.abort()
        for lane in (self._up, self._down):
            lane.clear()

    def welcome(self, client: _End) -> None:
        """A client has come: find the server for it."""
        if self._refusing:
            client.abort()
            return
        self.connections += 1
        task = asyncio.create_task(self._dial(client))
        self._dialling.add(task)
        task.add_done_callback(self._dialling.discard)

    async def _dial(self, client: _End) -> None:
        loop = asyncio.get_running_loop()
        try:
            _, server = await loop.create_connection(
                lambda: _End(self, to_broker=False), self.target_host, self.target_port
            )
        except (OSError, asyncio.CancelledError):
            client.abort()
            return
        client.pair_with(server)

    def count(self, size: int, to_broker: bool) -> None:
        if to_broker:
            self.to_broker += size
        else:
            self.from_broker += size

    def enter(self, end: _End) -> Passage | None:
        """A socket is open; where its bytes must pass, None where they may go on at once."""
        self._ends.add(end)
        lane = self._up if end.to_broker else self._down
        return None if lane.limit.free else Passage(lane, end.arrive)

    def leave(self, end: _End) -> None:
        self._ends.discard(end)


class _End(asyncio.BufferedProtocol):
    """One of the two sockets of a connection; what it reads goes to the other one."""

    def __init__(self, proxy: Proxy, *, to_broker: bool) -> None:
        self.to_broker = to_broker
        self._proxy = proxy
        self._transport: asyncio.Transport | None = None
        self._passage: Passage | None = None
        self._other: _End | None = None
        self._read = memoryview(b"")
        self._waiting: deque[bytes] = deque()
        self._finished = False
        self._full = False
        """can the other socket take no more?"""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._passage = self._proxy.enter(self)
        self._read = memoryview(bytearray(_READ if self._passage is None else QUEUE))
        if self._passage is not None:
            # otherwise the kernel would take in megabytes that a narrow line has no room for
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, QUEUE)
        if self.to_broker:
            self._transport.pause_reading()  # until the server is found
            self._proxy.welcome(self)

    def pair_with(self, other: _End) -> None:
        """The two belong together from now on."""
        if self._transport is None or other._transport is None or self._transport.is_closing():
            other.abort()
            return
        self._other, other._other = other, self
        self.look()
        other.look()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._read if self._passage is None else self._read[: max(1, self._passage.room)]

    def buffer_updated(self, size: int) -> None:
        data = bytes(self._read[:size])
        if self._passage is not None:
            self._passage.send(data)
            self.look()
        elif self._waiting or self._proxy.paused or self._other is None:
            self._waiting.append(data)
            self.look()
        else:
            self._forward(data)

    def eof_received(self) -> bool:
        self._finish()
        return True

    def connection_lost(self, error: Exception | None) -> None:
        if self._other is None:
            self._proxy.leave(self)
        self._finish()

    def pause_writing(self) -> None:
        if self._other is not None:
            self._other._full = True
            self._other.look()

    def resume_writing(self) -> None:
        if self._other is not None:
            self._other._full = False
            self._other.look()

    def look(self) -> None:
        """Send what may go now, and read on or wait."""
        stop = self._proxy.paused or self._other is None
        while self._waiting and not stop and not self._full:
            self._forward(self._waiting.popleft())
        if self._transport is not None and not self._transport.is_closing():
            if stop or self._full or self._waiting or (self._passage is not None and not self._passage.room):
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()
        if self._finished and not self._waiting and not self._held and not stop:
            self._close_both()

    def arrive(self, data: bytes) -> None:
        """Bytes have come through the line."""
        self._waiting.append(data)
        self.look()

    def abort(self) -> None:
        """End without sending the rest."""
        self._proxy.leave(self)
        self._waiting.clear()
        if self._passage is not None:
            self._passage.clear()
        if self._transport is not None:
            self._transport.abort()

    @property
    def _held(self) -> int:
        return 0 if self._passage is None else self._passage.held

    def _forward(self, data: bytes) -> None:
        self._proxy.count(len(data), self.to_broker)
        if self._proxy.deaf and not self.to_broker:
            return
        if self._other is not None and self._other._transport is not None:
            self._other._transport.write(data)

    def _finish(self) -> None:
        self._finished = True
        self.look()

    def _close_both(self) -> None:
        self._proxy.leave(self)
        for end in (self._other, self):
            if end is not None and end._transport is not None:
                end._transport.close()
