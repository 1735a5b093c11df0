"""Checkpoints of a topic: the state of every link at a place of the log, kept in pieces in a bucket.

An index per topic says which checkpoints there are and what each consists of. It is written twice: before the pieces,
so that whoever comes after a death in between finds what to throw away, and after them, when the checkpoint counts.
Recent checkpoints stand close together and old ones far apart, so their number is bounded however long a log is kept.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import blake2b
from typing import Any

from thinwire.brokers.protocol import NOTHING, Bucket
from thinwire.errors import Conflict, CorruptCheckpoint, RegistryError
from thinwire.topics import document_validation as checks

KEEP = 12
"""checkpoints of a topic, at most"""
MAX_PARTS = 1_024
"""parts of a checkpoint, at most: the index must fit into one document"""
MAX_PART = 1 << 30
"""bytes of one part, at most"""
PIECE = 1 << 18
MAX_PIECES = 1 << 16
ATTEMPTS = 20
_MAX_INDEX = 600_000

_log = logging.getLogger("thinwire.translator")


@dataclass(frozen=True)
class CheckpointPart:
    """One part of a checkpoint, as the index tells it.

    number: which it is among the parts; pieces, size, hash: what it is made of
    place: for the state of a channel, the offset of the channel's message after which it is the state
    """

    number: int
    pieces: int
    size: int
    hash: str
    place: int = 0

    def __post_init__(self) -> None:
        checks.count("number", self.number, MAX_PARTS)
        checks.count("pieces", self.pieces, MAX_PIECES)
        checks.count("size", self.size, MAX_PART)
        checks.text("hash", self.hash)
        checks.count("place", self.place)


@dataclass(frozen=True)
class Checkpoint:
    """The state of a topic after the message at `offset`, stored at `time`, as the translator of an epoch saw it.

    complete: are all its pieces there?
    """

    topic: str
    offset: int
    epoch: int
    time: float = 0.0
    parts: Mapping[str, CheckpointPart] = field(default_factory=dict)
    complete: bool = True

    def __post_init__(self) -> None:
        checks.topic(self.topic)
        checks.count("offset", self.offset)
        checks.count("epoch", self.epoch)
        checks.number("time", self.time)
        checks.flag("complete", self.complete)

    @classmethod
    def from_document(cls, topic: str, document: Mapping[str, Any]) -> Checkpoint:
        """A checkpoint as it stands in the index."""
        parts = checks.mapping("parts", document.get("parts", {}))
        made = {
            name: checks.build(CheckpointPart, checks.mapping(f"parts.{name}", part)) for name, part in parts.items()
        }
        return checks.build(cls, {**document, "topic": topic, "parts": made})

    def to_document(self) -> dict[str, Any]:
        """As it stands in the index, which knows the topic."""
        document = asdict(self)
        del document["topic"]
        return document

    def keys(self, part: CheckpointPart) -> list[str]:
        """Where the pieces of a part are."""
        return [f"{self._prefix}.{part.number}.{piece}" for piece in range(part.pieces)]

    def pieces(self, name: str) -> list[str]:
        """Where the pieces of the part of this name are."""
        part = self.parts.get(name)
        if part is None:
            raise CorruptCheckpoint("it has no such part", topic=self.topic, offset=self.offset, part=name)
        return self.keys(part)

    def assembled(self, name: str, pieces: Sequence[bytes | None]) -> bytes:
        """The bytes of a part from its pieces; `CorruptCheckpoint` where they are not those that were stored."""
        part = self.parts[name]
        for key, piece in zip(self.keys(part), pieces, strict=True):
            if piece is None or len(piece) > part.size:
                raise CorruptCheckpoint("a piece is missing or too large", topic=self.topic, part=name, key=key)
        data = b"".join(piece for piece in pieces if piece is not None)
        if len(data) != part.size or _hash(data) != part.hash:
            raise CorruptCheckpoint("it is not what was stored", topic=self.topic, offset=self.offset, part=name)
        return data

    @property
    def _prefix(self) -> str:
        return f"part.{self.topic}.{self.offset}-{self.epoch}"


class CheckpointStore:
    """The checkpoints of all topics in one bucket.

    piece: bytes of a piece, at most; less than the broker takes in a message
    """

    def __init__(self, bucket: Bucket, *, piece: int = PIECE) -> None:
        self.piece = piece
        self._bucket = bucket

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
        """Store a checkpoint; the names of its parts are the caller's, `places` is kept beside those it names."""
        if len(parts) > MAX_PARTS:
            raise RegistryError("too many parts", topic=topic, parts=len(parts), limit=MAX_PARTS)
        told = {
            name: self._part(number, data, (places or {}).get(name, 0))
            for number, (name, data) in enumerate(parts.items())
        }
        made = Checkpoint(topic, offset, epoch, time, told, complete=False)
        # what was begun by others and never completed goes with the first change of the index
        await self._forget(
            await self._change(topic, lambda known: [*(one for one in known if _stays(one, made)), made])
        )
        for name, data in parts.items():
            for number, key in enumerate(made.keys(told[name])):
                await self._bucket.put(key, data[number * self.piece : (number + 1) * self.piece])
        complete = replace(made, complete=True)
        await self._forget(
            await self._change(topic, lambda known: [*(one for one in known if not _same_place(one, made)), complete])
        )
        return complete

    async def all(self, topic: str) -> list[Checkpoint]:
        """The complete checkpoints of a topic, in the order of their offsets."""
        return [one for one in (await self._index(topic))[0] if one.complete]

    async def part(self, checkpoint: Checkpoint, name: str) -> bytes:
        """The bytes of a part; `CorruptCheckpoint` where they are not those that were stored."""
        pieces: list[bytes | None] = []
        for key in checkpoint.pieces(name):
            entry = await self._bucket.get(key)
            pieces.append(entry.value if entry is not None else None)
        return checkpoint.assembled(name, pieces)

    async def prune(self, topic: str, first_retained_offset: int) -> None:
        """Forget what no reader can use: all but the last checkpoint before the first message of the log."""

        def keep(known: list[Checkpoint]) -> list[Checkpoint]:
            before = [one for one in known if one.complete and one.offset < first_retained_offset]
            return [one for one in known if one.offset >= first_retained_offset or one in before[-1:]]

        await self._forget(await self._change(topic, keep))

    async def forget(self, topic: str) -> None:
        """Forget every checkpoint of a topic."""
        await self._forget(await self._change(topic, lambda known: []))

    def _part(self, number: int, data: bytes, place: int) -> CheckpointPart:
        return CheckpointPart(number, -(-len(data) // self.piece), len(data), _hash(data), place)

    async def _index(self, topic: str) -> tuple[list[Checkpoint], int]:
        entry = await self._bucket.get(index_key(topic))
        if entry is None or entry.value is None:
            return [], NOTHING
        try:
            return read_index(topic, entry.value), entry.revision
        except RegistryError as problem:
            _log.warning("%s: the index of checkpoints cannot be read, and is begun again: %s", topic, problem)
            return [], entry.revision

    async def _change(self, topic: str, change: Callable[[list[Checkpoint]], list[Checkpoint]]) -> list[Checkpoint]:
        """Change the index, whoever else does; what is no longer in it."""
        for _ in range(ATTEMPTS):
            known, revision = await self._index(topic)
            wanted = sorted(change(known), key=lambda one: (one.offset, one.epoch))
            kept, value = _fitting(wanted)
            if kept == known:
                return []
            try:
                await self._bucket.put(index_key(topic), value, revision=revision)
            except Conflict:
                continue
            return [one for one in [*known, *wanted] if not any(_same_place(one, other) for other in kept)]
        raise Conflict("others keep changing the index of checkpoints", topic=topic, attempts=ATTEMPTS)

    async def _forget(self, checkpoints: Iterable[Checkpoint]) -> None:
        for one in checkpoints:
            for part in one.parts.values():
                for key in one.keys(part):
                    await self._bucket.delete(key)


def thinned(checkpoints: list[Checkpoint], limit: int) -> list[Checkpoint]:
    """So many of them, close together near the end and far apart long before it; first and last always stay."""
    kept = list(checkpoints)
    while len(kept) > max(limit, 2):
        end = kept[-1].offset + 1
        gaps = [(kept[n + 1].offset - kept[n - 1].offset) / (end - kept[n - 1].offset) for n in range(1, len(kept) - 1)]
        del kept[1 + gaps.index(min(gaps))]
    return kept


def _fitting(checkpoints: list[Checkpoint]) -> tuple[list[Checkpoint], bytes]:
    """As many as an index holds, and the index."""
    kept = thinned(checkpoints, KEEP)
    while True:
        value = checks.write_object({"checkpoints": [one.to_document() for one in kept]})
        if len(value) <= _MAX_INDEX or len(kept) <= 1:
            return kept, value
        kept = thinned(kept, len(kept) - 1) if len(kept) > 2 else kept[-1:]


def _stays(known: Checkpoint, made: Checkpoint) -> bool:
    """Does a checkpoint of the index stay when another is begun?"""
    return known.complete and not _same_place(known, made)


def _same_place(one: Checkpoint, other: Checkpoint) -> bool:
    """Do two checkpoints have the same pieces?"""
    return (one.offset, one.epoch) == (other.offset, other.epoch)


def index_key(topic: str) -> str:
    """Where the index of a topic's checkpoints is."""
    return f"index.{topic}"


def read_index(topic: str, value: bytes) -> list[Checkpoint]:
    """The checkpoints that an index tells of, complete or not, in the order of their offsets; or a `RegistryError`."""
    listed = checks.read_object(value).get("checkpoints", [])
    if not isinstance(listed, list):
        checks.refuse("checkpoints", "a list", listed)
    found = [Checkpoint.from_document(topic, checks.mapping("checkpoint", one)) for one in listed]
    return sorted(found, key=lambda one: (one.offset, one.epoch))


def _hash(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()
