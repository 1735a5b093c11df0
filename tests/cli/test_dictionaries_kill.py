"""kill -9 of the dictionary service, as it is run by hand: traffic goes on, and so does the next one."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from verb_processes import running

import thinwire as tw
from thinwire.schema import opaque
from thinwire.topics.leases import LeaseDocument, lease_key
from thinwire.topics.names import SAMPLERS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("nats") is None, reason="needs the extra nats"),
]

TOPIC = "plant.notes"
PAUSE = 0.01
PATIENCE = 120.0


def note(n: int, other: bool) -> bytes:
    if other:
        return b"<reading><unit>pump-%d</unit><pressure>%d.25</pressure><verdict>within limits</verdict></reading>" % (
            n % 11,
            n % 97,
        )
    return b'{"sensor": "T%d", "room": "11.%d", "temperature": %d.5, "state": "as it should be"}' % (
        n % 5,
        n % 7,
        n % 31,
    )


class Speaker:
    """Publishes until it is told to stop; `other`: about something else from now on."""

    def __init__(self, out: tw.Publisher) -> None:
        self.out = out
        self.said: list[bytes] = []
        self.other = False

    async def speak(self) -> None:
        while True:
            self.said.append(note(len(self.said), self.other))
            await self.out.publish(self.said[-1])
            await asyncio.sleep(PAUSE)


@asynccontextmanager
async def speaking(out: tw.Publisher) -> AsyncIterator[Speaker]:
    speaker = Speaker(out)
    task = asyncio.create_task(speaker.speak())
    try:
        yield speaker
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.05)


async def holder(bus: tw.Bus) -> str:
    """Who looks after the topic."""
    entry = await (await bus.broker.bucket(SAMPLERS)).get(lease_key(TOPIC))
    assert entry is not None
    assert entry.value is not None
    return LeaseDocument.decode(entry.value).holder


async def heard(events: tw.Subscription, count: int) -> list[bytes]:
    async with asyncio.timeout(PATIENCE):
        return [(await anext(events))["payload"] for _ in range(count)]


def test_traffic_goes_on_without_the_service_and_the_next_one_goes_on_with_it() -> None:
    from thinwire.brokers.embedded import EmbeddedServer

    with EmbeddedServer() as server, running("up", "--to", server.url, "--only", "registry", "--json"):
        asyncio.run(_story(server.url))


async def _story(url: str) -> None:
    service = ("up", "--to", url, "--only", "dictionaries", "--json")
    async with tw.connect(url) as bus:
        await bus.register(opaque(TOPIC), retain=True, dictionaries=True)
        async with bus.publisher(TOPIC) as out, bus.subscribe(TOPIC) as live:
            async with speaking(out) as speaker:
                with running(*service) as (process, _):
                    await until(lambda: out.dictionary)
                    first, before = out.dictionary, await holder(bus)
                    process.kill()
                    process.wait()
                said = len(speaker.said)
                await until(lambda: len(speaker.said) > said + 100)
                assert out.dictionary == first, "it is used until it expires"
                speaker.other = True
                with running(*service):
                    await until(lambda: out.dictionary not in (first, b""))
                    assert await holder(bus) != before
            await out.flush()
            assert await heard(live, len(speaker.said)) == speaker.said
            assert not live.notices
        async with bus.subscribe(TOPIC, start="earliest") as late:
            assert await heard(late, len(speaker.said)) == speaker.said
