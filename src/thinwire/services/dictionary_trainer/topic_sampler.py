"""One topic's dictionaries being looked after: read the log, sample it, and do what the sampler decides.

A sampler is no subscriber: nothing is asked of publishers for it, and what it misses is no loss.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from thinwire.brokers.protocol import Broker, Bucket, LogReader
from thinwire.clock import Clock
from thinwire.dictionaries import Dictionary
from thinwire.dictionaries.byte_account import Topology
from thinwire.dictionaries.policies.policy_catalogue import FAST, policy
from thinwire.errors import PeerFault, Superseded, TransportClosed, TransportError
from thinwire.topics.dictionary_documents import ActiveDictionaries, Decision
from thinwire.topics.dictionary_metadata import DictionaryMetadata
from thinwire.topics.dictionary_retention import tidy
from thinwire.topics.dictionary_sampler import Action, Sampler, Terms
from thinwire.topics.dictionary_store import Bodies, DictionaryCache
from thinwire.topics.leases import Lease
from thinwire.topics.names import (
    DICTIONARIES,
    dictionary_subject,
    key_subject,
    log_of,
    publisher_in,
    publisher_subjects,
)

BACK = 5_000
"""messages before the end of the log that a sampler begins at, at most"""
BREATH = 64
IDLE = 10
"""pulses between two decisions while no messages come"""
FETCHED = 4
"""dictionaries, and publishers' bindings, that are looked for between two decisions"""

SOUGHT = 4_096
"""names that are remembered, so that they are not looked for again and again"""

_log = logging.getLogger("thinwire.dictionaries")


@dataclass(frozen=True)
class SamplerSettings:
    """How topics are sampled.

    policy: which policy decides, by name; terms: how long dictionaries live
    budget: CPU time to pack a message, as a multiple of deflate's: at 1 denser forms take part
    pulse: seconds between two decisions; tidy: seconds between two looks for what the store can do without
    """

    policy: str = "ours"
    terms: Terms = field(default_factory=Terms)
    budget: float = FAST
    pulse: float = 0.5
    tidy: float = 300.0


