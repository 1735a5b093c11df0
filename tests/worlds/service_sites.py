"""The processes of publishers and subscribers of a service world."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING, Any

from random_events import RandomSensors
from service_checks import SubscriberChecks, SubscriptionRun
from service_plan import SubscriberPlan
from world_truth import PublishedEvents

import thinwire as tw
from thinwire.clock import WallClock
from thinwire.codec import StreamConfig
from thinwire.errors import EventRejected, NameInUse

if TYPE_CHECKING:
    from service_world import ServiceWorld

STATES = ("as it should be", "somewhat above what was requested", "not known for a while")


class Publishing:
    """The process of a publisher. With each start it uses the newest schema."""

    def __init__(self, world: ServiceWorld, name: str) -> None:
        self.world = world
        self.name = name
        self.random = Random(f"{world.report.seed} {name}")
        self.published = world.published[name] = PublishedEvents()
        rate, creep = self.random.choice((0.2, 0.5, 1)), self.random.choice((0, 0, 1, 3, 10))
        self.sensors = RandomSensors(
            self.random, sources=self.random.choice((1, 2, 3)), change_rate=rate, creep=creep, large=False
        )
        self.interval = self.random.choice((0.1, 0.3, 1.0))

    async def run(self) -> None:
        world = self.world
        task = asyncio.current_task()
        assert task is not None
        async with tw.connect("memory://world", name=task.get_name(), services=False) as bus:
            schema = world.schema
            try:
                async with bus.publisher(
                    schema.name, name=self.name, schema=schema, linger=self.random.choice((0.005, 0.3))
                ) as out:
                    await self._publish(out)
            except NameInUse as error:
                world.record(f"{self.name}: {error}")

    async def _publish(self, out: tw.Publisher) -> None:
        encoder = out.encoder
        if encoder.incarnation in self.published.schemas:
            # Two processes started at once. Their first messages are equal, so each takes the stored one for its own,
            # and the next append decides. If both published, it would be unknown until then whose events are delivered.
            self.world.record(f"{self.name}: another process has incarnation {encoder.incarnation}")
            return
        self.published.begin(encoder.incarnation, encoder.schema, encoder.config)
        reconfigure = encoder.reconfigure

        def record_and_reconfigure(config: StreamConfig, now: float) -> list[bytes]:
            self.published.configure(encoder.incarnation, config)
            return reconfigure(config, now)

        encoder.reconfigure = record_and_reconfigure
        while not self.world.is_finishing:
            await asyncio.sleep(self.random.uniform(0, 2 * self.interval))
            if self.random.random() < 0.02 and len(self.sensors.names) < 8:
                self.sensors.add()
            await self._publish_one(out)
        await out.flush()
        await asyncio.Event().wait()

    async def _publish_one(self, out: tw.Publisher) -> None:
        now, encoder = WallClock().now(), out.encoder
        values: Any = self._note() if self.world.dictionaries else self.sensors.read(encoder.schema, now)
        try:
            await out.publish(values)
        except EventRejected as error:
            self.world.record(f"{self.name}: {error}")
            return
        values = {"payload": values} if self.world.dictionaries else values
        self.published.add(encoder.incarnation, encoder.config.version, values, now)

    def _note(self) -> bytes:
        number, sensor, state = len(self.published.events), self.random.randrange(3), self.random.choice(STATES)
        return b'{"from": "%s", "n": %d, "sensor": "T%d", "state": "%s"}' % (
            self.name.encode(), number, sensor, state.encode()
        )  # fmt: skip


class Subscribing:
    """The process of a subscriber."""

    def __init__(self, world: ServiceWorld, plan: SubscriberPlan, checks: SubscriberChecks, random: Random) -> None:
        self.world = world
        self.plan = plan
        self.checks = checks
        self.random = random

    async def run(self) -> None:
        world, name = self.world, self.plan.document.identity
        record = self.checks.begin_run()
        async with tw.connect("memory://world", name=name, services=False) as bus:
            subscription = bus.subscribe(
                "world", **self.plan.options, on_notice=lambda notice: self._on_notice(record, notice)
            )
            try:
                async with subscription:
                    span = world.log.span()
                    record.start = span.last if self.plan.start == "latest" else span.first - 1
                    await self._receive(subscription, record)
            finally:
                record.start = min(record.start, world.log.span().last)

    def _on_notice(self, record: SubscriptionRun, notice: object) -> None:
        self.world.record(f"{self.checks.name}: {notice}")
        self.checks.on_notice(record, notice)

    async def _receive(self, subscription: tw.Subscription, record: SubscriptionRun) -> None:
        async for events in subscription.batches():
            on_channel = subscription.feed == "channel"
            for event in events:
                self.world.record(f"{self.checks.name}: {subscription.feed} {event.publisher}/{event.incarnation} "
                                  f"{event.source} #{event.ordinal} {dict(event)}")  # fmt: skip
            self.checks.on_batch(record, events, on_channel=on_channel)
            if self.plan.pause and not self.world.is_settling and self.random.random() < 0.1:
                await asyncio.sleep(self.plan.pause)
