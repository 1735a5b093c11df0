"""Hosts with cores of their own on a machine that has not as many: a message occupies a core by timer.

Busy topics share the cores evenly and every busy core slows the others a little, as in
`thinwire.placement.queue_simulator`, but in real time: what is left of every service runs down at the pace of the
moment.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from hashlib import blake2b

import numpy as np

from thinwire.edge.topic_worker_workers import Outcome
from thinwire.placement import Host


class VirtualCores:
    """The cores of one emulated host."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._work = 0.0
        """what a service that never ended would have got by now, in seconds of a core"""
        self._since = 0.0
        self._busy: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def pace(self) -> float:
        """How fast each busy topic gets on, against a core to itself."""
        busy, cores = max(1, len(self._busy)), self.host.cores
        return min(1.0, cores / busy) / (1.0 + self.host.contention * (min(busy, cores) - 1))

    async def occupy(self, seconds: float) -> None:
        """Occupy a core until so many seconds of it were had."""
        self._advance()
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (self._work + seconds, next(self._order), done)
        heapq.heappush(self._busy, entry)
        self._schedule()
        try:
            await done
        finally:
            if entry in self._busy:  # whoever waits was cancelled
                self._advance()
                self._busy.remove(entry)
                heapq.heapify(self._busy)
                self._schedule()

    def _advance(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._busy:
            self._work += (now - self._since) * self.pace
        self._since = now

    def _schedule(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._busy:
            left = max(0.0, self._busy[0][0] - self._work) / self.pace
            self._timer = asyncio.get_running_loop().call_later(left, self._due)

    def _due(self) -> None:
        self._advance()
        while self._busy and self._busy[0][0] <= self._work + 1e-9:
            done = heapq.heappop(self._busy)[2]
            if not done.done():
                done.set_result(None)
        self._schedule()


class TimedWorker:
    """Work that is only time: every message takes what its topic says, spread a little, and is its own result."""

    def __init__(self, cores: VirtualCores, interval: float) -> None:
        self.cores = cores
        self.interval = interval

    async def start(self) -> None:
        """There is nothing to load."""

    async def process(self, body: bytes, seconds: float) -> Outcome:
        mean = self.interval / self.cores.host.speed
        shape = 1.0 / self.cores.host.spread**2
        dice = np.random.Generator(np.random.PCG64(int.from_bytes(blake2b(body, digest_size=8).digest())))
        work = float(dice.gamma(shape, mean / shape))
        start = time.time()
        await self.cores.occupy(work)
        return Outcome("result", body, start, time.time(), work)

    async def close(self) -> None:
        """There is nothing to end."""
