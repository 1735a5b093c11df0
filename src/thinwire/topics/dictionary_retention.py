"""Which dictionaries the store can do without: those that no message of the log can have been packed with.

Publishers use no dictionary after its expiry. Once the first message that the log still has was stored later than that,
nothing can need it any more, unless another that is needed is told as a change of it.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress

from thinwire.brokers.protocol_broker import Broker, Bucket
from thinwire.errors import RegistryError
from thinwire.topics.dictionary_documents import InUse, Kept
from thinwire.topics.dictionary_metadata import TopicShelf
from thinwire.topics.names import log_of

MARGIN = 900.0
"""seconds by which the clocks of publishers and of the broker may differ, and a message may be on its way"""


def dispensable(kept: Kept, in_use: InUse, oldest: float) -> list[str]:
    """The hashes of those that nobody needs, where the log begins with a message stored at this time.

    >>> from thinwire.topics.dictionary_documents import Said
    >>> a, b, c = (letter * 32 for letter in "abc")
    >>> kept = Kept("rooms", (Said(a, 100), Said(b, 200, parent=a), Said(c, 300)))
    >>> dispensable(kept, InUse("rooms"), oldest=1_050.0), dispensable(kept, InUse("rooms"), oldest=1_150.0)
    ([], ['aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb'])
    """
    needed = [said.hash for said in kept.dictionaries if said.expires + MARGIN >= oldest]
    needed += [said.hash for said in in_use.dictionaries]
    lines = {hash for one in needed for hash in kept.lineage(one)}
    return [said.hash for said in kept.dictionaries if said.hash not in lines]


async def tidy(broker: Broker, shelf: TopicShelf, bucket: Bucket, kept: Kept, in_use: InUse, now: float) -> Kept:
    """Delete what nobody needs from the store; what is kept now."""
    gone = dispensable(kept, in_use, await _oldest(broker, shelf.topic, now))
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
                found.update(said.hash for said in Kept.decode(entry.value).dictionaries)
    return found
