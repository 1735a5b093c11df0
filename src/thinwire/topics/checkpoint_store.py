"""Checkpoints: decoder snapshots of a topic at one log offset, stored as blobs in a bucket.

An index per topic lists the checkpoints and their parts. It is written twice: before the pieces, so that the pieces of
an interrupted write can be found and deleted, and after them, when the checkpoint is complete. Recent checkpoints are
close together and old ones far apart, so their number is bounded for any retention.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from thinwire.brokers.protocol import NOTHING, Bucket
from thinwire.errors import Conflict, CorruptCheckpoint, RegistryError
from thinwire.topics.blob_store import PIECE_SIZE, BlobStore, blob_hash
from thinwire.topics.document import Document, decode_object, encode_object, nested
from thinwire.topics.document_fields import Count, Number, Text, Topic, check_mapping, mapping_of, refuse, whole

MAX_CHECKPOINTS = 12
"""checkpoints of a topic, at most"""
MAX_PARTS = 1_024
"""parts of a checkpoint, at most: the index must fit into one document"""
MAX_PART = 1 << 30
"""bytes of one part, at most"""
MAX_PIECES = 1 << 16
ATTEMPTS = 20
_MAX_INDEX = 600_000

_log = logging.getLogger("thinwire.translator")


@dataclass(frozen=True)
class CheckpointPart(Document):
    """A part of a checkpoint, as listed in the index document.

    number: index of the part in the checkpoint
    pieces, size, hash: number of pieces, bytes and hash of the content
    place: for the state of a channel, offset of the last channel message in that state
    """

    number: Annotated[int, whole(most=MAX_PARTS)]
    pieces: Annotated[int, whole(most=MAX_PIECES)]
    size: Annotated[int, whole(most=MAX_PART)]
    hash: Text
    place: Count = 0


@dataclass(frozen=True)
class Checkpoint(Document):
    """The state of a topic after the message at `offset`, as the translator of an epoch decoded it.

    time: time of that message
    complete: all pieces are stored
    """

    topic: Topic
    offset: Count
    epoch: Count
    time: Number = 0.0
    parts: Annotated[Mapping[str, CheckpointPart], mapping_of(nested(CheckpointPart))] = field(default_factory=dict)
    complete: bool = True

    def to_document(self) -> dict[str, Any]:
        """The entry in the index; the topic is in the key of the index."""
        document = super().to_document()
        del document["topic"]
        return document

    def keys(self, part: CheckpointPart) -> list[str]:
        """Return the keys of the pieces of a part."""
        prefix = f"part.{self.topic}.{self.offset}-{self.epoch}.{part.number}"
        return [f"{prefix}.{piece}" for piece in range(part.pieces)]

    def has_keys_of(self, other: Checkpoint) -> bool:
        """Return whether two checkpoints of a topic use the same keys."""
        return (self.offset, self.epoch) == (other.offset, other.epoch)


class CheckpointStore:
    """The checkpoints of all topics in one bucket.

    piece_size: bytes of a piece, at most; less than the broker accepts in a message
    """

    def __init__(self, bucket: Bucket, *, piece_size: int = PIECE_SIZE) -> None:
        self._bucket = bucket
        self._blobs = BlobStore(bucket, CorruptCheckpoint, piece_size=piece_size)

    async def put(
        self,
        topic: str,
        offset: int,
        parts: Mapping[str, bytes],
        *,
        epoch: int,
        time: float = 0.0,
        places: Mapping[str, int] | None = None,
    ) -> Checkpoint:
        """Store a checkpoint. `places` has the channel offsets of the parts that belong to a channel."""
        if len(parts) > MAX_PARTS:
            raise RegistryError("too many parts", topic=topic, parts=len(parts), limit=MAX_PARTS)
        entries = {
            name: CheckpointPart(
                number, self._blobs.count(len(data)), len(data), blob_hash(data), (places or {}).get(name, 0)
            )
            for number, (name, data) in enumerate(parts.items())
        }
        begun = Checkpoint(topic, offset, epoch, time, entries, complete=False)
        # Incomplete checkpoints of interrupted writers are removed with this change of the index.
        await self._change(
            topic, lambda known: [*(one for one in known if one.complete and not one.has_keys_of(begun)), begun]
        )
        for name, data in parts.items():
            await self._blobs.put(dict(zip(begun.keys(entries[name]), self._blobs.cut(data), strict=True)))
        complete = replace(begun, complete=True)
        await self._change(topic, lambda known: [*(one for one in known if not one.has_keys_of(begun)), complete])
        return complete

    async def all(self, topic: str) -> list[Checkpoint]:
        """Return the complete checkpoints of a topic, ordered by offset."""
        return [one for one in (await self._read_index(topic))[0] if one.complete]

    async def part(self, checkpoint: Checkpoint, name: str) -> bytes:
        """Return the bytes of a part. Raise `CorruptCheckpoint` if they are not the stored ones."""
        facts = {"topic": checkpoint.topic, "offset": checkpoint.offset, "part": name}
        part = checkpoint.parts.get(name)
        if part is None:
            raise CorruptCheckpoint("no such part", **facts)
        data = await self._blobs.join(checkpoint.keys(part), part.size, **facts)
        if blob_hash(data) != part.hash:
            raise CorruptCheckpoint("the hash differs", **facts)
        return data

    async def prune(self, topic: str, first_retained_offset: int) -> None:
        """Delete all checkpoints before the first message of the log, except the last of them."""

        def needed(known: list[Checkpoint]) -> list[Checkpoint]:
            before = [one for one in known if one.complete and one.offset < first_retained_offset]
            return [one for one in known if one.offset >= first_retained_offset or one in before[-1:]]

        await self._change(topic, needed)

    async def forget(self, topic: str) -> None:
        """Delete every checkpoint of a topic."""
        await self._change(topic, lambda known: [])

    async def _read_index(self, topic: str) -> tuple[list[Checkpoint], int]:
        entry = await self._bucket.get(index_key(topic))
        if entry is None or entry.value is None:
            return [], NOTHING
        try:
            return read_index(topic, entry.value), entry.revision
        except RegistryError as problem:
            _log.warning("%s: replacing an unreadable index of checkpoints: %s", topic, problem)
            return [], entry.revision

    async def _change(self, topic: str, change: Callable[[list[Checkpoint]], list[Checkpoint]]) -> None:
        """Change the index, also with concurrent writers, and delete the pieces of checkpoints that left it."""
        for _ in range(ATTEMPTS):
            known, revision = await self._read_index(topic)
            requested = sorted(change(known), key=lambda one: (one.offset, one.epoch))
            kept, value = _encode_index(requested)
            if kept == known:
                return
            try:
                await self._bucket.put(index_key(topic), value, revision=revision)
            except Conflict:
                continue
            for one in [*known, *requested]:
                if not any(one.has_keys_of(other) for other in kept):
                    await self._blobs.delete(key for part in one.parts.values() for key in one.keys(part))
            return
        raise Conflict("too many concurrent changes of the index of checkpoints", topic=topic, attempts=ATTEMPTS)


def thinned(checkpoints: list[Checkpoint], limit: int) -> list[Checkpoint]:
    """Return at most `limit` checkpoints: close together near the end, far apart before; always first and last."""
    kept = list(checkpoints)
    while len(kept) > max(limit, 2):
        end = kept[-1].offset + 1
        gaps = [(kept[n + 1].offset - kept[n - 1].offset) / (end - kept[n - 1].offset) for n in range(1, len(kept) - 1)]
        del kept[1 + gaps.index(min(gaps))]
    return kept


def _encode_index(checkpoints: list[Checkpoint]) -> tuple[list[Checkpoint], bytes]:
    """Return the checkpoints that fit into one index document, and the encoded document."""
    kept = thinned(checkpoints, MAX_CHECKPOINTS)
    while True:
        value = encode_object({"checkpoints": [one.to_document() for one in kept]})
        if len(value) <= _MAX_INDEX or len(kept) <= 1:
            return kept, value
        kept = thinned(kept, len(kept) - 1) if len(kept) > 2 else kept[-1:]


def index_key(topic: str) -> str:
    """Return the key of a topic's index of checkpoints."""
    return f"index.{topic}"


def read_index(topic: str, value: bytes) -> list[Checkpoint]:
    """Return all checkpoints of an index, ordered by offset. Raise `RegistryError` if it cannot be decoded."""
    listed = decode_object(value).get("checkpoints", [])
    if not isinstance(listed, list):
        refuse("checkpoints", "a list", listed)
    found = [Checkpoint.from_document(check_mapping("checkpoint", one) | {"topic": topic}) for one in listed]
    return sorted(found, key=lambda one: (one.offset, one.epoch))
