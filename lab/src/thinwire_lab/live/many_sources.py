"""A thousand subscriptions in ten classes on a hundred thousand sources: what their translator encodes and needs.

Each source has three events with one reading, and all events are known in advance.

>>> course = make_course(sources=8, publishers=2)
>>> course.names[:2], course.counts.tolist(), course.at(0).ravel().tolist()[:3]
(['p0-000000', 'p0-000001'], [3, 3, 3, 3, 3, 3, 3, 3], [209, 226, 218])
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from thinwire import Subscription
from thinwire.brokers.protocol import Broker
from thinwire.schema import Property, Schema
from thinwire.topics.registry_client import open_registry, put_subscription
from thinwire.topics.topic_documents import SubscriptionDocument
from thinwire_lab.live.base_roles import AuditedClassesRole, BusRole
from thinwire_lab.live.delivery_audit import AuditResult, DeliveryRecord, audit_exact
from thinwire_lab.live.live_feed import STEP, EventCourse, in_ticks, required_events
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
    stamp = Property("time", "timestamp", "header", form="epoch", step=1)
    source = Property("sensor", "string", "dimension")
    return Schema(TOPIC, [stamp, source, Property(READING, "number", step=str(float(STEP)))])


def make_course(sources: int, publishers: int) -> EventCourse:
    """Return all events, in the order of publishers."""
    rng = np.random.default_rng(SEED)
    each = sources // publishers
    shape = (sources, EVENTS_PER_SOURCE - 1, 1)
    moves = rng.integers(*_MOVES, shape) * rng.choice([-1, 1], shape)
    first = rng.integers(200, 240, (sources, 1, 1))
    return EventCourse(
        readings=(READING,),
        names=[f"p{k}-{number:06d}" for k in range(publishers) for number in range(each)],
        counts=np.full(sources, EVENTS_PER_SOURCE),
        offsets=np.arange(sources),
        period=PERIOD,
        cycle=np.concatenate([first, first + np.cumsum(moves, axis=1)], axis=1),
    )


def generate_events(course: EventCourse, first: int, last: int) -> Iterator[dict[str, Any]]:
    """Generate the events of the sources from `first` to before `last`, step by step."""
    for step in range(course.steps):
        values = (course.at(step)[first:last, 0] * float(STEP)).round(1).tolist()
        for source, value in enumerate(values, start=first):
            time = START + step * course.period + int(course.offsets[source])
            yield {"time": time, "sensor": course.names[source], READING: value}


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
        course = make_course(self.sources, self.publishers)
        events = list(generate_events(course, self.number * each, (self.number + 1) * each))
        for first in range(0, len(events), SLICE):
            await self._publisher.publish_all(events[first : first + SLICE])
            await asyncio.sleep(0)
        await self._publisher.flush()


class ManySourcesSubscriberRole(AuditedClassesRole):
    """One audited subscriber of each class."""

    def __init__(self, url: str, sources: int, publishers: int, tolerances: Sequence[float] = TOLERANCES) -> None:
        super().__init__(url, tolerances)
        self._course = make_course(sources, publishers)

    async def subscribe_class(self, tolerance: float) -> tuple[Subscription, DeliveryRecord]:
        subscription = await self.subscribe(TOPIC, default_tolerance=tolerance, emit="changes")
        return subscription, DeliveryRecord(self._course, source="sensor", stamp="time")

    def audit_class(self, tolerance: float, **stream: Any) -> tuple[int, Callable[[DeliveryRecord], AuditResult]]:
        log = in_ticks(min(self.tolerances))
        required = required_events(self._course, log, in_ticks(tolerance) - log)
        return len(required), lambda record: audit_exact(record, self._course, required, START, tolerance)


@dataclass(frozen=True)
class ManySourcesResult:
    """Counters and memory of the translator, and the audits of one subscriber of each class.

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
    audits: tuple[AuditResult, ...]

    @property
    def faults(self) -> int:
        return sum(audit.faults for audit in self.audits)


async def run_many_sources(subscriptions: int, sources: int, progress: Callable[[float], None]) -> ManySourcesResult:
    """Register subscriptions, connect one of each class, and publish the events of all sources."""
    async with LiveSystem() as system:
        broker = await system.connect()
        await system.start(system.make_worker("registry"))
        await system.register(make_schema(), mode="hold")
        await _register_subscriptions(broker, subscriptions - len(TOLERANCES))
        translator = system.make_worker("measured translator", "translator")
        await system.start(translator)
        size = {"sources": sources, "publishers": PUBLISHERS}
        await system.start(system.make_worker("many sources subscriber", **size))
        await system.run_one("many sources subscriber", "connect")
        role = "many sources publisher"
        await system.start(*(system.make_worker(role, f"publisher {k}", number=k, **size) for k in range(PUBLISHERS)))
        await wait_for_channels(broker, TOPIC, len(TOLERANCES))
        progress(0.2)
        async with ProcessSampler({"translator": translator.pid}) as sampler:
            await system.run(role, "publish", TIMEOUT)
            progress(0.5)
            audit = await system.run_one("many sources subscriber", "audit", TIMEOUT + 60, max_wait=TIMEOUT)
        counts = await system.run_one("measured translator", "counts", TIMEOUT, topic=TOPIC)
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
    bucket = await open_registry(broker)
    for number in range(count):
        tolerance = TOLERANCES[number % len(TOLERANCES)]
        document = SubscriptionDocument(
            TOPIC, f"d{number}", default_tolerance=tolerance, durable=f"d{number}", emit="changes"
        )
        await put_subscription(bucket, document, make_schema())
