"""Load of edge topics with a schedule that is fixed in advance, and edge hosts as processes.

Latency counts from the instant at which a message is due, also if it is sent late.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from thinwire.brokers.protocol import Broker
from thinwire.edge import EdgeHost, EdgeHostDocument, EdgePublisher, EdgeTopic, read_edge
from thinwire.edge.edge_host import running_host
from thinwire.edge.topic_worker import ProcessWorker, TopicWorker, WorkerOutcome
from thinwire.ledger.histogram import Histogram
from thinwire.placement.hosts import Vector
from thinwire_lab.live.edge.host_emulation import emulated_workers
from thinwire_lab.live.service_roles import ServiceRole
from thinwire_lab.placement.queue_simulator import Arrivals


@dataclass(frozen=True)
class TopicStream:
    """The messages of one topic: due times in seconds from the start, the body, and the number of publishers."""

    topic: str
    times: Vector
    body: bytes = b"0"
    publishers: int = 1


class EdgeDelivery(NamedTuple):
    """A result: when its message was due, and how long it took."""

    due: float
    latency: float


def schedule(rate: float, seconds: float, arrivals: Arrivals, generator: np.random.Generator) -> Vector:
    """Return the instants at which messages are due.

    >>> schedule(4, 1.0, "periodic", np.random.default_rng(1)).round(2).tolist()
    [0.13, 0.38, 0.63, 0.88]
    """
    if arrivals == "periodic":
        return np.asarray((np.arange(max(1, round(rate * seconds))) + generator.random()) / rate, np.float64)
    return np.sort(generator.random(max(1, int(generator.poisson(rate * seconds)))) * seconds)


async def send(broker: Broker, streams: Sequence[TopicStream], start: float) -> Histogram:
    """Send every message when it is due; `start` is in seconds since the epoch. Return how late they were sent."""
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
    """A subscriber of results. `deliveries` has the first result of each message by topic and id."""

    def __init__(self, broker: Broker, topics: Sequence[str]) -> None:
        self.deliveries: dict[str, dict[str, EdgeDelivery]] = {topic: {} for topic in topics}
        self.repeated = 0
        self._broker = broker
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Collector:
        self._tasks = [asyncio.create_task(self._follow(topic)) for topic in self.deliveries]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def count(self) -> int:
        return sum(map(len, self.deliveries.values()))

    async def wait_for(self, expected: int, timeout: float) -> None:
        """Wait until `expected` results have arrived, or none arrives for `timeout` seconds."""
        count, since = -1, time.monotonic()
        while self.count < expected and time.monotonic() - since < timeout:
            if self.count != count:
                count, since = self.count, time.monotonic()
            await asyncio.sleep(0.1)

    async def _follow(self, topic: str) -> None:
        deliveries = self.deliveries[topic]
        async for _, result in read_edge(self._broker, f"{topic}.out"):
            self.repeated += result.id in deliveries
            deliveries.setdefault(result.id, EdgeDelivery(result.due, max(0.0, time.time() - result.due)))


class RecordingWorker:
    """Records how long another worker takes for its messages: seconds by the clock, and of the processor."""

    def __init__(self, worker: TopicWorker) -> None:
        self._worker = worker
        self._wall: list[float] = []
        self._cpu: list[float] = []

    async def start(self) -> None:
        await self._worker.start()

    async def process(self, body: bytes, seconds: float) -> WorkerOutcome:
        outcome = await self._worker.process(body, seconds)
        self._wall.append(outcome.end - outcome.start)
        self._cpu.append(outcome.cpu)
        return outcome

    async def close(self) -> None:
        await self._worker.close()

    def describe(self) -> dict[str, Any]:
        """Return the number of messages, their mean times, and the spread of the processor time relative to its mean.

        stretch: 99th percentile of the time by the clock relative to that of the processor time
        """
        wall, cpu = np.array(self._wall or [0.0]), np.array(self._cpu or [0.0])
        return {
            "messages": len(self._wall),
            "wall": float(wall.mean()),
            "cpu": float(cpu.mean()),
            "spread": float(cpu.std() / (cpu.mean() or 1.0)),
            "stretch": float(np.quantile(wall, 0.99) / (np.quantile(cpu, 0.99) or 1.0)),
        }


class EdgeHostRole(ServiceRole):
    """An edge host.

    emulated: whether messages occupy virtual cores instead of computing
    pinned: processors that the process may use, any if empty
    """

    def __init__(
        self, url: str, about: dict[str, Any], emulated: bool, pinned: Sequence[int] = (), path: Sequence[str] = ()
    ) -> None:
        super().__init__(url)
        self.about, self.emulated = EdgeHostDocument(**about), emulated
        self.pinned, self.path = pinned, path
        self._workers: dict[str, RecordingWorker] = {}

    async def open(self) -> None:
        if self.pinned and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, self.pinned)
        await super().open()

    async def run_service(self, broker: Broker) -> None:
        emulated = emulated_workers(self.about.placed)

        def create_worker(topic: EdgeTopic) -> TopicWorker:
            worker = emulated(topic) if self.emulated else ProcessWorker(topic.function, topic.megabytes, self.path)
            recording = self._workers[topic.topic] = RecordingWorker(worker)
            return recording

        host = EdgeHost(broker, self.about, worker=create_worker)
        await self.resources.enter_async_context(running_host(host))

    async def do_work_times(self) -> dict[str, Any]:
        """Return the seconds of work of every topic, by the clock and of the processor."""
        return {topic: worker.describe() for topic, worker in self._workers.items()}
