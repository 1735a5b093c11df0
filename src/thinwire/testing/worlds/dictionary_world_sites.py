"""What all in a world of dictionaries share: a log that forgets, documents with revisions, words that get lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random

from thinwire.brokers.protocol_broker import NOTHING, Stored
from thinwire.dictionaries import Dictionary
from thinwire.errors import BrokerUnavailable, Conflict
from thinwire.testing.worlds.channel_world_logs_classes_world_logs import Log
from thinwire.testing.worlds.channel_world_publisher import Lease
from thinwire.topics.dictionary_documents import InUse
from thinwire.topics.dictionary_store_store import Find, fetched

TOPIC = "notes"
PIECE = 128
"""bytes of a piece of a dictionary: few, so that there are many"""


@dataclass
class Ground:
    """Everything at the broker.

    honest: the store never hands out anything else than what was stored
    first: the oldest message that the log still has
    out: the documents cannot be reached
    words: announcements on their way, each to a publisher; wanted: publishers that are asked for key frames
    """

    chance: Random
    tell: Callable[[str], None]
    honest: bool = True
    log: Log = field(default_factory=Log)
    lease: Lease = field(default_factory=Lease)
    first: int = 1
    out: bool = False
    words: dict[str, list[InUse]] = field(default_factory=dict)
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

    def fetch(self, hash: bytes, known: Find | None = None) -> Dictionary | None:
        """A dictionary from the store."""
        return fetched(hash, lambda key: self.get(key)[0], known, PIECE)

    def announce(self, in_use: InUse) -> None:
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
