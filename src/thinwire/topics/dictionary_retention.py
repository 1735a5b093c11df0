"""Retention of dictionaries: a dictionary is deleted when no message of the log can be packed with it.

Publishers use no dictionary after its expiry. If the first message of the log was stored later than that, no message
needs the dictionary, unless it is the parent of one that is needed.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress

from thinwire.brokers.protocol import Broker, Bucket
from thinwire.errors import RegistryError
from thinwire.topics.dictionary_documents import ActiveDictionaries, StoredDictionaries
from thinwire.topics.dictionary_metadata import DictionaryMetadata
from thinwire.topics.names import log_of

MARGIN = 900.0
"""seconds: clock difference between publishers and broker, plus the time until a message is stored"""


def find_unneeded(kept: StoredDictionaries, in_use: ActiveDictionaries, oldest: float) -> list[str]:
    """Return the hashes of dictionaries that no message needs, if the first message of the log was stored at `oldest`.

    >>> from thinwire.topics.dictionary_documents import DictionaryReference
    >>> a, b, c = (letter * 32 for letter in "abc")
    >>> references = (DictionaryReference(a, 100), DictionaryReference(b, 200, parent=a), DictionaryReference(c, 300))
    >>> kept, active = StoredDictionaries("rooms", references), ActiveDictionaries("rooms")
    >>> find_unneeded(kept, active, oldest=1_050.0), find_unneeded(kept, active, oldest=1_150.0)
    ([], ['aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb'])
    """
    needed = [one.hash for one in kept.dictionaries if one.expires + MARGIN >= oldest]
    needed += [one.hash for one in in_use.dictionaries]
    with_parents = {hash for one in needed for hash in kept.lineage(one)}
    return [one.hash for one in kept.dictionaries if one.hash not in with_parents]


async def tidy(
    broker: Broker,
    metadata: DictionaryMetadata,
    bucket: Bucket,
    kept: StoredDictionaries,
    in_use: ActiveDictionaries,
    now: float,
) -> StoredDictionaries:
    """Delete dictionaries that no message needs. Return the remaining ones."""
    unneeded = find_unneeded(kept, in_use, await _oldest(broker, metadata.topic, now))
    if unneeded:
        shared = await _used_by_others(bucket, metadata.topic)
        for hash in unneeded:
            if hash not in shared:
                await metadata.store.delete(bytes.fromhex(hash))
        kept = kept.without(unneeded)
        await metadata.write_kept(kept)
    return kept


async def _oldest(broker: Broker, topic: str, now: float) -> float:
    """The time of the first message of the log; `now` for an empty log."""
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


async def _used_by_others(bucket: Bucket, topic: str) -> Collection[str]:
    """Hashes that other topics store. Equal samples give equal dictionaries."""
    found: set[str] = set()
    for entry in await bucket.entries("kept.>"):
        if entry.value is not None and entry.key != f"kept.{topic}":
            with suppress(RegistryError):
                found.update(one.hash for one in StoredDictionaries.decode(entry.value).dictionaries)
    return found
