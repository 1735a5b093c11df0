"""The dictionaries of a topic that no service looks after: publishers write down what they store, and tidy up.

All of them share the topic's document `kept.<topic>`, each write insisting on what was read before. Whoever stores a
dictionary writes it down first, so nothing is ever in the store that nobody could find and delete; whatever a publisher
leaves behind is tidied up by the next one, or by a service where one comes to look after the topic.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from thinwire.brokers.protocol_broker import Broker, Bucket
from thinwire.dictionaries import Dictionary, Travelling
from thinwire.dictionaries.dictionary_transfer import pack
from thinwire.errors import Conflict, PeerFault, Superseded
from thinwire.topics.dictionary_documents import InUse, Said
from thinwire.topics.dictionary_metadata import TopicShelf
from thinwire.topics.dictionary_retention import tidy
from thinwire.topics.names import DICTIONARIES

TRIES = 8
"""times that a document is read and written again, because others wrote it in between"""


class Unattended:
    """What is stored for one topic by its publishers themselves."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self.topic = topic
        self._broker = broker
        self._bucket: Bucket | None = None

    async def keep(self, said: Said, dictionary: Dictionary, travelling: Travelling | None = None) -> None:
        """Write down until when it is used, and store it.

        travelling: in the form in which it travels, where that is made already
        """
        if not await self._write(said):  # told by itself: what it is a change of was tidied up
            said, travelling = replace(said, parent=""), None
            await self._write(said)
        shelf = await self._shelf()
        await shelf.store.put_travelling(dictionary.hash, travelling or pack(dictionary))

    async def tidy(self, now: float, present: Dictionary | None = None) -> None:
        """Delete what no message of the log can need; where others write meanwhile, it is left for another time.

        present: the one in use here, which is stored again where it is not there: several may tidy up at once
        """
        shelf = await self._shelf()
        kept = await shelf.kept()
        if present is not None and not await _has(shelf, present):
            await shelf.store.put(present)
        if kept.dictionaries:
            with suppress(Superseded):
                await tidy(self._broker, shelf, await self._opened(), kept, InUse(self.topic), now)

    async def _write(self, said: Said) -> bool:
        """Is it written down? Not where it would be a change of one that is not kept any more."""
        for _ in range(TRIES):
            shelf = await self._shelf()
            kept = await shelf.kept()
            if said.parent and said.parent not in {one.hash for one in kept.dictionaries}:
                return False
            try:
                await shelf.write_kept(kept.told(said))
            except Superseded:
                continue
            return True
        raise Conflict("too many write of its dictionaries at once", topic=self.topic, tries=TRIES)

    async def _shelf(self) -> TopicShelf:
        """A new one each time: it insists on what it read itself."""
        return TopicShelf(await self._opened(), self.topic)

    async def _opened(self) -> Bucket:
        if self._bucket is None:
            self._bucket = await self._broker.bucket(DICTIONARIES)
        return self._bucket


async def _has(shelf: TopicShelf, dictionary: Dictionary) -> bool:
    """Does the store hand it out?"""
    try:
        return await shelf.store.get(dictionary.hash) is not None
    except PeerFault:
        return False
