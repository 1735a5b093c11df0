"""The documents of one topic's dictionaries in their bucket; each write insists on the one before.

Of two samplers that believe a topic to be theirs, one finds that its write is refused, and stops.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from thinwire.brokers.protocol import NOTHING, Bucket
from thinwire.errors import Conflict, RegistryError, Superseded
from thinwire.topics.dictionary_documents import (
    ActiveDictionaries,
    Decision,
    StoredDictionaries,
    decode_decisions,
    encode_decisions,
    in_use_key,
    kept_key,
    why_key,
)
from thinwire.topics.dictionary_sampler import Action
from thinwire.topics.dictionary_store import DictionaryStore

T = TypeVar("T")

_log = logging.getLogger("thinwire.dictionaries")


class DictionaryMetadata:
    """What is written of one topic.

    epoch: of the lease under which it is written, for complaints
    """

    def __init__(self, bucket: Bucket, topic: str, epoch: int = 0) -> None:
        self.topic = topic
        self.epoch = epoch
        self.store = DictionaryStore(bucket)
        self._bucket = bucket
        self._revisions: dict[str, int] = {}

    async def in_use(self) -> ActiveDictionaries | None:
        """The dictionaries in use; None where nothing is said that can be read."""
        return await self._read(in_use_key(self.topic), ActiveDictionaries.decode)

    async def kept(self) -> StoredDictionaries:
        """Those that the store has."""
        return await self._read(kept_key(self.topic), StoredDictionaries.decode) or StoredDictionaries(self.topic)

    async def decisions(self) -> list[Decision]:
        """Why things are as they are, the newest last."""
        return await self._read(why_key(self.topic), decode_decisions) or []

    async def write(self, action: Action) -> None:
        """Do what was decided, in this order: whatever is announced is in the store, and what is there can be found."""
        await self._put(kept_key(self.topic), action.kept.encode())
        if action.dictionary is not None and action.travelling is not None:
            await self.store.put_travelling(action.dictionary.hash, action.travelling)
        await self._put(in_use_key(self.topic), action.in_use.encode())

    async def write_kept(self, kept: StoredDictionaries) -> None:
        """Some are kept no more."""
        await self._put(kept_key(self.topic), kept.encode())

    async def write_decisions(self, decisions: list[Decision]) -> None:
        """What was decided, for whoever asks why."""
        await self._put(why_key(self.topic), encode_decisions(decisions))

    async def _read(self, key: str, decode: Callable[[bytes], T]) -> T | None:
        entry = await self._bucket.get(key)
        self._revisions[key] = entry.revision if entry is not None and entry.value is not None else NOTHING
        if entry is None or entry.value is None:
            return None
        try:
            return decode(entry.value)
        except RegistryError as problem:
            _log.warning("%s cannot be read and is begun again: %s", key, problem)
            return None

    async def _put(self, key: str, value: bytes) -> None:
        try:
            self._revisions[key] = await self._bucket.put(key, value, revision=self._revisions[key])
        except Conflict:
            raise Superseded("somebody else wrote of its dictionaries", topic=self.topic, epoch=self.epoch) from None
