"""A thousand subscribers in ten classes on a hundred thousand sources: what does their translator do, and need?

Very many sources that say a few things each: one reading, ten tolerances, every event known beforehand.

>>> course = sweep_course(sources=8, publishers=2)
>>> course.names[:2], course.counts.tolist(), course.at(0).ravel().tolist()[:3]
(['p0-000000', 'p0-000001'], [3, 3, 3, 3, 3, 3, 3, 3], [209, 226, 218])
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import thinwire as tw
from thinwire.brokers.protocol import Broker
from thinwire.client import Publisher, Subscription
from thinwire.demo.process_group import ProcessGroup, WorkerProcess
from thinwire.schema import Property, Schema
from thinwire.topics.registry_client import open_registry, put_subscription
from thinwire.topics.topic_documents import SubscriptionDocument
from thinwire_lab.live.delivery_audit import Findings, Record, strictly
from thinwire_lab.live.live_feed import STEP, EventCourse, changes, in_ticks
from thinwire_lab.live.load_chain import IN_MEMORY
from thinwire_lab.live.process_measurement import ProcessSampler
from thinwire_lab.live.service_roles import wait_for_channels

TOPIC = "bench.sweep"
READING = "level"
TOLERANCES = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0)
ROUNDS = 3
"""events of each source: one makes it known, two more follow"""
START = 1_700_000_000_000_000
PERIOD = 1_000_000
SEED = 11
SLICE = 2_000
_MOVES = (6, 60)
"""ticks by which a reading moves from one event to the next: always more than the strictest asks"""
_POLL = 0.05


def sweep_schema() -> Schema:
    """A timestamp, the source, one measurement."""
    stamp = Property("time", "timestamp", "header", form="epoch", step=1)
    return Schema(
        TOPIC, [stamp, Property("sensor", "string", "dimension"), Property(READING, "number", step=str(float(STEP)))]
    )


def sweep_course(sources: int, publishers: int) -> EventCourse:
    """All events, the sources of the first publisher first."""
    rng = np.random.default_rng(SEED)
    each = sources // publishers
    moves = rng.integers(*_MOVES, (sources, ROUNDS - 1, 1)) * rng.choice([-1, 1], (sources, ROUNDS - 1, 1))
    first = rng.integers(200, 240, (sources, 1, 1))
    return EventCourse(
        readings=(READING,),
        names=[f"p{k}-{number:06d}" for k in range(publishers) for number in range(each)],
        counts=np.full(sources, ROUNDS),
        offsets=np.arange(sources),
        period=PERIOD,
        cycle=np.concatenate([first, first + np.cumsum(moves, axis=1)], axis=1),
    )


def events_of(course: EventCourse, first: int, last: int) -> Iterator[dict[str, Any]]:
    """The events of sources from `first` to before `last`, round by round."""
    for step in range(course.steps):
        values = (course.at(step)[first:last, 0] * float(STEP)).round(1).tolist()
        for source, value in enumerate(values, start=first):
            time = START + step * course.period + int(course.offsets[source])
            yield {"time": time, "sensor": course.names[source], READING: value}


class SweepingRole:
    """Publishes its part of the sources, as fast as it goes."""

    def __init__(self, url: str, number: int, publishers: int, sources: int) -> None:
        self.url = url
        self.number = number
        self.publishers = publishers
        self.sources = sources
        self._opened = AsyncExitStack()

    async def open(self) -> None:
        bus = await self._opened.enter_async_context(tw.connect(self.url))
        publisher = bus.publisher(TOPIC, name=f"p{self.number}", linger=0.05)
        self._out: Publisher = await self._opened.enter_async_context(publisher)

    async def obey(self, command: dict[str, Any]) -> dict[str, Any]:
        """`sweep`: everything, and return when it is stored."""
        each = self.sources // self.publishers
        course = sweep_course(self.sources, self.publishers)
        events = list(events_of(course, self.number * each, (self.number + 1) * each))
        for at in range(0, len(events), SLICE):
            await self._out.publish_all(events[at : at + SLICE])
            await asyncio.sleep(0)
        await self._out.flush()
        return {"events": len(events), "frames": self._out.counts.frames}

    async def close(self) -> None:
        await self._opened.aclose()


class SweptRole:
    """One subscriber of each class, each of which audits what it is handed."""

    def __init__(self, url: str, sources: int, publishers: int, tolerances: Sequence[float] = TOLERANCES) -> None:
        self.url = url
        self.tolerances = tolerances
        self._course = sweep_course(sources, publishers)
        self._opened = AsyncExitStack()
        self._records: list[Record] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        for tolerance in self.tolerances:
            bus = await self._opened.enter_async_context(tw.connect(self.url))
            asked = bus.subscribe(TOPIC, default_tolerance=tolerance, emit="changes")
            subscription = await self._opened.enter_async_context(asked)
            record = Record(self._course.names, self._course.readings, source="sensor", stamp="time")
            self._records.append(record)
            self._tasks.append(asyncio.create_task(_note_all(subscription, record)))

    async def obey(self, command: dict[str, Any]) -> dict[str, Any]:
        """`judge`: wait until everything has come, `patience` seconds at most, and say what is wrong."""
        log = in_ticks(min(self.tolerances))
        told = [changes(self._course, log, in_ticks(tolerance) - log) for tolerance in self.tolerances]
        await self._wait([len(one) for one in told], command["patience"])
        judged = zip(self._records, told, self.tolerances, strict=True)
        findings = [strictly(record, one, self._course, START, tolerance) for record, one, tolerance in judged]
        return {"findings": [found._asdict() for found in findings]}

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._opened.aclose()

    async def _wait(self, expected: Sequence[int], patience: float) -> None:
        try:
            async with asyncio.timeout(patience):
                while any(len(record.rows) < count for record, count in zip(self._records, expected, strict=True)):
                    for task in self._tasks:
                        if task.done():
                            task.result()
                    await asyncio.sleep(_POLL)
        except TimeoutError:
            return
        # whatever should not come any more would come now
        await asyncio.sleep(1.0)


async def _note_all(subscription: Subscription, record: Record) -> None:
    async for batch in subscription.batches():
        record.note(batch)


def findings_in(answer: Mapping[str, Any]) -> list[Findings]:
    """What the auditors found, from their process's answer."""
    return [Findings(**found) for found in answer["findings"]]


