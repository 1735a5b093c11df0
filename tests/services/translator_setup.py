"""A translator at a broker, a publisher and readers of its channels: shared by the tests of the service."""

import asyncio
from contextlib import asynccontextmanager, contextmanager
from importlib.util import find_spec
from itertools import count

import pytest
from registry_setup import until

from thinwire.brokers.memory import LocalBroker, LocalServer
from thinwire.codec import Demand, StreamConfig, StreamDecoder, StreamEncoder
from thinwire.schema import Event, Property, Schema
from thinwire.services.translator.translator_service import TranslatorService
from thinwire.topics.channel_documents import channel_documents
from thinwire.topics.demand_class import DemandClass
from thinwire.topics.names import (
    CHANNELS,
    channel_log_of,
    channel_subjects,
    data_subject,
    key_subject,
    log_of,
    publisher_in,
    publisher_subjects,
)
from thinwire.topics.position import decode_envelope
from thinwire.topics.registry_client import open_registry, put_subscription, register_schema
from thinwire.topics.topic_documents import SubscriptionDocument, encode
from thinwire.topics.topic_settings import ConfigDocument
from thinwire.wire import begins_round, join

KINDS = ["memory", pytest.param("nats", marks=pytest.mark.skipif(find_spec("nats") is None, reason="extra nats"))]
TERM = 0.4
_numbers = count()


@contextmanager
def site(kind):
    """A way to connect to a broker of its own."""
    if kind == "memory":
        server = LocalServer()

        async def local():
            return LocalBroker(server, timeout=10)

        yield local
        return
    from thinwire.brokers.embedded import EmbeddedServer
    from thinwire.brokers.nats.broker import connect
    from thinwire.brokers.nats.options import NatsOptions

    with EmbeddedServer() as server:

        async def remote():
            return await connect(server.url, NatsOptions(timeout=10))

        yield remote


@asynccontextmanager
async def running(broker, **options):
    """A translator as a task that ends well."""
    service = TranslatorService(broker, **({"lease": TERM, "linger": 0.001, "grace": 0.3} | options))
    task = asyncio.create_task(service.run())
    try:
        await service.ready()
        yield service
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def rooms(name=""):
    """A schema under a name of its own."""
    properties = [Property("room", "string", "dimension"), Property("t", "number", step="0.1"), Property("u", "float")]
    return Schema(name or f"building.rooms{next(_numbers)}", properties)


class Building:
    """A topic with a log, what is asked of it, and a publisher in it."""

    def __init__(self, broker, schema):
        self.broker = broker
        self.schema = schema
        self.topic = schema.name
        self.truth = []
        self.last = 0
        self._publisher = None

    @classmethod
    async def build(cls, broker, name=""):
        made = cls(broker, rooms(name))
        made.bucket = await open_registry(broker)
        made.channels = await broker.bucket(CHANNELS)
        await register_schema(made.bucket, made.schema)
        await broker.ensure_log(log_of(made.topic), [publisher_subjects(made.topic)])
        await made.configure(1, Demand())
        return made

    async def configure(self, version, demand):
        """What the registry would tell publishers."""
        document = ConfigDocument(self.topic, version, wanted=True, demand=demand)
        await self.bucket.put(document.key, encode(document))

    async def ask(self, identity, t=0.5, **fields):
        asked = SubscriptionDocument(self.topic, identity, {"t": t}, **fields)
        await put_subscription(self.bucket, asked, self.schema)
        return DemandClass.of(asked)

    async def document(self, asked):
        return (await channel_documents(self.channels, self.topic)).get(asked.id)

    async def opened(self, asked, epoch=0):
        async def is_open():
            found = await self.document(asked)
            return found is not None and found.state == "open" and found.epoch >= epoch and found

        return await until(is_open)

    async def publish(self, number, rooms=3, at_once=1):
        """So many events, a wave in each room; `at_once` share a message."""
        if self._publisher is None:
            self._publisher = StreamEncoder(self.schema, StreamConfig(version=1), name="p1")
            await self._append(self._publisher.start(0.0))
        frames = []
        for nth in range(1, number + 1):
            n = len(self.truth)
            event = {"room": f"r{n % rooms}", "t": round(20 + n * 7919 % 23 * 0.1, 1), "u": float(n // 50)}
            self.truth.append(event)
            frames += self._publisher.publish(event, 0.0)
            if nth % at_once == 0 or nth == number:
                await self._append([join(frames)] if len(frames) > 1 else frames)
                frames = []

    async def heartbeat(self):
        """Everything up to now is told."""
        await self._append(self._publisher.heartbeat(0.0))

    async def _append(self, frames):
        for frame in frames:
            subject = (key_subject if begins_round(frame) else data_subject)(self.topic, "p1")
            self.last = await self.broker.append(log_of(self.topic), subject, frame)

    def hear(self, asked):
        return Hearer(self, asked)


class Hearer:
    """A subscriber of a class that reads its channel from the beginning, as any subscriber would."""

    def __init__(self, building, asked):
        self.building = building
        self.asked = asked
        self.events = []
        self.others = []
        self.messages = []
        self.epochs = {}
        self.stale = 0
        schema = asked.schema(building.schema)
        self._link = StreamDecoder([schema], publisher="p1")
        self._reader = None

    async def hear(self, number, patience=20.0):
        """Read until so many events have come."""
        topic = self.building.topic
        async with asyncio.timeout(patience):
            if self._reader is None:
                subjects = [channel_subjects(topic, self.asked.id)]
                self._reader = await self.building.broker.read(channel_log_of(topic), first=1, subjects=subjects)
            while len(self.events) < number:
                stored = await self._reader.next(0.2)
                if stored is not None:
                    self._take(stored)
                    self._reader.done(stored.offset)

    def _take(self, stored):
        self.messages.append(stored)
        epoch, _, message = decode_envelope(stored.payload)
        publisher = publisher_in(stored.subject)
        known = self.epochs.get(publisher, epoch)
        if epoch < known:
            self.stale += 1
            return
        if epoch > known:
            self._link.expect_successor()
        self.epochs[publisher] = epoch
        for thing in self._link.receive(message, now=stored.time):
            (self.events if isinstance(thing, Event) else self.others).append(thing)

    def check(self, tolerance=0.5):
        """Every event once, in order, and within the bound it claims."""
        told = {}
        for event in self.events:
            told.setdefault(event.source, []).append(event)
        for source, events in told.items():
            truth = [event for event in self.building.truth if (event["room"],) == source]
            assert [event.ordinal for event in events] == list(range(1, len(events) + 1))
            for event, true in zip(events, truth, strict=False):
                assert abs(event["t"] - true["t"]) <= event.bound["t"] + 1e-9
                assert event.bound["t"] <= tolerance + 1e-9
                assert event["u"] == true["u"]
        assert not [thing for thing in self.others if type(thing).__name__ == "EventsMissed"]
