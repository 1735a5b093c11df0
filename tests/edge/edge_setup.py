"""A hub with hosts for tests: a real broker, with hosts in this process or in others."""

import asyncio
import time
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from thinwire.brokers.embedded import EmbeddedServer
from thinwire.brokers.nats.broker import connect
from thinwire.edge import EdgeHost, EdgeHostDocument, EdgePublisher, EdgeTopic, read_edge

FUNCTIONS = str(Path(__file__).parent / "functions")
TERM = 1.0


class Site:
    """A hub, connections that are closed on exit, and the operations of tests."""

    def __init__(self, server, stack):
        self.server, self.stack = server, stack
        self.tasks = {}
        self.publishers = {}

    async def connect(self):
        broker = await connect(self.server.url)
        self.stack.push_async_callback(broker.close)
        return broker

    async def host(self, name, **settings):
        document = EdgeHostDocument(name, cores=settings.pop("cores", 2))
        own = EdgeHost(await self.connect(), document, path=[FUNCTIONS], term=TERM, report=0.2, **settings)
        task = self.tasks[name] = asyncio.create_task(own.run())
        self.stack.push_async_callback(ended, task)
        await own.ready()
        return own

    async def leave(self, name):
        await ended(self.tasks.pop(name))

    async def publish(self, topic, bodies, publisher="p1", start=0):
        if (topic, publisher) not in self.publishers:
            self.publishers[topic, publisher] = EdgePublisher(await self.connect(), topic, publisher)
        for number, body in enumerate(bodies, start):
            name = f"{topic}/{publisher}/{number}"
            await self.publishers[topic, publisher].publish(body, id=name, due=time.time())

    async def results(self, topic, count, timeout=60.0):
        """Return `count` results, or fewer if no further result arrives within the timeout."""
        found = []
        async for _, message in read_edge(await self.connect(), topic, timeout=timeout):
            found.append(message)
            if len(found) >= count:
                break
        return found


async def ended(task):
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def until(condition, timeout=90.0):
    async with asyncio.timeout(timeout):
        while not condition():
            await asyncio.sleep(0.02)


@asynccontextmanager
async def open_site():
    async with EmbeddedServer() as server, AsyncExitStack() as stack:
        yield Site(server, stack)


def run_at_site(scenario, timeout=180.0):
    """Run a test scenario at a hub."""

    async def run():
        async with asyncio.timeout(timeout), open_site() as site:
            await scenario(site)

    asyncio.run(run())


def topic(name, function="shout", **settings):
    return EdgeTopic(name, f"edge_functions:{function}", **{"rate": 10, "interval": 0.01, **settings})