class TopicSampling:
    """The sampling of one topic under one lease; `run` it once.

    topology: tells how many publishers and subscribers it has now
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
        self._known = DictionaryCache()
        self._bodies = Bodies(self._known.find)
        self._sought: set[bytes | str] = set()
        self._stopping = False
        self._written: list[Decision] = []

    def stop(self) -> None:
        """End at a clean place."""
        self._stopping = True

    async def run(self) -> None:
        """Until it is stopped; `Superseded` where another sampler writes."""
        log = log_of(self.topic)
        await self._broker.open_log(log, [publisher_subjects(self.topic)])
        self._bucket: Bucket = await self._broker.bucket(DICTIONARIES)
        self._shelf = DictionaryMetadata(self._bucket, self.topic, self.lease.epoch)
        self.sampler = await self._resumed()
        span = await self._broker.span(log)
        first = max(self.sampler.offset + 1, span.first, span.last + 1 - BACK)
        reader = await self._broker.read(log, first=first, subjects=[publisher_subjects(self.topic)])
        try:
            await self._sample(reader)
        finally:
            await reader.close()

    async def _resumed(self) -> Sampler:
        """Where another left off, as far as the store tells."""
        in_use, kept = await self._shelf.in_use(), await self._shelf.kept()
        self._written = await self._shelf.decisions()
        if in_use is None:
            # versions must go on growing although nobody knows the last: time does
            in_use = ActiveDictionaries(self.topic, version=int(self.clock.now()))
        said = in_use.dictionaries[0] if in_use.dictionaries else None
        present = await self._fetch(said.name) if said is not None else None
        made = policy(self.settings.policy, self.topology(), self.settings.budget)
        return Sampler(made, in_use, kept, present, terms=self.settings.terms, decisions=self._written)

    async def _sample(self, reader: LogReader) -> None:
        now = asyncio.get_running_loop().time
        looked = decided = now()
        tidied, seen, read = now(), self.sampler.seen, 0
        while not self._stopping:
            stored = await reader.next(self.settings.pulse)
            if stored is not None:
                bodies = self._bodies.read(publisher_in(stored.subject), stored.payload)
                self.sampler.offer(bodies, stored.offset, stored.time)
                reader.done(stored.offset)
                read += 1
                if read % BREATH == 0:
                    await asyncio.sleep(0)  # while messages wait nobody else would come to word, leases among them
            if now() - looked < self.settings.pulse:
                continue
            looked = now()
            if self.sampler.seen != seen or now() - decided >= IDLE * self.settings.pulse:
                seen, decided = self.sampler.seen, now()
                await self._tried(self._look())
            if now() - tidied >= self.settings.tidy:
                tidied = now()
                await self._tried(self._tidy())

    async def _look(self) -> None:
        await self._catch_up()
        self.sampler.reach(self.topology())
        # training takes a while: others must be heard meanwhile
        action = await asyncio.to_thread(self.sampler.decide, self.clock.now())
        if action is not None:
            await self._do(action)
        if self.sampler.decisions != self._written:
            await self._shelf.write_decisions(self.sampler.decisions)
            self._written = self.sampler.decisions

    async def _do(self, action: Action) -> None:
        await self._shelf.write(action)
        await self._broker.send(dictionary_subject(self.topic), action.in_use.encode())
        if action.dictionary is not None:
            self._known.keep(action.dictionary)
        self.sampler.done(action)
        decision = action.decision
        _log.info("%s: %s %s, expires %d", self.topic, decision.kind, decision.hash, decision.expires)

    async def _catch_up(self) -> None:
        """Find out what earlier frames named: dictionaries of others, and slots bound before this sampler began."""
        if len(self._sought) > SOUGHT:
            self._sought.clear()
        for hash in list(self._bodies.lacking - self._sought)[:FETCHED]:
            await self._fetch(hash)
        for publisher in list(self._bodies.unbound - self._sought)[:FETCHED]:
            await self._bindings_of(publisher, self.sampler.offset)
            self._sought.add(publisher)
        self._bodies.lacking.clear()
        self._bodies.unbound.clear()

    async def _fetch(self, hash: bytes) -> Dictionary | None:
        found = None
        try:
            found = await self._shelf.store.get(hash, self._known.find)
        except PeerFault as problem:
            _log.warning("%s: %s", self.topic, problem)
        if found is not None:
            self._known.keep(found)
        self._sought.add(hash)
        return found

    async def _bindings_of(self, publisher: str, place: int) -> None:
        """What the slots of a publisher named at a place of the log: said behind its last key frame, or since."""
        log, subjects = log_of(self.topic), publisher_subjects(self.topic, publisher)
        key = await self._broker.last(log, key_subject(self.topic, publisher), up_to=place)
        end = await self._broker.last(log, subjects, up_to=place)
        if key is None or end is None:
            return
        reader = await self._broker.read(log, first=key.offset, subjects=[subjects])
        try:
            while (stored := await reader.next(self.settings.pulse)) is not None and stored.offset <= end.offset:
                self._bodies.bind(publisher, stored.payload)
                reader.done(stored.offset)
                if stored.offset == end.offset:
                    return
        finally:
            await reader.close()

    async def _tidy(self) -> None:
        """Delete what nobody needs, and see to it that what is in use can be had."""
        sampler = self.sampler
        if sampler.present is not None and await self._fetch(sampler.present.hash) is None:
            _log.warning("%s: the dictionary in use is stored again: %s", self.topic, sampler.present.hash.hex())
            await self._shelf.store.put(sampler.present)
        kept = await tidy(self._broker, self._shelf, self._bucket, sampler.kept, sampler.in_use, self.clock.now())
        sampler.clear(kept)

    async def _tried(self, call: Awaitable[None]) -> None:
        """What cannot be done now is done at another pulse: traffic goes on without it."""
        try:
            await call
        except (Superseded, TransportClosed):
            raise
        except TransportError as problem:
            _log.info("%s: the store cannot be reached: %s", self.topic, problem)
