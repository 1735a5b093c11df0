"""Dictionary training for one topic under a lease: read the log, sample it, apply the sampler's decisions.

The trainer reads the log without a subscription, so it adds no demand. Messages that it misses only make the sample
smaller.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from thinwire.brokers.protocol import Broker, LogReader
from thinwire.clock import Clock
from thinwire.dictionaries import Dictionary
from thinwire.dictionaries.policies.policy_catalogue import FAST, create_policy
from thinwire.dictionaries.topology import Topology
from thinwire.errors import PeerFault, Superseded, TransportClosed, TransportError
from thinwire.topics.dictionary_documents import ActiveDictionaries, Decision
from thinwire.topics.dictionary_metadata import DictionaryMetadata
from thinwire.topics.dictionary_sampler import DictionaryLifetimes, DictionaryUpdate, Sampler
from thinwire.topics.dictionary_store import DictionaryCache
from thinwire.topics.frame_bodies import FrameBodies
from thinwire.topics.leases import Lease
from thinwire.topics.names import (
    DICTIONARIES,
    dictionary_subject,
    key_subject,
    log_of,
    publisher_in,
    publisher_subjects,
)

MAX_BACKLOG = 5_000
"""messages before the end of the log at which sampling starts, at most"""
YIELD_INTERVAL = 64
"""messages between two yields to the event loop"""
IDLE_POLLS = 10
"""poll intervals between two decisions while no messages arrive"""
MAX_LOOKUPS = 4
"""dictionaries, and likewise publishers' bindings, that are looked up between two decisions, at most"""
MAX_LOOKED_UP = 4_096
"""names that are remembered to avoid repeated lookups"""

_log = logging.getLogger("thinwire.dictionaries")


@dataclass(frozen=True)
class SamplerSettings:
    """Settings of the dictionary trainer.

    policy: name of the dictionary policy, as listed by `thinwire.dictionaries.policies`
    lifetimes: limits of the lifetimes of dictionaries
    budget: limit of the CPU time to pack a message, as a multiple of deflate's; more permits denser codecs
    poll_interval: seconds between two decisions
    retention_interval: seconds between two runs of retention
    """

    policy: str = "ours"
    lifetimes: DictionaryLifetimes = field(default_factory=DictionaryLifetimes)
    budget: float = FAST
    poll_interval: float = 0.5
    retention_interval: float = 300.0


