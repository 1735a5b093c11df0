"""Emulated edge hosts: workers that occupy virtual cores for a time instead of computing.

More hosts with more cores can run on one machine than it has. Busy topics share the virtual cores evenly, and every
busy core slows the others down by the host's contention, in real time.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable
from hashlib import blake2b

import numpy as np

from thinwire.edge import EdgeTopic
from thinwire.edge.topic_worker import TopicWorker, WorkerOutcome
from thinwire.placement import Host


class VirtualCores:
    """The cores of one emulated host."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._work = 0.0
        """seconds of a core that a task would have received if it had run since the start"""
        self._updated_at = 0.0
        self._busy: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def speed(self) -> float:
        """Progress of each busy topic, relative to a core of its own."""
        busy, cores = max(1, len(self._busy)), self.host.cores
        return min(1.0, cores / busy) / (1.0 + self.host.contention * (min(busy, cores) - 1))

    async def occupy(self, seconds: float) -> None:
        """Wait until this many seconds of a core were received."""
        self._advance()
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (self._work + seconds, next(self._order), done)
        heapq.heappush(self._busy, entry)
        self._schedule()
        try:
            await done
        finally:
            if entry in self._busy:  # the waiting task was cancelled
                self._advance()
                self._busy.remove(entry)
                heapq.heapify(self._busy)
                self._schedule()

    def _advance(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._busy:
            self._work += (now - self._updated_at) * self.speed
        self._updated_at = now

    def _schedule(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._busy:
            left = max(0.0, self._busy[0][0] - self._work) / self.speed
            self._timer = asyncio.get_running_loop().call_later(left, self._complete_due)

    def _complete_due(self) -> None:
        self._advance()
        while self._busy and self._busy[0][0] <= self._work + 1e-9:
            done = heapq.heappop(self._busy)[2]
            if not done.done():
                done.set_result(None)
        self._schedule()


class TimedWorker:
    """A worker whose messages take the topic's interval on average and are returned as their own results."""

    def __init__(self, cores: VirtualCores, interval: float) -> None:
        self.cores = cores
        self.interval = interval

    async def start(self) -> None:
        """Nothing to load."""

    async def process(self, body: bytes, seconds: float) -> WorkerOutcome:
        mean = self.interval / self.cores.host.speed
        shape = 1.0 / self.cores.host.spread**2
        seed = int.from_bytes(blake2b(body, digest_size=8).digest())
        work = float(np.random.Generator(np.random.PCG64(seed)).gamma(shape, mean / shape))
        start = time.time()
        await self.cores.occupy(work)
        return WorkerOutcome("result", body, start, time.time(), work)

    async def close(self) -> None:
        """Nothing to end."""


def emulated_workers(host: Host) -> Callable[[EdgeTopic], TopicWorker]:
    """Return a worker factory for `EdgeHost` whose workers share the virtual cores of `host`."""
    cores = VirtualCores(host)
    return lambda topic: TimedWorker(cores, topic.interval)