PUBLISHERS = 4
PATIENCE = 900.0


@dataclass(frozen=True)
class ManySourcesResult:
    """What came of it.

    events: that the translator has read; encodings: how often it has encoded one
    memory: resident bytes of its process, the most that was seen; before, after: the first and the last that were seen
    findings: what is wrong with what the connected subscriber of each class was handed
    """

    subscriptions: int
    sources: int
    events: int
    encodings: int
    before: int
    memory: int
    after: int
    findings: tuple[Findings, ...]

    @property
    def faults(self) -> int:
        return sum(found.faults for found in self.findings)


async def run_many_sources(subscriptions: int, sources: int, progress: Callable[[float], None]) -> ManySourcesResult:
    """Register so many subscriptions, one of each class connected, and sweep over the sources."""
    from thinwire.brokers.embedded import EmbeddedServer
    from thinwire.brokers.nats.broker import connect

    async with AsyncExitStack() as opened:
        folder = opened.enter_context(TemporaryDirectory(dir=IN_MEMORY if IN_MEMORY.is_dir() else None))
        server = await opened.enter_async_context(EmbeddedServer(directory=Path(folder)))
        broker = await connect(server.url)
        opened.push_async_callback(broker.close)
        settings = {"url": server.url}
        await opened.enter_async_context(ProcessGroup([WorkerProcess("registry", "registry", settings)]))
        async with tw.connect(server.url) as bus:
            await bus.register(sweep_schema(), mode="hold")
        await _ask_for_all(broker, subscriptions - len(TOLERANCES))
        translator = WorkerProcess("translator", "telling translator", settings)
        await opened.enter_async_context(ProcessGroup([translator]))
        size = {**settings, "sources": sources, "publishers": PUBLISHERS}
        readers = await opened.enter_async_context(ProcessGroup([WorkerProcess("subscribers", "swept", size)]))
        writers = [WorkerProcess(f"publisher {k}", "sweeping", {**size, "number": k}) for k in range(PUBLISHERS)]
        publishers = await opened.enter_async_context(ProcessGroup(writers))
        await wait_for_channels(broker, TOPIC, len(TOLERANCES))
        progress(0.2)
        async with ProcessSampler({"translator": translator.pid}) as sampler:
            await publishers.ask("sweeping", PATIENCE, do="sweep")
            progress(0.5)
            (answer,) = await readers.ask("swept", PATIENCE + 60, do="judge", patience=PATIENCE)
        says = await translator.ask(PATIENCE, do="counts", topic=TOPIC)
    return _collect_results(subscriptions, sources, says, sampler, findings_in(answer))


def _collect_results(
    subscriptions: int, sources: int, says: dict[str, Any], sampler: ProcessSampler, findings: list[Findings]
) -> ManySourcesResult:
    memory = [sample.memory for sample in sampler.series["translator"]]
    return ManySourcesResult(
        subscriptions=subscriptions,
        sources=sources,
        events=says["events"],
        encodings=says["encodings"],
        before=memory[0],
        memory=max(memory),
        after=memory[-1],
        findings=tuple(findings),
    )


async def _ask_for_all(broker: Broker, subscriptions: int) -> None:
    """Durable ones, which count without anybody being there."""
    bucket = await open_registry(broker)
    for number in range(subscriptions):
        tolerance = TOLERANCES[number % len(TOLERANCES)]
        document = SubscriptionDocument(
            TOPIC, f"d{number}", default_tolerance=tolerance, durable=f"d{number}", emit="changes"
        )
        await put_subscription(bucket, document, sweep_schema())
