"""What all in a world of dictionaries share: a log that forgets, documents with revisions, words that get lost.

A publisher of a world of dictionaries: it packs with what it hears of, and its slots are few, so they come again.

A reader of a world of dictionaries, and what it holds everybody to: each note once, in order, as it was said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import cast

from thinwire.brokers.protocol import NOTHING, Bucket, BucketEntry, Stored, run_inline
from thinwire.client.publisher_dictionaries import DictionarySlots
from thinwire.codec import Delivery, EventsMissed, State, StreamDecoder, StreamEncoder
from thinwire.dictionaries import Dictionary
from thinwire.errors import (
    BrokerUnavailable,
    Conflict,
    CorruptDictionary,
    PeerFault,
    RegistryError,
    TransportError,
    UnknownDictionary,
)
from thinwire.schema import Event, opaque
from thinwire.testing.worlds.channel_world_logs import WorldLog
from thinwire.testing.worlds.channel_world_publisher import WorldLease
from thinwire.topics.dictionary_documents import ActiveDictionaries, in_use_key
from thinwire.topics.dictionary_store import DictionaryCache, DictionaryStore, FindDictionary
from thinwire.topics.names import data_subject, is_key, key_subject, publisher_in
from thinwire.wire import FrameKind, Request, begins_round, join, read

TOPIC = "notes"
PIECE = 128
"""bytes of a piece of a dictionary: few, so that there are many"""


class _BlockingBucket:
    """The `get` of a bucket over a function that returns a document by key."""

    def __init__(self, document: Callable[[str], bytes | None]) -> None:
        self._document = document

    async def get(self, key: str) -> BucketEntry | None:
        value = self._document(key)
        return BucketEntry(key, value, 0) if value is not None else None


@dataclass
class DictionaryWorldBroker:
    """Everything at the broker.

    honest: the store never hands out anything else than what was stored
    first: the oldest message that the log still has
    out: the documents cannot be reached
    words: announcements on their way, each to a publisher; wanted: publishers that are asked for key frames
    """

    chance: Random
    tell: Callable[[str], None]
    honest: bool = True
    log: WorldLog = field(default_factory=WorldLog)
    lease: WorldLease = field(default_factory=WorldLease)
    first: int = 1
    out: bool = False
    words: dict[str, list[ActiveDictionaries]] = field(default_factory=dict)
    wanted: set[str] = field(default_factory=set)
    documents: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    revision: int = 0

    def get(self, key: str) -> tuple[bytes | None, int]:
        """A document and its revision."""
        if self.out:
            raise BrokerUnavailable(url="memory://world")
        value, revision = self.documents.get(key, (None, NOTHING))
        return value, revision

    def put(self, key: str, value: bytes, revision: int | None = None) -> int:
        """Store a document; `Conflict` where another revision is there than the one insisted on."""
        if revision is not None and self.get(key)[1] != revision:
            raise Conflict(key=key)
        self.get(key)
        self.revision += 1
        self.documents[key] = value, self.revision
        return self.revision

    def delete(self, hash: str) -> None:
        """Forget a dictionary."""
        for key in [key for key in self.documents if key.partition(".")[0] == hash]:
            del self.documents[key]

    def fetch(self, hash: bytes, known: FindDictionary | None = None) -> Dictionary | None:
        """A dictionary from the store."""
        bucket = cast(Bucket, _BlockingBucket(lambda key: self.get(key)[0]))
        return run_inline(DictionaryStore(bucket, piece_size=PIECE).get(hash, known))

    def announce(self, in_use: ActiveDictionaries) -> None:
        """Say it to every publisher; one in four does not hear it, and one in four hears it late, or twice."""
        for heard in self.words.values():
            fate = self.chance.random()
            if fate > 0.25:
                heard.insert(0 if fate < 0.4 else len(heard), in_use)
            if fate > 0.9:
                heard.append(in_use)

    def read(self, first: int) -> Iterator[Stored]:
        """The messages that the log has, from one on."""
        return self.log.read(max(first, self.first))

    @property
    def oldest(self) -> float:
        """When the first message was stored that the log has."""
        return next((stored.time for stored in self.read(self.first)), 0.0)

    def spoil(self) -> None:
        """A bit of some dictionary in the store is another one from now on."""
        hashes = [key for key in sorted(self.documents) if "." not in key]
        if hashes:
            key = self.chance.choice(hashes)
            value, revision = self.documents[key]
            spoilt = bytearray(value)
            spoilt[self.chance.randrange(len(spoilt))] ^= 1 << self.chance.randrange(8)
            self.documents[key] = bytes(spoilt), revision
            self.tell(f"{key} is spoilt")


SLOTS = 3
STATES = ("as it should be", "somewhat above what was asked for", "not known, nobody has looked for a while")


class DictionaryPublisherSite:
    """One publisher with its lives.

    truth: its notes that were stored, in order; packed: frames that a dictionary made shorter
    attentive: it reads what is said of dictionaries again and again
    """

    link: StreamEncoder | None = None
    slots: DictionarySlots

    def __init__(self, name: str, ground: DictionaryWorldBroker, chance: Random) -> None:
        self.name = name
        self.truth: list[bytes] = []
        self.packed = 0
        self.attentive = False
        self.violations: list[str] = []
        self._ground = ground
        self._chance = chance
        self._known = DictionaryCache(limit=4_000)
        self._incarnation = 0
        self._said = 0
        self._pending: list[bytes] = []
        ground.words[name] = []

    def start(self, now: float) -> None:
        """A new life: without a dictionary, until it has read what is said of them."""
        self._incarnation += 1
        self.link = StreamEncoder(opaque(TOPIC), name=self.name, incarnation=self._incarnation, now=now, compiled=False)
        self.slots = DictionarySlots(self.link, self._pending.extend, most=SLOTS)
        self._pending += self.link.start(now)
        self._ground.tell(f"{self.name} starts life {self._incarnation}")

    def crash(self) -> None:
        """The end of a life: what was not stored never will be."""
        self.link = None
        self._pending.clear()
        self._ground.words[self.name].clear()
        del self.truth[self._said :]
        self._ground.tell(f"{self.name} crashes")

    def work(self, now: float, notes: int) -> None:
        """Hear what is said, say something, and store it, or not yet."""
        if self.link is None:
            return
        self._update_dictionary(now)
        if self.name in self._ground.wanted and (frames := self.link.answer(Request(0, 0), now)):
            self._pending += frames
            self._ground.wanted.discard(self.name)
        for _ in range(notes):
            self._send_frames(self.link, now)
        if self.link.is_due(now):
            self._pending += self.link.poll(now)
        if self._chance.random() < 0.8:
            self.store(now)

    def store(self, now: float) -> None:
        """What waits goes into the log."""
        while self._pending:
            end = next((n for n, frame in enumerate(self._pending) if begins_round(frame)), len(self._pending))
            end = end or 1
            subject = (key_subject if begins_round(self._pending[0]) else data_subject)(TOPIC, self.name)
            self._ground.log.append(subject, join(self._pending[:end]), now)
            del self._pending[:end]
        self._said = len(self.truth)

    def _update_dictionary(self, now: float) -> None:
        heard = self._ground.words[self.name]
        words, heard[:] = list(heard), []
        try:
            if self.attentive or self._chance.random() < 0.2:  # as at the start, and after a while without a word
                value = self._ground.get(in_use_key(TOPIC))[0]
                words += [ActiveDictionaries.decode(value)] if value is not None else []
            for word in words:
                self._take(word, now)
        except (TransportError, CorruptDictionary, RegistryError) as problem:
            self._ground.tell(f"{self.name} does without: {problem}")

    def _take(self, in_use: ActiveDictionaries, now: float) -> None:
        said = self.slots.choose(in_use, now)
        if said is None:
            return
        found = self._known.find(said.name) or self._ground.fetch(said.name, self._known.find)
        if found is not None:
            self._known.keep(found)
            self.slots.apply(in_use, said, found)

    def _send_frames(self, link: StreamEncoder, now: float) -> None:
        number, chance = len(self.truth), self._chance
        sensor, state = chance.randrange(3), chance.choice(STATES)
        payload = b'{"from": "%s", "n": %d, "sensor": "T%d", "state": "%s"}'
        payload %= (self.name.encode(), number, sensor, state.encode())
        self.truth.append(payload)
        for raw in link.send(payload, now):
            self._pending.append(raw)
            frame = read(raw)
            if frame.kind == FrameKind.PAYLOAD and frame.slot:
                self.packed += 1
                if self.slots.expires <= now or frame.slot != self.slots.slot:
                    self.violations.append(
                        f"{self.name} packs note {number} with one that has expired, or is not bound"
                    )


class DictionaryReaderSite:
    """One reader of the log, from some place on."""

    def __init__(
        self,
        name: str,
        place: int,
        ground: DictionaryWorldBroker,
        publishers: dict[str, DictionaryPublisherSite],
        chance: Random,
    ) -> None:
        self.name = name
        self.place = place
        self.delivered = self.missed = 0
        self.violations: list[str] = []
        self.asleep = False
        self._ground = ground
        self._publishers = publishers
        self._chance = chance
        self._known = DictionaryCache(limit=chance.choice((500, 100_000)))
        self._links = {
            name: StreamDecoder([opaque(TOPIC)], publisher=name, dictionaries=self._known.find) for name in publishers
        }
        self._next: dict[str, int] = {}
        self._told: set[str] = set()

    def work(self, now: float) -> None:
        """Read on, as far as the store lets it."""
        if self.asleep:
            return
        for stored in list(self._ground.read(self.place)):
            if not self._receive(stored, now):
                return
            self.place = stored.offset + 1
        for name, link in self._links.items():
            if link.poll(now):
                self._ground.wanted.add(name)

    def finish(self) -> None:
        """At rest, everybody must have been heard to the end."""
        for name, site in self._publishers.items():
            ready = self._links[name].state is State.READY
            if ready and name in self._next and self._next[name] != len(site.truth):
                self._complain(f"heard {name} up to note {self._next[name]} of {len(site.truth)}")
            if not ready and site.truth:
                self._complain(f"does not know where {name} stands")

    def _receive(self, stored: Stored, now: float) -> bool:
        """One message; False where it has to wait for the store."""
        name = publisher_in(stored.subject)
        link = self._links[name]
        while True:
            try:
                self._take(name, link.receive(stored.payload, now=now))
                return True
            except UnknownDictionary as unknown:
                if not self._learn(bytes.fromhex(unknown.hash), link):
                    return False
            except PeerFault as fault:
                self._complain(f"refused a message of {name}: {fault}")
                return True

    def _learn(self, hash: bytes, link: StreamDecoder) -> bool:
        """Ask the store; False where it does not answer. What it has not, or something else for it, is given up."""
        try:
            found = self._ground.fetch(hash, self._known.find)
        except TransportError:
            return False
        except CorruptDictionary as lie:
            self._ground.tell(f"{self.name}: {lie}")
            found = None
        if found is None:
            link.skip_pending_frame()
        else:
            self._known.keep(found)
        return True

    def _take(self, name: str, deliveries: list[Delivery]) -> None:
        for delivery in deliveries:
            if isinstance(delivery, EventsMissed):
                self._told.add(name)
                self.missed += 1
                if delivery.reason == "unknown dictionary" and self._ground.honest:
                    self._complain(f"could not have a dictionary of {name} that the log still needs")
            elif isinstance(delivery, Event):
                self._check(name, bytes(delivery["payload"]))

    def _check(self, name: str, payload: bytes) -> None:
        truth = self._publishers[name].truth
        told_number = payload.partition(b'"n": ')[2].partition(b",")[0]
        number = int(told_number) if told_number.isdigit() else -1
        if not 0 <= number < len(truth) or truth[number] != payload:
            self._complain(f"was given what {name} never said: {payload!r}")
            return
        expected = self._next.get(name)
        told = name in self._told
        if expected is not None and (number < expected or (number > expected and not told)):
            self._complain(f"was given note {number} of {name} instead of {expected}, {'' if told else 'un'}told")
        self._told.discard(name)
        self._next[name] = number + 1
        self.delivered += 1

    def _complain(self, what: str) -> None:
        self.violations.append(f"{self.name} {what}")


def places(ground: DictionaryWorldBroker) -> list[int]:
    """Where a reader may begin: at the oldest message, at key frames, or with what comes next."""
    keys = [stored.offset for stored in ground.read(ground.first) if is_key(stored.subject)]
    return [ground.first, *keys, ground.log.end + 1]
