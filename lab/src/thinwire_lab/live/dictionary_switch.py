"""A chain under load with one dictionary, and with a new one every few seconds. Subscribers check the order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from time import time
from typing import Any

from thinwire.brokers.protocol import Broker, StoredMessage
from thinwire.dictionaries import Dictionary
from thinwire.services.dictionary_trainer.dictionary_upload import upload_dictionary
from thinwire.topics.frame_bodies import FrameBodies
from thinwire.topics.names import log_of, publisher_in, publisher_subjects
from thinwire.wire import Binding, FrameKind, read, split
from thinwire_lab.live.background_tasks import background_task
from thinwire_lab.live.live_feed import feed_schema
from thinwire_lab.live.load_chain import COMMAND_TIMEOUT, Chain, ChainShape, LoadOutcome
from thinwire_lab.live.load_roles import EVENT_FIELDS, SubscriberRole
from thinwire_lab.live.process_measurement import ReceivedEvents, two_cores
from thinwire_lab.live.saturation_rate import FIRST_ROUND_RATE
from thinwire_lab.live.service_roles import ServiceRole

SAMPLE = 4_000
"""frame bodies that dictionaries are cut from"""
SIZE = 4_096
MAX_MESSAGE = 1_024
VALIDITY = 3_600.0
"""seconds for which a dictionary may be used: longer than any round"""
END_OF_LOG = 0.5
"""seconds without a message after which the log counts as read"""


class DictionarySwitchRole(ServiceRole):
    """Uploads dictionaries to a topic, each one different from the earlier ones."""

    def __init__(self, url: str, topic: str) -> None:
        super().__init__(url)
        self.topic = topic
        self._sample = b""
        self._uploaded = 0

    async def run_service(self, broker: Broker) -> None:
        self._broker = broker

    async def do_switch(self) -> dict[str, Any]:
        """Upload another dictionary and return its hash."""
        if not self._sample:
            self._sample = await self._read_sample()
        dictionary = cut_dictionary(self._sample, self._uploaded)
        self._uploaded += 1
        result = await upload_dictionary(
            self._broker, self.topic, dictionary, now=time(), seconds=VALIDITY, by="a switch"
        )
        return {"hash": result.hash}

    async def do_count_bindings(self) -> dict[str, Any]:
        """Return the number of bindings of a dictionary other than the publisher's previous one."""
        current: dict[str, bytes] = {}
        changes = 0
        async with aclosing(self._read_log()) as log:
            async for stored in log:
                for frame in map(read, split(stored.payload)):
                    if frame.kind == FrameKind.BINDING:
                        publisher, hash = publisher_in(stored.subject), Binding.decode(frame.body).hash
                        changes += current.get(publisher) != hash
                        current[publisher] = hash
        return {"bindings": changes}

    async def _read_sample(self) -> bytes:
        """Return the first frame bodies of the topic, from before the first dictionary."""
        decoder, bodies = FrameBodies(lambda hash: None), list[bytes]()
        async with aclosing(self._read_log()) as log:
            async for stored in log:
                bodies += decoder.read(publisher_in(stored.subject), stored.payload)
                if len(bodies) >= SAMPLE:
                    break
        return b"".join(bodies)

    async def _read_log(self) -> AsyncGenerator[StoredMessage, None]:
        reader = await self._broker.read(log_of(self.topic), first=1, subjects=[publisher_subjects(self.topic)])
        try:
            while (stored := await reader.next(END_OF_LOG)) is not None:
                yield stored
                reader.done(stored.offset)
        finally:
            await reader.close()


def cut_dictionary(sample: bytes, number: int) -> Dictionary:
    """Return a part of the sample as a dictionary. Each number gives another part.

    >>> cut_dictionary(b"on and off " * 900, 0).hash != cut_dictionary(b"on and off " * 900, 1).hash
    True
    """
    content = (b"%d " % number + sample[(number * SIZE // 2) % (len(sample) or 1) :])[:SIZE]
    return Dictionary(content, "zstd", level=3, largest=MAX_MESSAGE)


class OrderCheck(ReceivedEvents):
    """Measurement of a subscriber that also checks that the events of each source are in order."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self.disordered = 0

    def begin(self) -> None:
        super().begin()
        self.disordered = 0

    def add(self, events: Sequence[Mapping[str, Any]], sent: Sequence[Mapping[str, Any]], now: int) -> None:
        for event in events:
            source, stamp = self._identity(event)
            self.disordered += stamp <= self.last.get(source, -1)
            self.last[source] = stamp
        super().add(events, sent, now)


class OrderedSubscriberRole(SubscriberRole):
    """Subscribers that check the order of events."""

    def make_measurement(self, index: int) -> ReceivedEvents:
        return OrderCheck(**EVENT_FIELDS[self.feed])

    async def do_end(self, last: dict[str, Any], max_wait: float) -> dict[str, Any]:
        result = await super().do_end(last, max_wait)
        return result | {"faults": [check.disordered for check in self._received if isinstance(check, OrderCheck)]}


SETTLED = 3.0
"""seconds within which every publisher uses the first dictionary"""


@dataclass(frozen=True)
class SwitchResult:
    """The round with one dictionary and the round with many.

    switches: dictionaries that were uploaded in the second round
    bindings: times that a publisher bound another dictionary, according to the log
    """

    steady: LoadOutcome
    switching: LoadOutcome
    switches: int
    bindings: int

    @property
    def slower(self) -> float:
        """The p99 of the latency while switching, as a multiple of that with one dictionary."""
        return self.switching.p99 / self.steady.p99


async def run_switches(shape: ChainShape, rate: float, seconds: float, interval: float) -> SwitchResult:
    """Run both rounds on the same chain, in the second one with another dictionary every `interval` seconds."""
    async with two_cores(), Chain(replace(shape, dictionaries="switching"), feed_schema()) as chain:
        await chain.round(FIRST_ROUND_RATE, 1.0)
        await _switch(chain)
        await asyncio.sleep(SETTLED)
        steady = await chain.round(rate, seconds)
        async with _switch_repeatedly(chain, interval) as hashes:
            switching = await chain.round(rate, seconds)
        counted = await chain.run_one("dictionary switch", "count_bindings", COMMAND_TIMEOUT)
    return SwitchResult(steady, switching, len(hashes), counted["bindings"])


async def _switch(chain: Chain) -> str:
    return str((await chain.run_one("dictionary switch", "switch", COMMAND_TIMEOUT))["hash"])


@asynccontextmanager
async def _switch_repeatedly(chain: Chain, interval: float) -> AsyncIterator[list[str]]:
    """Upload dictionaries within the block, and yield the list of their hashes."""
    hashes: list[str] = []

    async def switch() -> None:
        while True:
            hashes.append(await _switch(chain))
            await asyncio.sleep(interval)

    async with background_task(switch()):
        yield hashes
