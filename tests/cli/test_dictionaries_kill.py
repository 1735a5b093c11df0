"""kill -9 of a dictionary trainer: publishing continues, and the next trainer takes over."""

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
TIMEOUT = 120.0


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


class NotePublisher:
    """Publishes notes until it is cancelled.

    other: publish notes with another text from now on
    """

    def __init__(self, out: tw.Publisher) -> None:
        self.out = out
        self.sent: list[bytes] = []
        self.other = False

    async def publish(self) -> None:
        while True:
            self.sent.append(note(len(self.sent), self.other))
            await self.out.publish(self.sent[-1])
            await asyncio.sleep(PAUSE)


@asynccontextmanager
async def publishing(out: tw.Publisher) -> AsyncIterator[NotePublisher]:
    notes = NotePublisher(out)
    task = asyncio.create_task(notes.publish())
    try:
        yield notes
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(TIMEOUT):
        while not condition():
            await asyncio.sleep(0.05)


async def holder(bus: tw.Bus) -> str:
    """Return the trainer that holds the lease of the topic."""
    entry = await (await bus.broker.bucket(SAMPLERS)).get(lease_key(TOPIC))
    assert entry is not None
    assert entry.value is not None
    return LeaseDocument.decode(entry.value).holder


async def receive(events: tw.Subscription, count: int) -> list[bytes]:
    async with asyncio.timeout(TIMEOUT):
        return [(await anext(events))["payload"] for _ in range(count)]


def test_publishing_continues_without_the_trainer_and_the_next_one_takes_over() -> None:
    from thinwire.brokers.embedded import EmbeddedServer

    with EmbeddedServer() as server, running("up", "--to", server.url, "--only", "registry", "--json"):
        asyncio.run(_kill_trainer(server.url))


async def _kill_trainer(url: str) -> None:
    service = ("up", "--to", url, "--only", "dictionaries", "--json")
    async with tw.connect(url) as bus:
        await bus.register(opaque(TOPIC), retain=True, dictionaries=True)
        async with bus.publisher(TOPIC) as out, bus.subscribe(TOPIC) as live:
            async with publishing(out) as notes:
                with running(*service) as (process, _):
                    await until(lambda: out.dictionary)
                    first, before = out.dictionary, await holder(bus)
                    process.kill()
                    process.wait()
                sent = len(notes.sent)
                await until(lambda: len(notes.sent) > sent + 100)
                assert out.dictionary == first, "it is used until it expires"
                notes.other = True
                with running(*service):
                    await until(lambda: out.dictionary not in (first, b""))
                    assert await holder(bus) != before
            await out.flush()
            assert await receive(live, len(notes.sent)) == notes.sent
            assert not live.notices
        async with bus.subscribe(TOPIC, start="earliest") as late:
            assert await receive(late, len(notes.sent)) == notes.sent
