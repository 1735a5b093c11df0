"""The registry at a NATS server: killed and restarted, it keeps the configuration."""

import asyncio
import signal
import sys

import pytest
from registry_setup import ROOMS, Site, running, until

from thinwire.brokers.embedded import EmbeddedServer
from thinwire.errors import ServiceUnavailable
from thinwire.services.registry.rdf_projection import query_registry
from thinwire.topics.registry_client import open_registry, ping, register_schema, remove_subscription

pytest.importorskip("nats", reason="needs the extra nats")
from thinwire.brokers.nats.broker import connect

PROGRAM = """
import asyncio, sys
from thinwire.services.registry.registry_service import RegistryService
from thinwire.brokers.nats.broker import connect

async def main():
    broker = await connect(sys.argv[1])
    await RegistryService(broker, grace=0.2, probe_every=0.2).run()

asyncio.run(main())
"""


async def start_process(url):
    return await asyncio.create_subprocess_exec(sys.executable, "-c", PROGRAM, url)


async def is_answering(broker):
    try:
        return await ping(broker)
    except ServiceUnavailable:
        return None


async def kill(process):
    if process.returncode is None:
        process.send_signal(signal.SIGKILL)
    await process.wait()


def test_a_killed_registry_is_replaced():
    async def main():
        async with EmbeddedServer() as server:
            broker = await connect(server.url)
            site = Site(broker, await open_registry(broker))
            await register_schema(site.bucket, ROOMS)
            await site.subscribe("a", 0.5)
            process = await start_process(server.url)
            try:
                before = await site.configured(0.5, timeout=60)
                await kill(process)
                with pytest.raises(ServiceUnavailable):
                    await ping(broker)
                assert await site.config() == before, "publishers keep their configuration"
                await site.subscribe("b", 0.2)
                process = await start_process(server.url)
                assert (await site.configured(0.2, timeout=60)).version == before.version + 1
                await site.stop("b")
                await site.configured(0.5)
            finally:
                await kill(process)
                await broker.close()

    asyncio.run(main())


def test_a_registry_survives_a_restart_of_the_broker():
    async def main():
        async with EmbeddedServer() as server:
            broker, other = await connect(server.url), await connect(server.url)
            site = Site(broker, await open_registry(broker))
            try:
                await register_schema(site.bucket, ROOMS)
                await site.subscribe("a", 0.5)
                async with running(other, grace=0.2):
                    before = await site.configured(0.5)
                async with running(other, grace=0.2):
                    await until(lambda: is_answering(broker))
                    server.kill()
                    await server.restart()
                    await site.subscribe("b", 0.1)
                    assert (await site.configured(0.1)).version == before.version + 1
                    await remove_subscription(site.bucket, ROOMS.name, "b")
                    await site.configured(0.5)
                    query = "ASK { ?s a tw:Subscription ; tw:identity 'a' }"
                    assert await query_registry(site.bucket, query) == {"answer": True}
            finally:
                await broker.close()
                await other.close()

    asyncio.run(main())
