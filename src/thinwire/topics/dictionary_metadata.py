"""Reads and writes the documents about one topic's dictionaries, and deletes dictionaries that no message needs.

Each write requires the revision that was read. If two dictionary trainers serve a topic at once, the write of one of
them is refused with `Superseded`, and it stops.

A dictionary is deleted when no message of the log can be packed with it. Publishers use no dictionary after its expiry.
If the first message of the log was stored later than that, no message needs the dictionary, unless it is the parent of
one that is needed.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from contextlib import suppress
from typing import TypeVar

from thinwire.brokers.protocol import NOTHING, Broker, Bucket
from thinwire.errors import Conflict, RegistryError, Superseded
from thinwire.topics.dictionary_documents import (
    ActiveDictionaries,
    Decision,
    Decisions,
    StoredDictionaries,
    active_dictionaries_key,
    decisions_key,
    stored_dictionaries_key,
)
from thinwire.topics.dictionary_sampler import DictionaryUpdate
from thinwire.topics.dictionary_store import DictionaryStore
from thinwire.topics.document import Document
from thinwire.topics.log_selection import first_message
from thinwire.topics.names import log_of

D = TypeVar("D", bound=Document)

RETENTION_MARGIN = 900.0
"""seconds: clock difference between publishers and broker, plus the time until a message is stored"""

_log = logging.getLogger("thinwire.dictionaries")


class DictionaryMetadata:
    """Reads and writes the documents about one topic's dictionaries. A document that was not read must not exist yet.

    store: the dictionaries themselves
    epoch: epoch of the writer's lease, used in error messages
    """

    def __init__(self, bucket: Bucket, topic: str, epoch: int = 0) -> None:
        self.topic = topic
        self.epoch = epoch
        self.store = DictionaryStore(bucket)
        self._bucket = bucket
        self._revisions: dict[str, int] = {}

    async def read_active(self) -> ActiveDictionaries | None:
        """Return the dictionaries that publishers may use; None without a readable document."""
        return await self._read(active_dictionaries_key(self.topic), ActiveDictionaries)

    async def read_stored(self) -> StoredDictionaries:
        """Return the list of the dictionaries that the store has for this topic."""
        found = await self._read(stored_dictionaries_key(self.topic), StoredDictionaries)
        return found or StoredDictionaries(self.topic)

    async def read_decisions(self) -> list[Decision]:
        """Return the last decisions with their reasons, the newest last."""
        found = await self._read(decisions_key(self.topic), Decisions)
        return list(found.decisions) if found is not None else []

    async def write_update(self, update: DictionaryUpdate) -> None:
        """Store a new dictionary and both documents, in an order in which every active dictionary is stored."""
        await self.write_stored(update.stored)
        if update.dictionary is not None and update.packed is not None:
            await self.store.put(update.dictionary, update.packed)
        await self._write(active_dictionaries_key(self.topic), update.active)

    async def write_stored(self, stored: StoredDictionaries) -> None:
        """Write the list of stored dictionaries."""
        await self._write(stored_dictionaries_key(self.topic), stored)

    async def write_decisions(self, decisions: list[Decision]) -> None:
        """Write the last decisions."""
        await self._write(decisions_key(self.topic), Decisions(tuple(decisions)))

    async def delete_unneeded(
        self, broker: Broker, stored: StoredDictionaries, active: ActiveDictionaries, now: float
    ) -> StoredDictionaries:
        """Delete dictionaries that no message of the log needs. Return the list of the remaining ones."""
        unneeded = find_unneeded(stored, active, await _first_message_time(broker, self.topic, now))
        if unneeded:
            shared = await self._hashes_of_other_topics()
            for hash in unneeded:
                if hash not in shared:
                    await self.store.delete(bytes.fromhex(hash))
            stored = stored.without(unneeded)
            await self.write_stored(stored)
        return stored

    async def _hashes_of_other_topics(self) -> Collection[str]:
        """Hashes of dictionaries that other topics store too: equal samples give equal dictionaries."""
        found: set[str] = set()
        for entry in await self._bucket.entries("kept.>"):
            if entry.value is not None and entry.key != stored_dictionaries_key(self.topic):
                with suppress(RegistryError):
                    found.update(reference.hash for reference in StoredDictionaries.decode(entry.value).dictionaries)
        return found

    async def _read(self, key: str, kind: type[D]) -> D | None:
        entry = await self._bucket.get(key)
        if entry is None or entry.value is None:
            self._revisions[key] = NOTHING
            return None
        self._revisions[key] = entry.revision
        try:
            return kind.decode(entry.value)
        except RegistryError as problem:
            _log.warning("%s: ignored an unreadable document, which the next write replaces: %s", key, problem)
            return None

    async def _write(self, key: str, document: Document) -> None:
        revision = self._revisions.get(key, NOTHING)
        try:
            self._revisions[key] = await self._bucket.put(key, document.encode(), revision=revision)
        except Conflict:
            detail = "another writer changed the topic's dictionaries"
            raise Superseded(detail, topic=self.topic, epoch=self.epoch) from None


def find_unneeded(stored: StoredDictionaries, active: ActiveDictionaries, first_message_time: float) -> list[str]:
    """Return the hashes of dictionaries that no message needs, if the log starts with a message of this time.

    >>> from thinwire.topics.dictionary_documents import DictionaryReference
    >>> a, b, c = (letter * 32 for letter in "abc")
    >>> references = (DictionaryReference(a, 100), DictionaryReference(b, 200, parent=a), DictionaryReference(c, 300))
    >>> stored, active = StoredDictionaries("rooms", references), ActiveDictionaries("rooms")
    >>> find_unneeded(stored, active, 1_050.0), find_unneeded(stored, active, 1_150.0)
    ([], ['aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb'])
    """
    needed = {known.hash for known in stored.dictionaries if known.expires + RETENTION_MARGIN >= first_message_time}
    needed |= {known.hash for known in active.dictionaries}
    with_parents = {ancestor for hash in needed for ancestor in stored.lineage(hash)}
    return [known.hash for known in stored.dictionaries if known.hash not in with_parents]


async def _first_message_time(broker: Broker, topic: str, now: float) -> float:
    """The time of the first message of the log; `now` for an empty log."""
    log = log_of(topic)
    span = await broker.span(log)
    if not span.messages:
        return now
    first = await first_message(broker, log, span.first)
    return first.time if first is not None else 0.0
