"""Proxy with limited bandwidth and delay, for measurements over slow links.

    async with ShapedProxy("127.0.0.1", server.port, limits=read_limits("up=56kbit,delay=150ms")) as proxy:
        broker = await connect(f"nats://127.0.0.1:{proxy.port}")

All connections through one proxy share its bandwidth. A lane holds the bytes that are in transit at full speed and a
queue; then the proxy stops reading, so that a sender experiences the narrow link.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable

from thinwire.brokers.proxy import Proxy
from thinwire_lab.live.link_limits import FREE, Limit, Limits, TrafficShaper, shapers

QUEUE = 65_536
"""bytes that wait in front of a lane; also the size of a kernel buffer"""
UNBOUNDED = 4 << 20
"""bytes in transit if only a delay is given"""
MAX_CAPACITY = 64 << 20
EARLY = 0.0005
"""seconds that a timer is set early: the event loop rounds up to milliseconds, on average by half of one"""


def capacity(limit: Limit) -> int:
    """Return the bytes that a lane holds.

    >>> capacity(Limit(bandwidth=7_000, delay=0.15)), capacity(Limit(delay=0.15))
    (66586, 4194304)
    """
    if limit.bandwidth is None:
        return UNBOUNDED
    return QUEUE + min(MAX_CAPACITY, int(limit.bandwidth * (limit.delay + limit.jitter)))


class ShapedLane:
    """The bytes of one connection in one direction. Several lanes can share a shaper.

    held: bytes in transit
    """

    def __init__(self, shaper: TrafficShaper, deliver: Callable[[bytes], None]) -> None:
        self.shaper = shaper
        self.held = 0
        self._deliver = deliver
        self._capacity = capacity(shaper.limit)
        self._packets: deque[tuple[float, bytes]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._delivered = asyncio.Event()

    @property
    def room(self) -> int:
        """Number of bytes that still fit."""
        return max(0, self._capacity - self.held)

    async def send(self, data: bytes) -> None:
        """Accept bytes, to be delivered later, and wait until there is room for more."""
        now, size = asyncio.get_running_loop().time(), self.shaper.packet_size
        for begin in range(0, len(data), size):
            packet = data[begin : begin + size]
            self._packets.append((self.shaper.send(len(packet), now), packet))
        self.held += len(data)
        self._schedule()
        while not self.room:
            await self._wait()

    async def flush(self) -> None:
        """Wait until all bytes are delivered."""
        while self.held:
            await self._wait()

    def clear(self) -> None:
        """Discard the bytes in transit."""
        self._packets.clear()
        if self._timer is not None:
            self._timer.cancel()

    async def _wait(self) -> None:
        self._delivered.clear()
        await self._delivered.wait()

    def _schedule(self) -> None:
        if self._timer is None and self._packets:
            self._timer = asyncio.get_running_loop().call_at(self._packets[0][0] - EARLY, self._deliver_due)

    def _deliver_due(self) -> None:
        """Deliver all due packets at once, so that a busy loop does not fall behind."""
        self._timer = None
        now = asyncio.get_running_loop().time() + EARLY
        due = []
        while self._packets and self._packets[0][0] <= now:
            due.append(self._packets.popleft()[1])
        data = b"".join(due)
        self.held -= len(data)
        if data:
            self._deliver(data)
            self._delivered.set()
        self._schedule()


class ShapedProxy(Proxy):
    """A proxy whose connections together stay within `limits`. `seed` determines the jitter."""

    def __init__(
        self, target_host: str, target_port: int, *, port: int = 0, limits: Limits = FREE, seed: int = 0
    ) -> None:
        super().__init__(target_host, target_port, port=port)
        self.limits = limits
        self.seed = seed
        self._up, self._down = shapers(limits, seed)

    async def forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, to_broker: bool) -> None:
        # the default kernel buffer accepts megabytes, which would hide a full lane from the sender
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, QUEUE)
        shaper = self._up if to_broker else self._down
        if shaper.limit.is_free:
            await super().forward(reader, writer, to_broker)
            return
        lane = ShapedLane(shaper, lambda data: self.write(writer, data, to_broker))
        try:
            while data := await reader.read(min(QUEUE, lane.room)):
                await lane.send(data)
                await writer.drain()
            await lane.flush()
        finally:
            lane.clear()

    def abort_connections(self) -> None:
        super().abort_connections()
        for shaper in (self._up, self._down):
            shaper.clear()
