"""A sampler of a world of dictionaries: the one that runs live, under a policy that decides by whim."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import TypeVar

from thinwire.dictionaries import Dictionary
from thinwire.dictionaries.dictionary_transfer import pack
from thinwire.dictionaries.policies import Keep, Prolong, Proposal, Replace
from thinwire.dictionaries.policies.policy import SequentialPolicy
from thinwire.errors import Conflict, CorruptDictionary, TransportError
from thinwire.testing.worlds.dictionary_world_sites import PIECE, TOPIC, DictionaryWorldBroker
from thinwire.topics.dictionary_documents import ActiveDictionaries, StoredDictionaries, in_use_key, kept_key
from thinwire.topics.dictionary_retention import find_unneeded
from thinwire.topics.dictionary_sampler import Action, Sampler, Terms
from thinwire.topics.dictionary_store import DictionaryCache, dictionary_pieces
from thinwire.topics.frame_bodies import FrameBodies
from thinwire.topics.names import publisher_in

T = TypeVar("T")

TERMS = Terms(latency=30.0, shortest=300.0, longest=3_000.0)


class Whim(SequentialPolicy):
    """Decides by chance, with dictionaries of what it was offered last."""

    name = "whim"

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._latest: list[bytes] = []

    def offer(self, message: bytes) -> None:
        self._latest = [*self._latest, message][-8:]

    def propose(self) -> Proposal:
        fate = self._chance.random()
        if fate < 0.15 and self._latest:
            codec = self._chance.choice(("zstd", "zlib"))
            made = Dictionary(b"".join(self._latest), codec, self._chance.choice((3, 6)), largest=256)
            return Replace(made, self._chance.choice((None, 10, 100)), {"whim": fate})
        if fate < 0.2:
            return Prolong(self._chance.choice((None, 10, 100)), {"whim": fate})
        return Replace(None, None, {"whim": fate}) if fate < 0.22 else Keep()


class SamplingSite:
    """One sampler, which may be down, asleep, or believe that it holds a lease it has lost.

    tidy: it tidies up whenever nothing else is to be done
    """

    def __init__(self, name: str, ground: DictionaryWorldBroker, chance: Random) -> None:
        self.name = name
        self.down = self.asleep = self.tidy = False
        self.refused = self.spread = 0
        self._ground = ground
        self._chance = chance
        self._sampler: Sampler | None = None
        self._bodies = FrameBodies(DictionaryCache().find)
        self._epoch = 0
        self._revisions: dict[str, int] = {}

    def crash(self) -> None:
        """Everything that is not written is gone."""
        self._sampler = None
        self.down = True
        self._ground.tell(f"{self.name} crashes")

    def work(self, now: float) -> None:
        """Keep the lease or take it, read on, and do what is decided."""
        if self.down or self.asleep:
            return
        lease = self._ground.lease
        try:
            if self._sampler is None and lease.take(self.name, now):
                self._epoch = lease.epoch
                self._sampler = self._resumed(now)
            elif not lease.keep(self.name, self._epoch, now) and self._chance.random() < 0.5:
                self._sampler = None  # it has noticed that another has taken over; else a write tells it
            if self._sampler is not None:
                self._sample(self._sampler, now)
        except Conflict:
            self.refused += 1
            self._sampler = None
        except TransportError as problem:
            self._ground.tell(f"{self.name} waits for the store: {problem}")

    def _resumed(self, now: float) -> Sampler:
        ground, known = self._ground, DictionaryCache()
        self._bodies = FrameBodies(known.find)
        in_use = self._read(in_use_key(TOPIC), ActiveDictionaries.decode) or ActiveDictionaries(TOPIC, int(now))
        kept = self._read(kept_key(TOPIC), StoredDictionaries.decode) or StoredDictionaries(TOPIC)
        present = self._fetched(in_use.dictionaries[0].name) if in_use.dictionaries else None
        ground.tell(f"{self.name} takes over at version {in_use.version}")
        return Sampler(Whim(self._chance), in_use, kept, present, terms=TERMS)

    def _sample(self, sampler: Sampler, now: float) -> None:
        for stored in self._ground.read(sampler.offset + 1):
            bodies = self._bodies.read(publisher_in(stored.subject), stored.payload)
            sampler.offer(bodies, stored.offset, stored.time)
        action = sampler.decide(now)
        if action is not None:
            for step in self._steps(sampler, action):
                if self._chance.random() < 0.03:
                    self.crash()  # between two writes
                    return
                step()
        elif self.tidy or self._chance.random() < 0.2:
            self._tidy(sampler)

    def _steps(self, sampler: Sampler, action: Action) -> Iterator[Callable[[], object]]:
        """The writes of an action, in the order of a `DictionaryMetadata`."""
        yield lambda: self._put(kept_key(TOPIC), action.kept.encode())
        if action.dictionary is not None and action.packed is not None:
            documents = dictionary_pieces(action.dictionary.hash, action.packed.body, PIECE)
            yield from (partial(self._ground.put, key, value) for key, value in reversed(documents.items()))
        yield lambda: self._put(in_use_key(TOPIC), action.in_use.encode())
        yield lambda: self._ground.announce(action.in_use)
        sampler.done(action)
        self.spread += action.dictionary is not None
        self._ground.tell(f"{self.name}: {action.decision.kind}, version {action.in_use.version}")

    def _tidy(self, sampler: Sampler) -> None:
        """Delete what nobody needs, and store again what is in use and cannot be had."""
        if sampler.present is not None and self._fetched(sampler.present.hash) is None:
            for key, value in dictionary_pieces(sampler.present.hash, pack(sampler.present).body, PIECE).items():
                self._ground.put(key, value)
        gone = find_unneeded(sampler.kept, sampler.in_use, self._ground.oldest)
        if gone:
            kept = sampler.kept.without(gone)
            self._put(kept_key(TOPIC), kept.encode())
            sampler.clear(kept)
            for hash in gone:
                self._ground.delete(hash)

    def _fetched(self, hash: bytes) -> Dictionary | None:
        try:
            return self._ground.fetch(hash)
        except CorruptDictionary as problem:
            self._ground.tell(f"{self.name}: {problem}")
            return None

    def _read(self, key: str, decode: Callable[[bytes], T]) -> T | None:
        value, self._revisions[key] = self._ground.get(key)
        return decode(value) if value is not None else None

    def _put(self, key: str, value: bytes) -> None:
        self._revisions[key] = self._ground.put(key, value, self._revisions[key])
