"""Which dictionaries the store can do without: those that no message of the log can have been packed with.

Publishers use no dictionary after its expiry. Once the first message that the log still has was stored later than that,
nothing can need it any more, unless another that is needed is told as a change of it.

The dictionaries of a topic that no service looks after: publishers write down what they store, and tidy up.

All of them share the topic's document `kept.<topic>`, each write insisting on what was read before. Whoever stores a
dictionary writes it down first, so nothing is ever in the store that nobody could find and delete; whatever a publisher
leaves behind is tidied up by the next one, or by a service where one comes to look after the topic.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace

from thinwire.brokers.protocol import Broker, Bucket
from thinwire.dictionaries import Dictionary, Travelling
from thinwire.dictionaries.dictionary_transfer import pack
from thinwire.errors import Conflict, PeerFault, RegistryError, Superseded
from thinwire.topics.dictionary_documents import ActiveDictionaries, DictionaryReference, StoredDictionaries
from thinwire.topics.dictionary_metadata import DictionaryMetadata
from thinwire.topics.names import DICTIONARIES, log_of

MARGIN = 900.0
"""seconds by which the clocks of publishers and of the broker may differ, and a message may be on its way"""


def find_unneeded(kept: StoredDictionaries, in_use: ActiveDictionaries, oldest: float) -> list[str]:
    """The hashes of those that nobody needs, where the log begins with a message stored at this time.

    >>> from thinwire.topics.dictionary_documents import DictionaryReference
    >>> a, b, c = (letter * 32 for letter in "abc")
    >>> references = (DictionaryReference(a, 100), DictionaryReference(b, 200, parent=a), DictionaryReference(c, 300))
    >>> kept, active = StoredDictionaries("rooms", references), ActiveDictionaries("rooms")
    >>> find_unneeded(kept, active, oldest=1_050.0), find_unneeded(kept, active, oldest=1_150.0)
    ([], ['aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb'])
    """
    needed = [said.hash for said in kept.dictionaries if said.expires + MARGIN >= oldest]
    needed += [said.hash for said in in_use.dictionaries]
    lines = {hash for one in needed for hash in kept.lineage(one)}
    return [said.hash for said in kept.dictionaries if said.hash not in lines]


async def tidy(
    broker: Broker,
    shelf: DictionaryMetadata,
    bucket: Bucket,
    kept: StoredDictionaries,
    in_use: ActiveDictionaries,
    now: float,
) -> StoredDictionaries:
    """Delete what nobody needs from the store; what is kept now."""
    gone = find_unneeded(kept, in_use, await _oldest(broker, shelf.topic, now))
    if gone:
        elsewhere = await _elsewhere(bucket, shelf.topic)
        for hash in gone:
            if hash not in elsewhere:
                await shelf.store.delete(bytes.fromhex(hash))
        kept = kept.without(gone)
        await shelf.write_kept(kept)
    return kept


async def _oldest(broker: Broker, topic: str, now: float) -> float:
    """When the first message was stored that the log has; now, where it has none."""
    log = log_of(topic)
    span = await broker.span(log)
    if not span.messages:
        return now
    reader = await broker.read(log, first=span.first, limit=1)
    try:
        first = await reader.next(1.0)
    finally:
        await reader.close()
    return first.time if first is not None else 0.0


async def _elsewhere(bucket: Bucket, topic: str) -> Collection[str]:
    """What other topics keep: equal messages make equal dictionaries."""
    found: set[str] = set()
    for entry in await bucket.entries("kept.>"):
        if entry.value is not None and entry.key != f"kept.{topic}":
            with suppress(RegistryError):
                found.update(said.hash for said in StoredDictionaries.decode(entry.value).dictionaries)
    return found


TRIES = 8
"""times that a document is read and written again, because others wrote it in between"""


class PublisherDictionaryStore:
    """What is stored for one topic by its publishers themselves."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self.topic = topic
        self._broker = broker
        self._bucket: Bucket | None = None

    async def keep(
        self, said: DictionaryReference, dictionary: Dictionary, travelling: Travelling | None = None
    ) -> None:
        """Write down until when it is used, and store it.

        travelling: in the form in which it travels, where that is made already
        """
        if not await self._write(said):  # told by itself: what it is a change of was tidied up
            said, travelling = replace(said, parent=""), None
            await self._write(said)
        shelf = await self._read_metadata()
        await shelf.store.put_travelling(dictionary.hash, travelling or pack(dictionary))

    async def tidy(self, now: float, present: Dictionary | None = None) -> None:
        """Delete what no message of the log can need; where others write meanwhile, it is left for another time.

        present: the one in use here, which is stored again where it is not there: several may tidy up at once
        """
        shelf = await self._read_metadata()
        kept = await shelf.kept()
        if present is not None and not await _has(shelf, present):
            await shelf.store.put(present)
        if kept.dictionaries:
            with suppress(Superseded):
                await tidy(self._broker, shelf, await self._opened(), kept, ActiveDictionaries(self.topic), now)

    async def _write(self, said: DictionaryReference) -> bool:
        """Is it written down? Not where it would be a change of one that is not kept any more."""
        for _ in range(TRIES):
            shelf = await self._read_metadata()
            kept = await shelf.kept()
            if said.parent and said.parent not in {one.hash for one in kept.dictionaries}:
                return False
            try:
                await shelf.write_kept(kept.with_reference(said))
            except Superseded:
                continue
            return True
        raise Conflict("too many write of its dictionaries at once", topic=self.topic, tries=TRIES)

    async def _read_metadata(self) -> DictionaryMetadata:
        """A new one each time: it insists on what it read itself."""
        return DictionaryMetadata(await self._opened(), self.topic)

    async def _opened(self) -> Bucket:
        if self._bucket is None:
            self._bucket = await self._broker.bucket(DICTIONARIES)
        return self._bucket


async def _has(shelf: DictionaryMetadata, dictionary: Dictionary) -> bool:
    """Does the store hand it out?"""
    try:
        return await shelf.store.get(dictionary.hash) is not None
    except PeerFault:
        return False
