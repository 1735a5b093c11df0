"""Bytes of a socket on their way through a limited lane: what is read now goes on when its time has come.

A passage holds as many bytes as are on the line at full speed and a queue behind it; whoever reads for it stops when it
is full, so that a sender feels a narrow line as it would feel it elsewhere.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from thinwire.brokers.link_limits import Lane
from thinwire.brokers.link_limits_limits import Limit

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

    def __init__(self, lane: Lane, arrive: Callable[[bytes], None]) -> None:
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
