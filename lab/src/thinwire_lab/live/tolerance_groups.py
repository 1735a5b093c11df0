"""Throughput, processor time and memory of a translator with a hundred thousand subscriptions on one source.

The subscriptions have a thousand tolerances. The source is a random walk. Connected subscribers are audited: each must
receive exactly the events that `greedy` selects.

>>> make_walk(5).tolist()
[49997, 49994, 49996, 49996, 49997]
>>> spread_tolerances(4)
[1, 10, 100, 1000]
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from time import monotonic
from typing import Any

import numpy as np
import numpy.typing as npt

from thinwire import Subscription
from thinwire.brokers.protocol import Broker
from thinwire.schema import Property, Schema
from thinwire.topics.registry_client import open_registry, put_subscriptions
from thinwire.topics.topic_documents import SubscriptionDocument
from thinwire_lab.live.base_roles import AuditedClassesRole, BusRole
from thinwire_lab.live.delivery_audit import AuditResult, DeliveryRecord, audit_exact
from thinwire_lab.live.live_feed import EventsBySource, GroundTruth, stream_schema
from thinwire_lab.live.live_system import LiveSystem, served_within
from thinwire_lab.live.process_measurement import ProcessSampler
from thinwire_lab.overlay_sim.filters.greedy_filter import greedy

TOPIC = "bench.walk"
SOURCE = "S1"
TICKS = 100
"""ticks of a unit of the price"""
START = 1_700_000_000_000_000
PERIOD = 500
"""microseconds between the timestamps of two events"""
WIDEST = 1_000
"""ticks of the widest tolerance"""
SEED = 11
TIMEOUT = 900.0
_BATCHES = 50
"""calls of `publish_all` per second"""
_POLL = 1.0


def walk_schema() -> Schema:
    return stream_schema(TOPIC, "symbol", Property("price", "number", step="0.01"))


def make_walk(events: int) -> npt.NDArray[np.int64]:
    """Return the values in ticks, with steps of at most three ticks."""
    moves = np.random.default_rng(SEED).integers(-3, 4, events)
    values: npt.NDArray[np.int64] = 50_000 + np.cumsum(moves)
    return values


def spread_tolerances(count: int) -> list[int]:
    """Return distinct tolerances in ticks, from one tick to the widest, spread geometrically."""
    steps = count
    while len(tolerances := np.unique(np.geomspace(1, WIDEST, steps).round().astype(int))) < count:
        steps += 1
    return [int(ticks) for ticks in tolerances[-count:]] if count > 1 else [WIDEST]


def tolerance_of(ticks: float) -> dict[str, float]:
    """Return a tolerance as a subscription states it."""
    return {"price": ticks / TICKS}


class WalkPublisherRole(BusRole):
    """Publishes the walk at a rate."""

    async def open(self) -> None:
        self._publisher = await self.open_publisher(TOPIC, name="p1")

    async def do_publish(self, events: int, rate: int) -> dict[str, Any]:
        """Publish at `rate` events per second, wait until all are stored, and return when the first was published."""
        values = (make_walk(events) / TICKS).tolist()
        walk = [{"time": START + PERIOD * k, "symbol": SOURCE, "price": value} for k, value in enumerate(values)]
        size = max(1, rate // _BATCHES)
        started = monotonic()
        for first in range(0, len(walk), size):
            await asyncio.sleep(max(0.0, started + first / rate - monotonic()))
            await self._publisher.publish_all(walk[first : first + size])
        await self._publisher.flush()
        return {"started": started}


class WalkSubscriberRole(AuditedClassesRole):
    """Audited subscribers, each of a class of its own. Tolerances are in ticks."""

    async def subscribe_class(self, tolerance: float) -> tuple[Subscription, DeliveryRecord]:
        subscription = await self.subscribe(TOPIC, tolerance=tolerance_of(tolerance), emit="changes")
        return subscription, DeliveryRecord(walk_truth(make_walk(1)), source="symbol", stamp="time")

    def audit_class(self, tolerance: float, **arguments: Any) -> tuple[int, Callable[[DeliveryRecord], AuditResult]]:
        walk = make_walk(arguments["events"])
        steps = greedy(walk, int(tolerance))
        values = walk[steps][:, None]
        required = EventsBySource(source=np.zeros_like(steps), step=steps, values=values, true_values=values)
        truth = walk_truth(walk)
        return len(required), lambda record: audit_exact(record, truth, required, START, tolerance / TICKS)


def walk_truth(walk: npt.NDArray[np.int64]) -> GroundTruth:
    """Return the events of a walk."""
    return GroundTruth(
        readings=("price",),
        names=[SOURCE],
        counts=np.array([len(walk)]),
        offsets=np.zeros(1, dtype=np.int64),
        period=PERIOD,
        cycle=walk[None, :, None],
        unit=Fraction(1, TICKS),
    )


@dataclass(frozen=True)
class ToleranceGroupsResult:
    """Times, processor time and memory of a run.

    register_seconds: until all subscriptions were stored; serve_seconds: from then until every class had a channel
    seconds: from the first published event to the last delivered one
    cpu: processor seconds of the translator in this time
    memory, registry_memory: the most resident bytes of translator and registry
    wrong: tolerances, in ticks, of audited subscribers that received other events than `greedy` selects
    delivered: events of all audited subscribers
    """

    subscriptions: int
    classes: int
    events: int
    register_seconds: float
    serve_seconds: float
    seconds: float
    cpu: float
    memory: int
    registry_memory: int
    wrong: tuple[int, ...]
    delivered: int


async def run_tolerance_groups(
    subscriptions: int, audited: int, events: int, rate: int, progress: Callable[[float], None]
) -> ToleranceGroupsResult:
    """Register subscriptions, connect `audited` of them, and publish the walk."""
    async with LiveSystem() as system:
        broker = await system.connect()
        registry = system.make_worker("registry")
        translator = system.make_worker("translator")
        await system.start(registry, translator)
        # the log is exact, independent of the tolerances of the subscriptions
        await system.register(walk_schema(), retain=True, default_tolerance=0, mode="hold")
        await system.start(system.make_worker("walk publisher"))
        classes = min(WIDEST, subscriptions)
        services = {"registry": registry.pid, "translator": translator.pid}
        started = monotonic()
        async with ProcessSampler(services) as early:
            await _register_subscriptions(broker, subscriptions, classes)
            registered = monotonic()
            progress(0.2)
            await _wait_until_served(system, classes)
        served = monotonic()
        progress(0.4)
        # subscriptions have tolerances of 1 to `classes` ticks
        tolerances = [ticks for ticks in spread_tolerances(audited) if ticks <= classes]
        await _connect_subscribers(system, tolerances)
        progress(0.5)
        async with ProcessSampler(services) as sampler:
            published = await system.run_one("walk publisher", "publish", TIMEOUT, events=events, rate=rate)
            audit = await system.run_one("walk subscriber", "audit", TIMEOUT + 60, events=events, max_wait=TIMEOUT)
    samples = sampler.series["translator"]
    results = [AuditResult(**result) for result in audit["results"]]
    return ToleranceGroupsResult(
        subscriptions=subscriptions,
        classes=classes,
        events=events,
        register_seconds=registered - started,
        serve_seconds=served - registered,
        seconds=audit["last_received"] - published["started"],
        cpu=samples[-1].cpu - samples[0].cpu,
        memory=max(s.peak_memory("translator") for s in (early, sampler)),
        registry_memory=max(s.peak_memory("registry") for s in (early, sampler)),
        wrong=tuple(ticks for ticks, result in zip(tolerances, results, strict=True) if result.faults),
        delivered=sum(result.events for result in results),
    )


async def _register_subscriptions(broker: Broker, subscriptions: int, classes: int) -> None:
    """Register durable subscriptions, which count without a connected subscriber."""
    documents = (
        SubscriptionDocument(TOPIC, f"d{n}", tolerance_of(1 + n % classes), durable=f"d{n}", emit="changes")
        for n in range(subscriptions)
    )
    await put_subscriptions(await open_registry(broker), documents, walk_schema())


async def _wait_until_served(system: LiveSystem, classes: int) -> None:
    async with served_within(TIMEOUT, topic=TOPIC, wanted=classes):
        while (await system.run_one("translator", "announced_classes", TIMEOUT, topic=TOPIC))["count"] < classes:
            await asyncio.sleep(_POLL)


async def _connect_subscribers(system: LiveSystem, tolerances: list[int]) -> None:
    """Connect the audited subscribers and wait until each reads a channel."""
    await system.start(system.make_worker("walk subscriber", "audited", tolerances=tolerances))
    await system.run_one("walk subscriber", "connect", TIMEOUT)
    async with served_within(TIMEOUT, "audited subscribers read the log", topic=TOPIC):
        while "log" in (await system.run_one("walk subscriber", "feeds", TIMEOUT))["feeds"]:
            await asyncio.sleep(_POLL)