class TopicSampling:
    """Samples one topic. `run` is called once.

    topology: returns the current number of publishers and subscribers
    """

    sampler: Sampler

    def __init__(
        self, broker: Broker, clock: Clock, lease: Lease, settings: SamplerSettings, topology: Callable[[], Topology]
    ) -> None:
        self.topic = lease.topic
        self.lease = lease
        self.clock = clock
        self.settings = settings
        self.topology = topology
        self._broker = broker
        self._dictionaries = DictionaryCache()
        self._bodies = FrameBodies(self._dictionaries.find)
        self._looked_up: set[bytes | str] = set()
        self._stopping = False
        self._written: list[Decision] = []

    def stop(self) -> None:
        """End `run` after the current message."""
        self._stopping = True

    async def run(self) -> None:
        """Sample until stopped. Raises `Superseded` if another trainer has written."""
        log = log_of(self.topic)
        await self._broker.ensure_log(log, [publisher_subjects(self.topic)])
        self._metadata = DictionaryMetadata(await self._broker.bucket(DICTIONARIES), self.topic, self.lease.epoch)
        self.sampler = await self._restore_sampler()
        span = await self._broker.span(log)
        first = max(self.sampler.offset + 1, span.first, span.last + 1 - MAX_BACKLOG)
        reader = await self._broker.read(log, first=first, subjects=[publisher_subjects(self.topic)])
        try:
            await self._sample(reader)
        finally:
            await reader.close()

    async def _restore_sampler(self) -> Sampler:
        active, stored = await self._metadata.read_active(), await self._metadata.read_stored()
        self._written = await self._metadata.read_decisions()
        if active is None:
            # Versions must increase. The last one is unknown, so the time is used, which is larger.
            active = ActiveDictionaries(self.topic, version=int(self.clock.now()))
        dictionary = await self._fetch(active.dictionaries[0].hash_bytes) if active.dictionaries else None
        selected = create_policy(self.settings.policy, self.topology(), self.settings.budget)
        lifetimes = self.settings.lifetimes
        return Sampler(selected, active, stored, dictionary, lifetimes=lifetimes, decisions=self._written)

    async def _sample(self, reader: LogReader) -> None:
        now = asyncio.get_running_loop().time
        last_check = last_decision = last_retention = now()
        seen, read = self.sampler.sample_count, 0
        while not self._stopping:
            stored = await reader.next(self.settings.poll_interval)
            if stored is not None:
                bodies = self._bodies.read(publisher_in(stored.subject), stored.payload)
                self.sampler.offer(bodies, stored.offset, stored.time)
                reader.done(stored.offset)
                read += 1
                if read % YIELD_INTERVAL == 0:
                    await asyncio.sleep(0)  # a backlog must not delay the renewal of leases
            if now() - last_check < self.settings.poll_interval:
                continue
            last_check = now()
            if self.sampler.sample_count != seen or now() - last_decision >= IDLE_POLLS * self.settings.poll_interval:
                seen, last_decision = self.sampler.sample_count, now()
                await self._attempt(self._decide())
            if now() - last_retention >= self.settings.retention_interval:
                last_retention = now()
                await self._attempt(self._apply_retention())

    async def _decide(self) -> None:
        await self._look_up_missing()
        self.sampler.set_topology(self.topology())
        # Training takes seconds and runs in a thread, so that leases are renewed meanwhile.
        update = await asyncio.to_thread(self.sampler.decide, self.clock.now())
        if update is not None:
            await self._apply(update)
        if self.sampler.decisions != self._written:
            await self._metadata.write_decisions(self.sampler.decisions)
            self._written = self.sampler.decisions

    async def _apply(self, update: DictionaryUpdate) -> None:
        await self._metadata.write_update(update)
        await self._broker.send(dictionary_subject(self.topic), update.active.encode())
        if update.dictionary is not None:
            self._dictionaries.add(update.dictionary)
        self.sampler.mark_written(update)
        decision = update.decision
        _log.info("topic %s: %s dictionary %s, expires %d", self.topic, decision.kind, decision.hash, decision.expires)

    async def _look_up_missing(self) -> None:
        """Look up dictionaries and slot bindings that frames refer to and that are not cached."""
        if len(self._looked_up) > MAX_LOOKED_UP:
            self._looked_up.clear()
        for hash in list(self._bodies.missing_dictionaries - self._looked_up)[:MAX_LOOKUPS]:
            await self._fetch(hash)
        for publisher in list(self._bodies.unbound_publishers - self._looked_up)[:MAX_LOOKUPS]:
            await self._read_bindings(publisher, self.sampler.offset)
            self._looked_up.add(publisher)
        self._bodies.missing_dictionaries.clear()
        self._bodies.unbound_publishers.clear()

    async def _fetch(self, hash: bytes) -> Dictionary | None:
        dictionary = None
        try:
            dictionary = await self._metadata.store.get(hash, self._dictionaries.find)
        except PeerFault as problem:
            _log.warning("topic %s: cannot read a dictionary: %s", self.topic, problem)
        if dictionary is not None:
            self._dictionaries.add(dictionary)
        self._looked_up.add(hash)
        return dictionary

    async def _read_bindings(self, publisher: str, offset: int) -> None:
        """Read the slot bindings of a publisher at `offset`: those after its last key frame."""
        log, subjects = log_of(self.topic), publisher_subjects(self.topic, publisher)
        key = await self._broker.last(log, key_subject(self.topic, publisher), up_to=offset)
        end = await self._broker.last(log, subjects, up_to=offset)
        if key is None or end is None:
            return
        reader = await self._broker.read(log, first=key.offset, subjects=[subjects])
        try:
            while (
                stored := await reader.next(self.settings.poll_interval)
            ) is not None and stored.offset <= end.offset:
                self._bodies.read_bindings(publisher, stored.payload)
                reader.done(stored.offset)
                if stored.offset == end.offset:
                    return
        finally:
            await reader.close()

    async def _apply_retention(self) -> None:
        """Delete unneeded dictionaries; restore the active one if it is missing in the store."""
        sampler = self.sampler
        if sampler.active_dictionary is not None and await self._fetch(sampler.active_dictionary.hash) is None:
            _log.warning("topic %s: restoring missing dictionary %s", self.topic, sampler.active_dictionary.hash.hex())
            await self._metadata.store.put(sampler.active_dictionary)
        sampler.stored = await self._metadata.delete_unneeded(
            self._broker, sampler.stored, sampler.active, self.clock.now()
        )

    async def _attempt(self, call: Awaitable[None]) -> None:
        """Await a call; after an error of the broker it is repeated at the next poll."""
        try:
            await call
        except (Superseded, TransportClosed):
            raise
        except TransportError as problem:
            _log.info("topic %s: cannot access the dictionary store: %s", self.topic, problem)
