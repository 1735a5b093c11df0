"""Bodies of frames out of a topic's log: what its publishers pack, and what a dictionary for them must know.

A frame that is packed with a dictionary names a slot, and the slot means what its publisher's last binding before the
frame says. Parts of a log are read side by side, so the bindings are found first and go to every task.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from thinwire.brokers.protocol_source import LogSource
from thinwire.codec.frame_encoder_packer import WORTH_TRYING
from thinwire.dictionaries import Codec, Dictionary, codec_of
from thinwire.errors import CorruptDictionary, PeerFault
from thinwire.topics.dictionary_store import SAMPLED
from thinwire.topics.dictionary_store_store import fetched
from thinwire.topics.names import DICTIONARIES
from thinwire.wire import FrameKind, bindings_in, read
from thinwire.wire.frame import MAX_FRAME
from thinwire.wire.frame_packing import DEFLATE_SLOT

BODIES = "file string, block long, line long, message binary"
"""a row a frame: the topic, the place of the frame in its message, the offset of the message, and the body"""
_PLACE = ("_publisher", "_offset", "_frame")


class Bound(NamedTuple):
    """Behind this frame of this message, a publisher's slot names this dictionary."""

    publisher: str
    offset: int
    frame: int
    slot: int
    hash: bytes


class Slots:
    """What every slot of every publisher names at every place of a log."""

    def __init__(self, bound: Iterable[Bound]) -> None:
        self._bound: dict[tuple[str, int], list[tuple[int, int, bytes]]] = defaultdict(list)
        for one in sorted(bound):
            self._bound[one.publisher, one.slot].append((one.offset, one.frame, one.hash))

    def named(self, publisher: str, slot: int, offset: int, frame: int) -> bytes | None:
        """The hash that a slot names before this frame; None where nothing is bound to it.

        >>> slots = Slots([Bound("p", 3, 0, 7, b"old"), Bound("p", 9, 2, 7, b"new")])
        >>> slots.named("p", 7, 3, 0), slots.named("p", 7, 9, 1), slots.named("p", 7, 9, 3)
        (None, b'old', b'new')
        """
        known = self._bound.get((publisher, slot), [])
        place = bisect_left(known, (offset, frame, b""))
        return known[place - 1][2] if place else None

    @property
    def hashes(self) -> set[bytes]:
        """Everything that was ever bound."""
        return {hash for known in self._bound.values() for *_, hash in known}


def bindings_of(frames: DataFrame) -> Slots:
    """The bindings of a log that was read with `columns=frames`."""
    rows = _of_kinds(frames, [FrameKind.BINDING]).collect()
    found = ((row, one) for row in rows for one in bindings_in(bytes(row.payload)))
    return Slots(Bound(row["_publisher"], row["_offset"], row["_frame"], one.slot, one.hash) for row, one in found)


def known_of(source: LogSource, hashes: Iterable[bytes]) -> dict[bytes, Dictionary]:
    """The dictionaries of these hashes that the store has; frames that need others are not looked at."""
    found = {}
    for hash in hashes:
        try:
            dictionary = fetched(hash, partial(source.document, DICTIONARIES))
        except CorruptDictionary:
            continue
        if dictionary is not None:
            found[hash] = dictionary
    return found


def bodies_of(frames: DataFrame, topic: str, slots: Slots, known: dict[bytes, Dictionary]) -> DataFrame:
    """The unpacked bodies that a publisher would try a dictionary on, each with its place."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reader = _Reader(slots, known)
        for batch in batches:
            bodies = [reader.body(*row) for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)]
            told = pa.array(bodies, pa.binary())
            arrays = [pa.repeat(topic, len(told)), batch.column(2).cast(pa.int64()), batch.column(1), told]
            made = pa.RecordBatch.from_arrays(arrays, names=["file", "block", "line", "message"])
            yield made.filter(told.is_valid())

    return _of_kinds(frames, SAMPLED).mapInArrow(run, BODIES)


class _Reader:
    """Unpacks frames that come in any order."""

    def __init__(self, slots: Slots, known: dict[bytes, Dictionary]) -> None:
        self._slots = slots
        self._known = known
        self._codecs: dict[bytes, Codec] = {}

    def body(self, publisher: str, offset: int, place: int, raw: bytes) -> bytes | None:
        """The body; None where it is too short, or broken, which is a subscriber's to complain about."""
        try:
            frame = read(raw)
            if frame.slot is None or frame.slot == DEFLATE_SLOT:
                body = frame.body
            else:
                codec = self._codec(self._slots.named(publisher, frame.slot, offset, place))
                body = codec.unpack(frame.carried, MAX_FRAME) if codec is not None else b""
        except PeerFault:
            return None
        return body if len(body) >= WORTH_TRYING else None

    def _codec(self, hash: bytes | None) -> Codec | None:
        if hash is None or hash not in self._known:
            return None
        if hash not in self._codecs:
            self._codecs[hash] = codec_of(self._known[hash])
        return self._codecs[hash]


def _of_kinds(frames: DataFrame, kinds: Iterable[Any]) -> DataFrame:
    names = sorted(FrameKind(kind).name.lower() for kind in kinds)
    return frames.where(F.col("_kind").isin(names)).select(*_PLACE, "payload")
