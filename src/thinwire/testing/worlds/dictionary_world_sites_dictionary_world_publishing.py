"""A publisher of a world of dictionaries: it packs with what it hears of, and its slots are few, so they come again."""

from __future__ import annotations

from random import Random

from thinwire.client.publisher_dictionaries import Slots
from thinwire.codec import Publisher
from thinwire.errors import CorruptDictionary, RegistryError, TransportError
from thinwire.schema import opaque
from thinwire.testing.worlds.dictionary_world_sites import TOPIC, Ground
from thinwire.topics.dictionary_documents import InUse, in_use_key
from thinwire.topics.dictionary_store_store import Known
from thinwire.topics.names import data_subject, key_subject
from thinwire.wire import FrameKind, Request, begins_round, join, read

SLOTS = 3
STATES = ("as it should be", "somewhat above what was asked for", "not known, nobody has looked for a while")


class PublishingSite:
    """One publisher with its lives.

    truth: its notes that were stored, in order; packed: frames that a dictionary made shorter
    attentive: it reads what is said of dictionaries again and again
    """

    link: Publisher | None = None
    slots: Slots

    def __init__(self, name: str, ground: Ground, chance: Random) -> None:
        self.name = name
        self.truth: list[bytes] = []
        self.packed = 0
        self.attentive = False
        self.violations: list[str] = []
        self._ground = ground
        self._chance = chance
        self._known = Known(limit=4_000)
        self._incarnation = 0
        self._said = 0
        self._pending: list[bytes] = []
        ground.words[name] = []

    def start(self, now: float) -> None:
        """A new life: without a dictionary, until it has read what is said of them."""
        self._incarnation += 1
        self.link = Publisher(opaque(TOPIC), name=self.name, incarnation=self._incarnation, now=now, compiled=False)
        self.slots = Slots(self.link, self._pending.extend, most=SLOTS)
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
        self._hear(now)
        if self.name in self._ground.wanted and (frames := self.link.answer(Request(0, 0), now)):
            self._pending += frames
            self._ground.wanted.discard(self.name)
        for _ in range(notes):
            self._say(self.link, now)
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

    def _hear(self, now: float) -> None:
        heard = self._ground.words[self.name]
        words, heard[:] = list(heard), []
        try:
            if self.attentive or self._chance.random() < 0.2:  # as at the start, and after a while without a word
                value = self._ground.get(in_use_key(TOPIC))[0]
                words += [InUse.decode(value)] if value is not None else []
            for word in words:
                self._take(word, now)
        except (TransportError, CorruptDictionary, RegistryError) as problem:
            self._ground.tell(f"{self.name} does without: {problem}")

    def _take(self, in_use: InUse, now: float) -> None:
        said = self.slots.choose(in_use, now)
        if said is None:
            return
        found = self._known.find(said.name) or self._ground.fetch(said.name, self._known.find)
        if found is not None:
            self._known.keep(found)
            self.slots.follow(in_use, said, found)

    def _say(self, link: Publisher, now: float) -> None:
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
