"""Encodings and memory of a translator with a thousand subscriptions in ten classes on a hundred thousand sources.

Each source has three events with one reading, and all events are known in advance.

>>> truth = make_truth(sources=8, publishers=2)
>>> truth.names[:2], truth.counts.tolist(), truth.at(0).ravel().tolist()[:3]
(['p0-000000', 'p0-000001'], [3, 3, 3, 3, 3, 3, 3, 3], [209, 226, 218])
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any

import numpy as np

from thinwire import Subscription
from thinwire.brokers.protocol import Broker
from thinwire.schema import Property, Schema
from thinwire.topics.registry_client import open_registry, put_subscriptions
from thinwire.topics.topic_documents import SubscriptionDocument
from thinwire_lab.live.base_roles import AuditedClassesRole, BusRole
from thinwire_lab.live.delivery_audit import AuditedResult, AuditResult, DeliveryRecord, audit_exact
from thinwire_lab.live.live_feed import STEP, GroundTruth, in_ticks, required_events, stream_schema
from thinwire_lab.live.live_system import LiveSystem
from thinwire_lab.live.process_measurement import ProcessSampler
from thinwire_lab.live.service_roles import wait_for_channels

TOPIC = "bench.sweep"
READING = "level"
TOLERANCES = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0)
EVENTS_PER_SOURCE = 3
START = 1_700_000_000_000_000
PERIOD = 1_000_000
SEED = 11
SLICE = 2_000
PUBLISHERS = 4
TIMEOUT = 900.0
_MOVES = (6, 60)
"""ticks by which a reading moves from one event to the next: always beyond the strictest tolerance"""


def make_schema() -> Schema:
    return stream_schema(TOPIC, "sensor", Property(READING, "number", step=str(float(STEP))))


def make_truth(sources: int, publishers: int) -> GroundTruth:
    """Return all events, in the order of publishers."""
    rng = np.random.default_rng(SEED)
    each = sources // publishers
    shape = (sources, EVENTS_PER_SOURCE - 1, 1)
    moves = rng.integers(*_MOVES, shape) * rng.choice([-1, 1], shape)
    first = rng.integers(200, 240, (sources, 1, 1))
    return GroundTruth(
        readings=(READING,),
        names=[f"p{k}-{number:06d}" for k in range(publishers) for number in range(each)],
        counts=np.full(sources, EVENTS_PER_SOURCE),
        offsets=np.arange(sources),
        period=PERIOD,
        cycle=np.concatenate([first, first + np.cumsum(moves, axis=1)], axis=1),
    )


def generate_events(truth: GroundTruth, first: int, last: int) -> Iterator[dict[str, Any]]:
    """Generate the events of the sources from `first` to before `last`, step by step."""
    for step in range(truth.steps):
        values = (truth.at(step)[first:last, 0] * float(STEP)).round(1).tolist()
        for source, value in enumerate(values, start=first):
            time = START + step * truth.period + int(truth.offsets[source])
            yield {"time": time, "sensor": truth.names[source], READING: value}


class ManySourcesPublisherRole(BusRole):
    """Publishes its share of the sources as fast as possible."""

    def __init__(self, url: str, number: int, publishers: int, sources: int) -> None:
        super().__init__(url)
        self.number = number
        self.publishers = publishers
        self.sources = sources

    async def open(self) -> None:
        self._publisher = await self.open_publisher(TOPIC, name=f"p{self.number}", linger=0.05)

    async def do_publish(self) -> None:
        """Publish all events and wait until they are stored."""
        each = self.sources // self.publishers
        truth = make_truth(self.sources, self.publishers)
        events = list(generate_events(truth, self.number * each, (self.number + 1) * each))
        for first in range(0, len(events), SLICE):
            await self._publisher.publish_all(events[first : first + SLICE])
            await asyncio.sleep(0)
        await self._publisher.flush()


class ManySourcesSubscriberRole(AuditedClassesRole):
    """One audited subscriber of each class."""

    def __init__(self, url: str, sources: int, publishers: int, tolerances: Sequence[float] = TOLERANCES) -> None:
        super().__init__(url, tolerances)
        self._truth = make_truth(sources, publishers)

    async def subscribe_class(self, tolerance: float) -> tuple[Subscription, DeliveryRecord]:
        subscription = await self.subscribe(TOPIC, default_tolerance=tolerance, emit="changes")
        return subscription, DeliveryRecord(self._truth, source="sensor", stamp="time")

    def audit_class(self, tolerance: float, **arguments: Any) -> tuple[int, Callable[[DeliveryRecord], AuditResult]]:
        log = in_ticks(min(self.tolerances))
        required = required_events(self._truth, log, in_ticks(tolerance) - log)
        return len(required), lambda record: audit_exact(record, self._truth, required, START, tolerance)


@dataclass(frozen=True)
class ManySourcesResult(AuditedResult):
    """Counters and memory of the translator, with one audited subscriber of each class.

    events: read by the translator; encodings: how often it encoded an event
    before, memory, after: resident bytes of its process: the first, the largest and the last sample
    """

    subscriptions: int
    sources: int
    events: int
    encodings: int
    before: int
    memory: int
    after: int


async def run_many_sources(subscriptions: int, sources: int, progress: Callable[[float], None]) -> ManySourcesResult:
    """Register subscriptions, connect one of each class, and publish the events of all sources."""
    async with LiveSystem() as system:
        broker = await system.connect()
        await system.start(system.make_worker("registry"))
        await system.register(make_schema(), mode="hold")
        await _register_subscriptions(broker, subscriptions - len(TOLERANCES))
        translator = system.make_worker("translator")
        await system.start(translator)
        size = {"sources": sources, "publishers": PUBLISHERS}
        await system.start(system.make_worker("many sources subscriber", **size))
        await system.run_one("many sources subscriber", "connect")
        await system.start_publishers("many sources publisher", PUBLISHERS, **size)
        await wait_for_channels(broker, TOPIC, len(TOLERANCES))
        progress(0.2)
        async with ProcessSampler({"translator": translator.pid}) as sampler:
            await system.run("many sources publisher", "publish", TIMEOUT)
            progress(0.5)
            audit = await system.run_one("many sources subscriber", "audit", TIMEOUT + 60, max_wait=TIMEOUT)
        counts = await system.run_one("translator", "counts", TIMEOUT, topic=TOPIC)
    samples = sampler.series["translator"]
    return ManySourcesResult(
        subscriptions=subscriptions,
        sources=sources,
        **counts,
        before=samples[0].memory,
        memory=sampler.peak_memory("translator"),
        after=samples[-1].memory,
        audits=tuple(AuditResult(**result) for result in audit["results"]),
    )


async def _register_subscriptions(broker: Broker, count: int) -> None:
    """Register durable subscriptions, which count without a connected subscriber."""
    tolerances = islice(cycle(TOLERANCES), count)
    documents = (
        SubscriptionDocument(TOPIC, f"d{n}", default_tolerance=tolerance, durable=f"d{n}", emit="changes")
        for n, tolerance in enumerate(tolerances)
    )
    await put_subscriptions(await open_registry(broker), documents, make_schema())
