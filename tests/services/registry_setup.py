"""A registry at a broker and a client of it, for the tests of the service."""

import asyncio
from contextlib import asynccontextmanager

from thinwire.brokers.memory import LocalBroker, LocalServer
from thinwire.schema import Property, Schema
from thinwire.services.registry.registry_service import RegistryService
from thinwire.topics.names import alive_subject, config_key
from thinwire.topics.registry_client import open_registry, put_subscription
from thinwire.topics.topic_documents import SubscriptionDocument, decode

ROOMS = Schema(
    "building.rooms",
    [Property("room", "string", "dimension"), Property("t", "number", step="0.1", minimum=0, maximum=50)],
)


async def until(condition, timeout=20.0):
    """Wait until a coroutine function returns a true value."""
    async with asyncio.timeout(timeout):
        while True:
            found = await condition()
            if found:
                return found
            await asyncio.sleep(0.01)


@asynccontextmanager
async def running(broker, **options):
    """Run a registry as a task."""
    service = RegistryService(broker, **options)
    task = asyncio.create_task(service.run())
    try:
        await service.ready()
        yield service
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class Site:
    """A client of the registry."""

    def __init__(self, broker, bucket):
        self.broker = broker
        self.bucket = bucket
        self.listeners = {}

    async def subscribe(self, identity, t, *, alive=True, **fields):
        if alive:
            self.listeners[identity] = await self.broker.listen(alive_subject(identity), _answer)
        await put_subscription(self.bucket, SubscriptionDocument(ROOMS.name, identity, {"t": t}, **fields))

    async def stop(self, identity):
        """Stop answering probes without removing the document."""
        await self.listeners.pop(identity).close()

    async def config(self):
        entry = await self.bucket.get(config_key(ROOMS.name))
        return None if entry is None else decode(entry.key, entry.value)

    async def configured(self, t, timeout=20.0):
        """Wait until the configuration has this tolerance of `t`; None: until no events are wanted."""

        async def reached():
            config = await self.config()
            if config is None or t is None:
                return config is not None and not config.wanted and config
            return config.wanted and config.demand.tolerance.get("t", config.demand.default_tolerance) == t and config

        return await until(reached, timeout)


async def _answer(subject, payload):
    return b"alive"


@asynccontextmanager
async def local():
    """A memory broker with one client and a second connection for a registry."""
    server = LocalServer()
    async with LocalBroker(server) as broker, LocalBroker(server, timeout=0.2) as other:
        yield server, Site(broker, await open_registry(broker)), other
