"""Load with a schedule fixed in advance: what is late to be sent is still counted from when it was due.

Edge hosts as processes.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from thinwire.brokers.broker_url import open_broker, read_url
from thinwire.brokers.protocol import Broker
from thinwire.edge import EdgeHost, EdgeHostDocument, EdgePublisher, read_edge
from thinwire.edge.edge_host import running_host
from thinwire.edge.latency_report import LatencyMeter
from thinwire.ledger.histogram import Histogram
from thinwire.placement.hosts import Vector
from thinwire_lab.live.edge.host_emulation import emulated_workers
from thinwire_lab.placement.queue_simulator import Arrivals

QUIET = 3.0
"""seconds without a result after which no more are expected"""


@dataclass(frozen=True)
class TopicStream:
    """The messages of one topic: when each is due, in seconds from the start, what it holds, and how many publish."""

    topic: str
    times: Vector
    body: bytes = b"0"
    publishers: int = 1


class Late(NamedTuple):
    """One message that came through: when it was due, and how long it took."""

    due: float
    latency: float


def schedule(rate: float, seconds: float, arrivals: Arrivals, dice: np.random.Generator) -> Vector:
    """Instants at which messages are due, all drawn before the first is sent.

    >>> schedule(4, 1.0, "periodic", np.random.default_rng(1)).round(2).tolist()
    [0.13, 0.38, 0.63, 0.88]
    """
    if arrivals == "periodic":
        return np.asarray((np.arange(max(1, round(rate * seconds))) + dice.random()) / rate, np.float64)
    return np.sort(dice.random(max(1, int(dice.poisson(rate * seconds)))) * seconds)


async def send(broker: Broker, streams: Sequence[TopicStream], start: float) -> Histogram:
    """Send every message when it is due, from `start` (seconds since the epoch) on; how late they were sent."""
    lateness = Histogram()
    async with asyncio.TaskGroup() as group:
        for stream in streams:
            group.create_task(_send(broker, stream, start, lateness))
    return lateness


async def _send(broker: Broker, stream: TopicStream, start: float, lateness: Histogram) -> None:
    publishers = [EdgePublisher(broker, stream.topic, f"load-{n}") for n in range(stream.publishers)]
    for number, offset in enumerate(stream.times.tolist()):
        due = start + offset
        await asyncio.sleep(max(0.0, due - time.time()))
        lateness.add(max(0.0, time.time() - due))
        publisher = publishers[number % len(publishers)]
        await publisher.publish(b"%b %d" % (stream.body, number), id=f"{stream.topic}/{number}", due=due)


class Collector:
    """A subscriber of results: what came, when, and what came twice."""

    def __init__(self, broker: Broker, topics: Sequence[str]) -> None:
        self.met: dict[str, dict[str, Late]] = {topic: {} for topic in topics}
        self.repeated = 0
        self._broker = broker
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Collector:
        self._tasks = [asyncio.create_task(self._follow(topic)) for topic in self.met]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def count(self) -> int:
        return sum(map(len, self.met.values()))

    async def complete(self, expected: int, patience: float) -> None:
        """Wait until so many have come, at most so many seconds beyond the last that came."""
        seen, since = -1, time.monotonic()
        while self.count < expected and time.monotonic() - since < patience:
            if self.count != seen:
                seen, since = self.count, time.monotonic()
            await asyncio.sleep(0.1)

    async def _follow(self, topic: str) -> None:
        met = self.met[topic]
        async for _, result in read_edge(self._broker, f"{topic}.out"):
            self.repeated += result.id in met
            met.setdefault(result.id, Late(result.due, max(0.0, time.time() - result.due)))


class EdgeHostRole:
    """A host; it tells how its topics did.

    emulated: cores by timer; pinned: the processors it may use, any where empty
    """

    def __init__(
        self, url: str, about: dict[str, Any], emulated: bool, pinned: Sequence[int] = (), path: Sequence[str] = ()
    ) -> None:
        self.url, self.about, self.emulated = url, EdgeHostDocument(**about), emulated
        self.pinned, self.path = pinned, path
        self._stack = AsyncExitStack()
        self._host: EdgeHost | None = None

    async def open(self) -> None:
        if self.pinned and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, self.pinned)
        broker, _ = await open_broker(read_url(self.url), {}, self._stack)
        worker = emulated_workers(self.about.placed) if self.emulated else None
        self._host = EdgeHost(broker, self.about, path=self.path, worker=worker)
        await self._stack.enter_async_context(running_host(self._host))

    async def obey(self, command: dict[str, Any]) -> dict[str, Any]:
        """Whatever it is told: the work on every topic that it has, by the wall and by the processor."""
        assert self._host is not None
        return {topic: _worked(work.times) for topic, work in self._host.active_work.items()}

    async def close(self) -> None:
        await self._stack.aclose()


def _worked(times: LatencyMeter) -> dict[str, Any]:
    return {
        "messages": times.work.count,
        "wall": times.work.value,
        "cpu": times.work_cpu.value,
        "spread": times.work_cpu.spread,
        "stretch": (times.wall.quantile(0.99) or 0.0) / (times.cpu.quantile(0.99) or 1.0),
    }
