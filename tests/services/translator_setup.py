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
    """Yield a function that connects to a new broker."""
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
    """Run a translator as a task, cancelled and awaited at the end."""
    service = TranslatorService(broker, **({"lease": TERM, "linger": 0.001, "grace": 0.3} | options))
    task = asyncio.create_task(service.run())
    try:
        await service.ready()
        yield service
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def rooms(name=""):
    """Return a schema with a unique name."""
    properties = [Property("room", "string", "dimension"), Property("t", "number", step="0.1"), Property("u", "float")]
    return Schema(name or f"building.rooms{next(_numbers)}", properties)


class Building:
    """A topic with a log, its subscriptions, and one publisher."""

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
        """Write a configuration, as the registry does."""
        document = ConfigDocument(self.topic, version, wanted=True, demand=demand)
        await self.bucket.put(document.key, encode(document))

    async def subscribe(self, identity, t=0.5, **fields):
        document = SubscriptionDocument(self.topic, identity, {"t": t}, **fields)
        await put_subscription(self.bucket, document, self.schema)
        return DemandClass.of(document)

    async def document(self, demand):
        return (await channel_documents(self.channels, self.topic)).get(demand.id)

    async def wait_open(self, demand, epoch=0):
        async def is_open():
            found = await self.document(demand)
            return found is not None and found.state == "open" and found.epoch >= epoch and found

        return await until(is_open)

    async def publish(self, number, rooms=3, batch=1):
        """Publish `number` events, a wave in each room, `batch` to a message."""
        if self._publisher is None:
            self._publisher = StreamEncoder(self.schema, StreamConfig(version=1), name="p1")
            await self._append(self._publisher.start(0.0))
        frames = []
        for sent in range(1, number + 1):
            n = len(self.truth)
            event = {"room": f"r{n % rooms}", "t": round(20 + n * 7919 % 23 * 0.1, 1), "u": float(n // 50)}
            self.truth.append(event)
            frames += self._publisher.publish(event, 0.0)
            if sent % batch == 0 or sent == number:
                await self._append([join(frames)] if len(frames) > 1 else frames)
                frames = []

    async def heartbeat(self):
        """Send a heartbeat: all events so far are complete."""
        await self._append(self._publisher.heartbeat(0.0))

    async def _append(self, frames):
        for frame in frames:
            subject = (key_subject if begins_round(frame) else data_subject)(self.topic, "p1")
            self.last = await self.broker.append(log_of(self.topic), subject, frame)

    def subscriber(self, demand):
        return ChannelSubscriber(self, demand)


class ChannelSubscriber:
    """A subscriber of a class that reads its channel from the beginning."""

    def __init__(self, building, demand):
        self.building = building
        self.demand = demand
        self.events = []
        self.others = []
        self.messages = []
        self.epochs = {}
        self.stale = 0
        schema = demand.schema(building.schema)
        self.decoder = StreamDecoder([schema], publisher="p1")
        self._reader = None

    async def receive(self, number, timeout=20.0):
        """Read until `number` events have been received."""
        topic = self.building.topic
        async with asyncio.timeout(timeout):
            if self._reader is None:
                subjects = [channel_subjects(topic, self.demand.id)]
                self._reader = await self.building.broker.read(channel_log_of(topic), first=1, subjects=subjects)
            while len(self.events) < number:
                stored = await self._reader.next(0.2)
                if stored is not None:
                    self._decode(stored)
                    self._reader.done(stored.offset)

    def _decode(self, stored):
        self.messages.append(stored)
        epoch, _, message = decode_envelope(stored.payload)
        publisher = publisher_in(stored.subject)
        last_epoch = self.epochs.get(publisher, epoch)
        if epoch < last_epoch:
            self.stale += 1
            return
        if epoch > last_epoch:
            self.decoder.expect_successor()
        self.epochs[publisher] = epoch
        for delivery in self.decoder.receive(message, now=stored.time):
            (self.events if isinstance(delivery, Event) else self.others).append(delivery)

    def check(self, tolerance=0.5):
        """Check that every event came once, in order and within its bound."""
        delivered = {}
        for event in self.events:
            delivered.setdefault(event.source, []).append(event)
        for source, events in delivered.items():
            truth = [event for event in self.building.truth if (event["room"],) == source]
            assert [event.ordinal for event in events] == list(range(1, len(events) + 1))
            for event, true in zip(events, truth, strict=False):
                assert abs(event["t"] - true["t"]) <= event.bound["t"] + 1e-9
                assert event.bound["t"] <= tolerance + 1e-9
                assert event["u"] == true["u"]
        assert not [delivery for delivery in self.others if type(delivery).__name__ == "EventsMissed"]
