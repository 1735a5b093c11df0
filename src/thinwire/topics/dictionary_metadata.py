"""The documents about one topic's dictionaries. Each write requires the revision that was read.

If two samplers serve a topic at once, the write of one of them is refused, and it stops.
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
    """Reads and writes the documents about one topic's dictionaries.

    epoch: of the writer's lease, for errors
    """

    def __init__(self, bucket: Bucket, topic: str, epoch: int = 0) -> None:
        self.topic = topic
        self.epoch = epoch
        self.store = DictionaryStore(bucket)
        self._bucket = bucket
        self._revisions: dict[str, int] = {}

    async def in_use(self) -> ActiveDictionaries | None:
        """Return the dictionaries that publishers may use; None without a readable document."""
        return await self._read(in_use_key(self.topic), ActiveDictionaries.decode)

    async def kept(self) -> StoredDictionaries:
        """Return the dictionaries that the store has."""
        return await self._read(kept_key(self.topic), StoredDictionaries.decode) or StoredDictionaries(self.topic)

    async def decisions(self) -> list[Decision]:
        """Return the last decisions with their reasons, the newest last."""
        return await self._read(why_key(self.topic), decode_decisions) or []

    async def write(self, action: Action) -> None:
        """Carry out a decision. The order matters: a stored dictionary is listed, a dictionary in use is stored."""
        await self._put(kept_key(self.topic), action.kept.encode())
        if action.dictionary is not None and action.packed is not None:
            await self.store.put_packed(action.dictionary.hash, action.packed)
        await self._put(in_use_key(self.topic), action.in_use.encode())

    async def write_kept(self, kept: StoredDictionaries) -> None:
        """Write the list of stored dictionaries."""
        await self._put(kept_key(self.topic), kept.encode())

    async def write_decisions(self, decisions: list[Decision]) -> None:
        """Write the last decisions."""
        await self._put(why_key(self.topic), encode_decisions(decisions))

    async def _read(self, key: str, decode: Callable[[bytes], T]) -> T | None:
        entry = await self._bucket.get(key)
        self._revisions[key] = entry.revision if entry is not None and entry.value is not None else NOTHING
        if entry is None or entry.value is None:
            return None
        try:
            return decode(entry.value)
        except RegistryError as problem:
            _log.warning("%s: replacing an unreadable document: %s", key, problem)
            return None

    async def _put(self, key: str, value: bytes) -> None:
        try:
            self._revisions[key] = await self._bucket.put(key, value, revision=self._revisions[key])
        except Conflict:
            raise Superseded(
                "another writer changed the topic's dictionaries", topic=self.topic, epoch=self.epoch
            ) from None
