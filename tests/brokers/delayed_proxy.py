"""Proxy that delays every byte by a constant time, so that tests can interrupt messages in transit."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from thinwire.brokers.proxy import Proxy

CAPACITY = 4 << 20


class DelayLane:
    """Delivers bytes after a constant delay."""

    def __init__(self, delay: float, deliver: Callable[[bytes], None]) -> None:
        self.delay = delay
        self.held = 0
        self._deliver = deliver
        self._packets: deque[bytes] = deque()

    @property
    def room(self) -> int:
        return max(0, CAPACITY - self.held)

    def send(self, data: bytes) -> None:
        self._packets.append(data)
        self.held += len(data)
        asyncio.get_running_loop().call_later(self.delay, self._deliver_next)

    def clear(self) -> None:
        self._packets.clear()
        self.held = 0

    def _deliver_next(self) -> None:
        if self._packets:
            data = self._packets.popleft()
            self.held -= len(data)
            self._deliver(data)


class DelayedProxy(Proxy):
    """A proxy with `delay` seconds in each direction."""

    def __init__(self, target_host: str, target_port: int, *, delay: float) -> None:
        super().__init__(target_host, target_port)
        self.delay = delay

    def make_lane(self, deliver: Callable[[bytes], None], *, to_broker: bool) -> DelayLane:
        return DelayLane(self.delay, deliver)
