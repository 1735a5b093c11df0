"""Checkpoints: decoder snapshots of a topic at one log offset, stored as blobs in a bucket.

A part of a checkpoint is the snapshot of one decoder, stored in pieces that fit into a message. An index document per
topic lists the checkpoints and their parts. The index is written twice: before the pieces, so that the pieces of an
interrupted write can be found and deleted, and after them, when the checkpoint is complete. Recent checkpoints are
close together and old ones far apart, so their number is bounded for any retention.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated

from thinwire.brokers.protocol import NOTHING, Bucket
from thinwire.errors import Conflict, CorruptCheckpoint, RegistryError
from thinwire.topics.blob_store import PIECE_SIZE, BlobStore, blob_hash
from thinwire.topics.document import Document, list_of, nested
from thinwire.topics.document_fields import (
    Count,
    Number,
    StoredName,
    Text,
    mapping_of,
    whole,
)

MAX_CHECKPOINTS = 12
"""checkpoints of a topic, at most"""
MAX_LISTED = 1_024
"""checkpoints in an index that is read, at most"""
MAX_PARTS = 1_024
"""parts of a checkpoint, at most: the index must fit into one document"""
MAX_PART = 1 << 30
"""bytes of one part, at most"""
MAX_PIECES = 1 << 16
"""pieces of one part, at most"""
ATTEMPTS = 20
"""attempts to change an index that other processes change at the same time"""
_MAX_INDEX = 600_000
"""bytes of an index document, at most"""

_log = logging.getLogger("thinwire.translator")


@dataclass(frozen=True)
class CheckpointPart(Document):
    """A part of a checkpoint, as listed in the index document.

    number: index of the part in the checkpoint
    pieces, size, hash: number of pieces, bytes and hash of the content
    channel_offset: for a decoder of a channel, offset of the last channel message in the snapshot; 0 for the topic log
    """

    number: Annotated[int, whole(most=MAX_PARTS)]
    pieces: Annotated[int, whole(most=MAX_PIECES)]
    size: Annotated[int, whole(most=MAX_PART)]
    hash: Text
    channel_offset: Annotated[Count, StoredName("place")] = 0


@dataclass(frozen=True)
class Checkpoint(Document):
    """The state of a topic after the message at `offset`, as the translator with the lease of `epoch` decoded it.

    time: storage time of that message, in seconds since 1970
    parts: parts by name; see `LogSelection.part_name`
    complete: all pieces are stored
    """

    offset: Count
    epoch: Count
    time: Number = 0.0
    parts: Annotated[Mapping[str, CheckpointPart], mapping_of(nested(CheckpointPart))] = field(default_factory=dict)
    complete: bool = True

    def piece_keys(self, topic: str, part: CheckpointPart) -> list[str]:
        """Return the keys of the pieces of a part."""
        prefix = f"part.{topic}.{self.offset}-{self.epoch}.{part.number}"
        return [f"{prefix}.{piece}" for piece in range(part.pieces)]

    def has_same_keys(self, other: Checkpoint) -> bool:
        """Return True if the pieces of two checkpoints of a topic have the same keys."""
        return (self.offset, self.epoch) == (other.offset, other.epoch)


@dataclass(frozen=True)
class CheckpointIndex(Document):
    """The checkpoints of a topic, ordered by offset. Its key contains the topic."""

    checkpoints: Annotated[tuple[Checkpoint, ...], list_of(Checkpoint, MAX_LISTED)] = ()


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
        channel_offsets: Mapping[str, int] | None = None,
    ) -> Checkpoint:
        """Store a checkpoint.

        parts: content of each part, by name
        channel_offsets: `CheckpointPart.channel_offset` of the parts that belong to a channel, by name
        """
        if len(parts) > MAX_PARTS:
            raise RegistryError("too many parts", topic=topic, parts=len(parts), limit=MAX_PARTS)
        entries = {
            name: CheckpointPart(
                number, self._blobs.count(len(data)), len(data), blob_hash(data), (channel_offsets or {}).get(name, 0)
            )
            for number, (name, data) in enumerate(parts.items())
        }
        incomplete = Checkpoint(offset, epoch, time, entries, complete=False)
        # Incomplete checkpoints of interrupted writers are removed with this change of the index.
        await self._change(
            topic,
            lambda known: [*(old for old in known if old.complete and not old.has_same_keys(incomplete)), incomplete],
        )
        for name, data in parts.items():
            keys = incomplete.piece_keys(topic, entries[name])
            await self._blobs.put(dict(zip(keys, self._blobs.cut(data), strict=True)))
        complete = replace(incomplete, complete=True)
        await self._change(
            topic, lambda known: [*(old for old in known if not old.has_same_keys(incomplete)), complete]
        )
        return complete

    async def read_all(self, topic: str) -> list[Checkpoint]:
        """Return the complete checkpoints of a topic, ordered by offset."""
        return [known for known in (await self._read_index(topic))[0].checkpoints if known.complete]

    async def read_part(self, topic: str, checkpoint: Checkpoint, name: str) -> bytes:
        """Return the bytes of a part. Raise `CorruptCheckpoint` if they do not have the stored hash."""
        facts = {"topic": topic, "offset": checkpoint.offset, "part": name}
        part = checkpoint.parts.get(name)
        if part is None:
            raise CorruptCheckpoint("the checkpoint has no part of this name", **facts)
        data = await self._blobs.join(checkpoint.piece_keys(topic, part), part.size, **facts)
        if blob_hash(data) != part.hash:
            raise CorruptCheckpoint("the content of a part does not have the stored hash", **facts)
        return data

    async def prune(self, topic: str, first_retained_offset: int) -> None:
        """Delete all checkpoints before the first message of the log, except the last one before it."""

        def needed(known: list[Checkpoint]) -> list[Checkpoint]:
            before = [old for old in known if old.complete and old.offset < first_retained_offset]
            return [old for old in known if old.offset >= first_retained_offset or old in before[-1:]]

        await self._change(topic, needed)

    async def delete(self, topic: str) -> None:
        """Delete every checkpoint of a topic."""
        await self._change(topic, lambda known: [])

    async def _read_index(self, topic: str) -> tuple[CheckpointIndex, int]:
        entry = await self._bucket.get(checkpoint_index_key(topic))
        if entry is None or entry.value is None:
            return CheckpointIndex(), NOTHING
        try:
            return CheckpointIndex.decode(entry.value), entry.revision
        except RegistryError as problem:
            _log.warning(
                "%s: ignored an unreadable index of checkpoints, which the next write replaces: %s", topic, problem
            )
            return CheckpointIndex(), entry.revision

    async def _change(self, topic: str, change: Callable[[list[Checkpoint]], list[Checkpoint]]) -> None:
        """Change the index, also with concurrent writers, and delete the pieces of checkpoints that it drops."""
        for _ in range(ATTEMPTS):
            known, revision = await self._read_index(topic)
            requested = sorted(change(list(known.checkpoints)), key=lambda new: (new.offset, new.epoch))
            new, value = _encode_index(replace(known, checkpoints=tuple(thin_out(requested, MAX_CHECKPOINTS))))
            if new == known:
                return
            try:
                await self._bucket.put(checkpoint_index_key(topic), value, revision=revision)
            except Conflict:
                continue
            for dropped in [*known.checkpoints, *requested]:
                if not any(dropped.has_same_keys(kept) for kept in new.checkpoints):
                    parts = dropped.parts.values()
                    await self._blobs.delete(key for part in parts for key in dropped.piece_keys(topic, part))
            return
        raise Conflict("too many concurrent changes of the index of checkpoints", topic=topic, attempts=ATTEMPTS)


def thin_out(checkpoints: list[Checkpoint], limit: int) -> list[Checkpoint]:
    """Return at most `limit` checkpoints: the first, the last, and others that are the denser the nearer to the end."""
    kept = list(checkpoints)
    while len(kept) > max(limit, 2):
        end = kept[-1].offset + 1
        gaps = [(kept[n + 1].offset - kept[n - 1].offset) / (end - kept[n - 1].offset) for n in range(1, len(kept) - 1)]
        del kept[1 + gaps.index(min(gaps))]
    return kept


def _encode_index(index: CheckpointIndex) -> tuple[CheckpointIndex, bytes]:
    """Return the index with the checkpoints that fit into one document, and the document."""
    while len(value := index.encode()) > _MAX_INDEX and len(kept := index.checkpoints) > 1:
        fewer = thin_out(list(kept), len(kept) - 1) if len(kept) > 2 else kept[-1:]
        index = replace(index, checkpoints=tuple(fewer))
    return index, value


def checkpoint_index_key(topic: str) -> str:
    """Return the key of a topic's index of checkpoints."""
    return f"index.{topic}"
