"""The registry at a real broker, killed in the middle of its work: publishers are told the same as before."""

import asyncio
import signal
import sys

import pytest
from registry_sites import ROOMS, Site, running, until

from thinwire.brokers.embedded import EmbeddedServer
from thinwire.errors import NobodyAnswers
from thinwire.schema import from_turtle
from thinwire.topics.registry_client import ask, open_registry, ping, register_schema, remove_subscription

pytest.importorskip("nats", reason="needs the extra nats")
from thinwire.brokers.nats.broker import connect

PROGRAM = """
import asyncio, sys
from thinwire.services.registry import RegistryService
from thinwire.brokers.nats.broker import connect

async def main():
    broker = await connect(sys.argv[1])
    await RegistryService(broker, grace=0.2, probe_every=0.2).run()

asyncio.run(main())
"""


async def in_a_process(url):
    return await asyncio.create_subprocess_exec(sys.executable, "-c", PROGRAM, url)


async def answers(broker):
    try:
        return await ping(broker)
    except NobodyAnswers:
        return None


async def kill(process):
    if process.returncode is None:
        process.send_signal(signal.SIGKILL)
    await process.wait()


def test_killed_and_started_again():
    async def story():
        async with EmbeddedServer() as server:
            broker = await connect(server.url)
            site = Site(broker, await open_registry(broker))
            await register_schema(site.bucket, ROOMS)
            await site.subscribe("a", 0.5)
            process = await in_a_process(server.url)
            try:
                before = await site.told(0.5, patience=60)
                await kill(process)
                with pytest.raises(NobodyAnswers):
                    await ping(broker)
                assert await site.config() == before, "data flows on as publishers were told"
                await site.subscribe("b", 0.2)
                process = await in_a_process(server.url)
                assert (await site.told(0.2, patience=60)).version == before.version + 1
                await site.die("b")
                await site.told(0.5)
                topic = await ask(broker, "get", {"topic": ROOMS.name, "as": "turtle"})
                assert from_turtle(topic["turtle"]) == ROOMS
            finally:
                await kill(process)
                await broker.close()

    asyncio.run(story())


def test_cancelled_and_started_again_and_the_broker_too():
    async def story():
        async with EmbeddedServer() as server:
            broker, other = await connect(server.url), await connect(server.url)
            site = Site(broker, await open_registry(broker))
            try:
                await register_schema(site.bucket, ROOMS)
                await site.subscribe("a", 0.5)
                async with running(other, grace=0.2):
                    before = await site.told(0.5)
                async with running(other, grace=0.2):
                    await until(lambda: answers(broker))
                    server.kill()
                    await server.restart()
                    await site.subscribe("b", 0.1)
                    assert (await site.told(0.1)).version == before.version + 1
                    await remove_subscription(site.bucket, ROOMS.name, "b")
                    await site.told(0.5)
                    query = "ASK { ?s a tw:Subscription ; tw:identity 'a' }"
                    assert await ask(broker, "query", {"query": query}) == {"answer": True}
            finally:
                await broker.close()
                await other.close()

    asyncio.run(story())
