"""Dictionaries that are switched while a chain is under load, and subscribers that see whether the order is kept.

A chain at most of what it holds, first with one dictionary, then with another one every few seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from time import time
from typing import Any

from thinwire.brokers.broker_url import open_broker, read_url
from thinwire.brokers.protocol import Broker, Stored
from thinwire.demo.process_group import two_cores
from thinwire.dictionaries import Dictionary
from thinwire.services.dictionary_trainer.dictionary_upload import upload_dictionary
from thinwire.topics.frame_bodies import FrameBodies
from thinwire.topics.names import log_of, publisher_in, publisher_subjects
from thinwire.wire import Binding, FrameKind, read, split
from thinwire_lab.live.live_feed import feed_schema
from thinwire_lab.live.load_chain import Chain, ChainShape, LoadOutcome
from thinwire_lab.live.load_roles import NOTES, SubscriberRole
from thinwire_lab.live.process_measurement import Taken
from thinwire_lab.live.saturation_rate import REHEARSAL

SAMPLE = 4_000
"""bodies that the dictionaries are cut from, at most"""
SIZE = 4_096
LARGEST = 1_024
LIFE = 3_600.0
"""seconds for which each may be used: longer than any round"""
PAUSE = 0.5
"""seconds without a message after which the log is taken to be read"""


class SwitchingRole:
    """Gives a topic one dictionary after the other when told to; each is other than the ones before."""

    def __init__(self, url: str, topic: str) -> None:
        self.url = url
        self.topic = topic
        self._opened = AsyncExitStack()
        self._sample = b""
        self._given = 0

    async def open(self) -> None:
        self._broker: Broker = (await open_broker(read_url(self.url), {}, self._opened))[0]

    async def obey(self, command: dict[str, Any]) -> dict[str, Any]:
        """`switch`: give the topic another dictionary; `bound`: how often publishers went over to another one."""
        if command["do"] == "bound":
            return {"bound": await self._bound()}
        if not self._sample:
            self._sample = await self._first_messages()
        made = cut(self._sample, self._given)
        self._given += 1
        told = await upload_dictionary(self._broker, self.topic, made, now=time(), seconds=LIFE, by="a switch")
        return {"hash": told.hash}

    async def close(self) -> None:
        await self._opened.aclose()

    async def _first_messages(self) -> bytes:
        """What publishers said before there was a dictionary."""
        bodies, found = FrameBodies(lambda hash: None), list[bytes]()
        async with aclosing(self._log()) as log:
            async for stored in log:
                found += bodies.read(publisher_in(stored.subject), stored.payload)
                if len(found) >= SAMPLE:
                    break
        return b"".join(found)

    async def _bound(self) -> int:
        """Bindings of a publisher to another dictionary than before; those behind key frames say nothing new."""
        before: dict[str, bytes] = {}
        changes = 0
        async with aclosing(self._log()) as log:
            async for stored in log:
                for frame in map(read, split(stored.payload)):
                    if frame.kind == FrameKind.BINDING:
                        publisher, hash = publisher_in(stored.subject), Binding.decode(frame.body).hash
                        changes += before.get(publisher) != hash
                        before[publisher] = hash
        return changes

    async def _log(self) -> AsyncGenerator[Stored, None]:
        reader = await self._broker.read(log_of(self.topic), first=1, subjects=[publisher_subjects(self.topic)])
        try:
            while (stored := await reader.next(PAUSE)) is not None:
                yield stored
                reader.done(stored.offset)
        finally:
            await reader.close()


def cut(sample: bytes, number: int) -> Dictionary:
    """The dictionary of this number: what was said, from another place on each time.

    >>> cut(b"on and off " * 900, 0).hash != cut(b"on and off " * 900, 1).hash
    True
    """
    content = (b"%d " % number + sample[(number * SIZE // 2) % (len(sample) or 1) :])[:SIZE]
    return Dictionary(content, "zstd", level=3, largest=LARGEST)


class InOrder(Taken):
    """Notes of a subscriber that also looks whether every source tells its events in their order."""

    def __init__(self, **notes: Any) -> None:
        super().__init__(**notes)
        self.disordered = 0

    def begin(self) -> None:
        super().begin()
        self.disordered = 0

    def take(self, events: Sequence[Mapping[str, Any]], sent: Sequence[Mapping[str, Any]], now: int) -> None:
        for event in events:
            source, stamp = self._noted(event)
            self.disordered += stamp <= self.last.get(source, -1)
            self.last[source] = stamp
        super().take(events, sent, now)


class OrderedSubscriberRole(SubscriberRole):
    """Some subscribers who mind the order."""

    def notes_of(self, place: int) -> Taken:
        return InOrder(**NOTES[self.feed])

    async def obey(self, command: dict[str, Any]) -> dict[str, Any]:
        answer = await super().obey(command)
        disordered = [notes.disordered for notes in self._notes if isinstance(notes, InOrder)]
        return answer | {"faults": disordered} if command["do"] == "end" else answer


SETTLED = 3.0
"""seconds in which every publisher has gone over to a dictionary"""


@dataclass(frozen=True)
class Switched:
    """What came of it: the round with one dictionary, the round with many, and how often they were switched.

    bound: times that a publisher went over to another dictionary, as the log tells
    """

    steady: LoadOutcome
    switching: LoadOutcome
    switches: int
    bound: int

    @property
    def slower(self) -> float:
        """The latency while switching, p99, to the one without."""
        return self.switching.p99 / self.steady.p99


async def switched(shape: ChainShape, rate: float, seconds: float, every: float) -> Switched:
    """Both rounds on the same chain; another dictionary `every` so many seconds."""
    async with two_cores(), Chain(replace(shape, dictionaries="switching"), feed_schema()) as chain:
        await chain.round(REHEARSAL, 1.0)
        await chain.command("switching", do="switch")
        await asyncio.sleep(SETTLED)
        steady = await chain.round(rate, seconds)
        async with _switches(chain, every) as made:
            switching = await chain.round(rate, seconds)
        answer = await chain.command("switching", do="bound")
    return Switched(steady, switching, len(made), answer["bound"])


@asynccontextmanager
async def _switches(chain: Chain, every: float) -> AsyncIterator[list[str]]:
    """Another dictionary at regular times within the block; the hashes of those that were given."""
    made: list[str] = []

    async def switch() -> None:
        while True:
            made.append((await chain.command("switching", do="switch"))["hash"])
            await asyncio.sleep(every)

    task = asyncio.create_task(switch())
    try:
        yield made
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
