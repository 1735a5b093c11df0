"""A deterministic world of real services: publishers, subscribers, registry, translators and trainers under faults.

Everything runs on `memory://world` under virtual time, and everything that happens follows from one seed, see
`run_seeds.py`. A world ends with some seconds without faults. Then everything that the topic log holds must have
reached every subscriber, within its tolerance, once and in order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any
from unittest.mock import patch

from random_events import draw_schema, evolve_schema
from service_checks import LogContents, SubscriberChecks
from service_plan import RandomPolicy, SubscriberPlan, draw_settings, draw_subscriber
from service_sites import Publishing, Subscribing
from world_truth import PublishedEvents

import thinwire as tw
from thinwire.brokers.memory import LocalBroker, LocalServer
from thinwire.brokers.memory.storage import MessageLog
from thinwire.brokers.protocol import ANY, Retention, StoredMessage
from thinwire.clock import WallClock
from thinwire.codec import StreamDecoder
from thinwire.dictionaries import Dictionary
from thinwire.errors import BrokerUnavailable
from thinwire.schema import opaque
from thinwire.services.dictionary_trainer.dictionary_service import DictionaryService
from thinwire.services.dictionary_trainer.topic_sampler import SamplerSettings
from thinwire.services.registry.registry_service import RegistryService
from thinwire.services.translator.translator_service import TranslatorService
from thinwire.testing import FaultScript, SimulatedProcess, draw_faults, run
from thinwire.topics.dictionary_sampler import DictionaryLifetimes
from thinwire.topics.leases import LeaseDocument, lease_key
from thinwire.topics.log_decoder import LogDecoder
from thinwire.topics.names import DICTIONARIES, LEASES, log_of, publisher_subjects

SETTLE = 24.0
"""seconds without faults at the end: leases expire, translators recover, subscribers catch up"""


class RecordedLog(MessageLog):
    """The topic log. It keeps a copy of every message, and can damage the next ones.

    damage: number of messages to damage
    """

    def __init__(self, topic: str, random: Random) -> None:
        super().__init__(log_of(topic), [publisher_subjects(topic)], Retention(), WallClock(), log_id="world")
        self.copies: list[StoredMessage] = []
        self.damage = 0
        self._random = random

    def store(self, subject: str, payload: bytes, after: int = ANY, within: str = "") -> int:
        if self.damage and payload:
            self.damage -= 1
            damaged = bytearray(payload)
            damaged[self._random.randrange(len(damaged))] ^= 1 << self._random.randrange(8)
            payload = self._random.choice((bytes(damaged), payload[: len(payload) // 2], b""))
        offset = super().store(subject, payload, after, within)
        self.copies.append(StoredMessage(offset, subject, payload, self.clock.now()))
        return offset


class TranslatorBroker(LocalBroker):
    """The connection of a translator.

    in_flight: the arguments of the last append without a fence, until it is stored
    """

    def __init__(self, server: LocalServer, name: str) -> None:
        super().__init__(server, name=name)
        self.in_flight: tuple[str, str, bytes] | None = None
        self.has_sent = asyncio.Event()

    async def append(self, log: str, subject: str, payload: bytes, **options: Any) -> int:
        try:
            if options.get("expected_last", ANY) == ANY:
                self.in_flight = log, subject, payload
                self.has_sent.set()
            return await super().append(log, subject, payload, **options)
        finally:
            self.in_flight = None
            self.has_sent.clear()


@dataclass
class Report:
    """What happened in the world of a seed."""

    seed: int
    events: int = 0
    delivered: int = 0
    channel_batches: int = 0
    missed: int = 0
    packed: int = 0
    dictionaries: int = 0
    violations: list[str] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)


class ServiceWorld:
    """The world of one seed.

    dictionaries: events are bytes, packed with dictionaries that two trainers replace at random
    """

    def __init__(self, seed: int, *, dictionaries: bool = False) -> None:
        random = self.random = Random(f"services {seed} {dictionaries}")
        self.report = Report(seed)
        self.dictionaries = dictionaries
        self.is_contended = random.random() < 0.6
        self.seconds = random.choice((10.0, 20.0, 30.0)) + 15 * self.is_contended
        self.schema = opaque("world") if dictionaries else draw_schema(random, all_kinds=random.random() < 0.3)
        self.schemas = {self.schema.fingerprint: self.schema}
        self.settings = draw_settings(random) | ({"dictionaries": True, "retain": True} if dictionaries else {})
        self.published: dict[str, PublishedEvents] = {}
        self.trained: dict[bytes, Dictionary] = {}
        self.plans = [
            draw_subscriber(self.schema, random, f"s{number}", self.seconds) for number in range(random.randint(2, 4))
        ]
        self.checks = [SubscriberChecks(plan.document.identity, plan.document, self.published) for plan in self.plans]
        names = [f"p{number}" for number in range(random.choice((1, 1, 2)))]
        self.publishers = {name: Publishing(self, name) for name in names}
        self.faults = draw_faults(
            f"faults {seed}",
            self.seconds,
            random.choice((0, 4, 8, 12)),
            processes=["registry", "t0", "t1", "t0", "t1", *self.publishers, *(["d0", "d1"] if dictionaries else [])],
            clients=[],
        )
        self.is_damaged = random.random() < 0.15
        self.is_truncated = random.random() < 0.15
        self.is_settling = self.is_finishing = False
        self.brokers: dict[str, LocalBroker] = {}

    def run(self) -> Report:
        """Run the world and return what happened."""
        RandomPolicy.current = (Random(f"policy {self.report.seed}"), self.trained)
        names = Random(f"names {self.report.seed}")
        with (
            patch("secrets.token_hex", lambda size: names.randbytes(size).hex()),
            patch("thinwire.topics.dictionary_metadata.RETENTION_MARGIN", 2.0),
        ):
            run(self._run())
        return self.report

    def record(self, what: str) -> None:
        self.report.trace.append(f"{asyncio.get_running_loop().time():8.3f}  {what}")

    async def _run(self) -> None:
        self.server = LocalServer.named("world")
        self.server.delay = self.random.choice((0.0, 0.002, 0.05, 0.05))
        self.log = RecordedLog(self.schema.name, Random(self.random.random()))
        self.server.logs[self.log.name] = self.log
        self.script = FaultScript(self.server, self.faults, lambda fault: self.record(repr(fault)))
        async with tw.connect("memory://world", name="world", services=False) as self.bus, self.script:
            await self.bus.register(self.schema, **self.settings)
            self._start_services()
            for name, publisher in self.publishers.items():
                self._start(name, publisher.run)
            subscribers = [
                asyncio.create_task(self._schedule(plan, checks))
                for plan, checks in zip(self.plans, self.checks, strict=True)
            ]
            incidents = asyncio.create_task(self._cause_incidents())
            await asyncio.gather(incidents, self.script.finish())
            self.is_settling = True
            self.record("no more faults")
            for process in self.script.processes.values():
                process.start()
            await asyncio.sleep(SETTLE / 2)
            self.is_finishing = True
            await asyncio.sleep(SETTLE / 2)
            for plan, task in zip(self.plans, subscribers, strict=True):
                task.cancel()
                await self.script.processes.pop(plan.document.identity).stop()
        self._conclude()

    def _start(self, name: str, main: Callable[[], Coroutine[Any, Any, None]]) -> SimulatedProcess:
        async def guarded() -> None:
            while True:
                self.record(f"{name} starts")
                try:
                    await main()
                except BrokerUnavailable as error:  # a publisher or subscriber that starts during an outage
                    self.record(f"{name}: {error}")
                    await asyncio.sleep(1)
                    continue
                except Exception as error:
                    self.record(f"{name} fails: {error!r}")
                    if not self.script.processes[name].is_killed:
                        self.report.violations.append(f"{name} failed: {error!r}")
                return

        return self.script.start(name, guarded)

    def _start_services(self) -> None:
        random = self.random
        translator = {
            "lease": 2.5,
            "grace": random.choice((2.0, 10.0)),
            "handover": random.choice((3.0, 10.0)),
            "checkpoint_messages": random.choice((5, 20_000)),
            "checkpoint_seconds": random.choice((2.0, 60.0)),
        }
        sampler = SamplerSettings(
            policy=RandomPolicy.name,
            lifetimes=DictionaryLifetimes(latency=1.0, shortest=5.0, longest=30.0),
            retention_interval=3.0,
        )
        self._start_service("registry", lambda broker: RegistryService(broker, grace=random.choice((2.0, 10.0))))
        for name in ("t0", "t1"):
            self._start_service(
                name, lambda broker: TranslatorService(broker, name=broker.name, **translator), TranslatorBroker
            )
        for name in ("d0", "d1") if self.dictionaries else ():
            self._start_service(name, lambda broker: DictionaryService(broker, settings=sampler))

    def _start_service(
        self, name: str, create: Callable[[LocalBroker], Any], connect: type[LocalBroker] = LocalBroker
    ) -> None:
        async def serve() -> None:
            async with connect(self.server, name=name) as broker:
                self.brokers[name] = broker
                await create(broker).run()

        self._start(name, serve)

    async def _schedule(self, plan: SubscriberPlan, checks: SubscriberChecks) -> None:
        """Start and stop a subscriber, and kill a durable one now and then."""
        random, name = Random(f"{self.report.seed} {plan.document.identity}"), plan.document.identity
        await asyncio.sleep(plan.joins)
        process = self._start(name, Subscribing(self, plan, checks, random).run)
        until = min(plan.leaves or self.seconds, self.seconds)
        while plan.document.durable:
            pause = random.uniform(3, 20)
            if asyncio.get_running_loop().time() + pause > until:
                break
            await asyncio.sleep(pause)
            await (process.kill if random.random() < 0.5 else process.stop)()
            self.record(f"{name} has stopped")
            await asyncio.sleep(random.choice((0.0, 1.0, 5.0)))
            process.start()
        if plan.leaves is not None:
            await asyncio.sleep(max(0.0, plan.leaves - asyncio.get_running_loop().time()))
            await process.stop()
            self.record(f"{name} leaves")

    async def _cause_incidents(self) -> None:
        """Cause what is no fault of the broker or of a process: schema evolution, damaged and removed messages."""
        random, loop = self.random, asyncio.get_running_loop()
        while loop.time() < self.seconds:
            await asyncio.sleep(random.uniform(0.5, 2 if self.is_contended else 4))
            draw = random.random()
            if draw > 0.5 and self.is_contended:
                await self._pause_owner(random.choice(("translator", "translator", "publisher")))
            elif draw < 0.1 and self.schema.version < 3 and not self.dictionaries:
                await self._evolve()
            elif draw < 0.3 and self.is_damaged and self.dictionaries:
                self._damage_dictionary()
            elif draw < 0.3 and self.is_damaged:
                self.log.damage += random.choice((1, 1, 2))
                self.record("the next messages are damaged")
            elif draw < 0.5 and self.is_truncated:
                self.log.retention = Retention(max_messages=random.choice((1, 20)))
                self.log.span()
                self.log.retention = Retention()
                self.record(f"messages before {self.log.span().first} are removed")

    async def _pause_owner(self, kind: str) -> None:
        """Pause the translator that holds the lease, or a publisher whose name another process takes over."""
        if kind == "translator":
            entry = self.server.bucket(LEASES).get(lease_key(self.schema.name))
            name = LeaseDocument.decode(entry.value).holder if entry is not None else ""
        else:
            name = self.random.choice(list(self.publishers))
        process, broker = self.script.processes.get(name), self.brokers.get(name)
        in_flight = None
        if isinstance(broker, TranslatorBroker) and self.random.random() < 0.7:
            with suppress(TimeoutError):
                await asyncio.wait_for(broker.has_sent.wait(), 5)
                in_flight = broker.in_flight
        if process is None or not process.is_running:
            return
        self.record(f"{name} is paused")
        process.pause()
        await asyncio.sleep(self.random.uniform(0, 3))
        if kind == "publisher":
            self._start(f"{name}-{len(self.script.processes)}", self.publishers[name].run)
        await asyncio.sleep(self.random.uniform(3, 8))
        if in_flight is not None:  # the network has delayed it, and the sender has given up
            log, subject, payload = in_flight
            self.server.logs[log].store(subject, payload)
            self.record(f"a message of {name} arrives late at {subject}")
        process.resume()
        self.record(f"{name} continues")

    def _damage_dictionary(self) -> None:
        """Change a bit of a stored dictionary."""
        bucket = self.server.bucket(DICTIONARIES)
        keys = [entry.key for entry in bucket.entries(">") if "." not in entry.key]
        if keys:
            entry = bucket.get(self.random.choice(keys))
            value = bytearray(entry.value)
            value[self.random.randrange(len(value))] ^= 1 << self.random.randrange(8)
            bucket.put(entry.key, bytes(value), ANY)
            self.record(f"dictionary {entry.key} is damaged")

    async def _evolve(self) -> None:
        self.schema = evolve_schema(self.schema, self.random)
        self.schemas[self.schema.fingerprint] = self.schema
        await self.bus.register(self.schema, **self.settings)
        self.record(f"registered version {self.schema.version}")

    def _conclude(self) -> None:
        report = self.report
        decoder = LogDecoder(self.schemas.get, dictionaries=self.trained.get)
        for name in self.publishers:
            decoder.decoders[name] = StreamDecoder(
                self.schemas.get, publisher=name, dictionaries=self.trained.get, compiled=False
            )
        log = LogContents(self.log.copies, decoder, self.published)
        for plan, checks in zip(self.plans, self.checks, strict=True):
            excused = self.is_damaged or self.is_truncated
            checks.check_end(log, complete=plan.leaves is None, excused=excused)
            report.violations += checks.violations
            report.delivered += sum(len(one.events) for one in checks.runs)
            report.channel_batches += sum(one.channel_batches for one in checks.runs)
        report.events = sum(len(published.events) for published in self.published.values())
        report.dictionaries, report.packed = len(self.trained), log.packed
        report.violations += log.expired
