"""Bodies of frames out of a topic's log: what its publishers pack, and what a dictionary for them must know.

A frame that is packed with a dictionary names a slot, and the slot means what its publisher's last binding before the
frame says. Parts of a log are read side by side, so the bindings are found first and go to every task.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame

from thinwire.control.dictionaries import fetched
from thinwire.control.dictionaries.bodies import SAMPLED
from thinwire.control.names import DICTIONARIES
from thinwire.dictionaries import Codec, Dictionary, codec_of
from thinwire.errors import CorruptDictionary, PeerFault
from thinwire.frames import Frame, FrameKind, bindings_in, read, split
from thinwire.frames.frame import MAX_FRAME
from thinwire.frames.packing import DEFLATE_SLOT
from thinwire.link.packer import WORTH_TRYING
from thinwire.transports.source import LogSource

BODIES = "file string, block long, line long, message binary"
"""a row a frame: the topic, the place of the frame in its message, the offset of the message, and the body"""
_BOUND = "publisher string, at long, slot int, hash binary"
_NAMES = ("file", "block", "line", "message")


class Bound(NamedTuple):
    """From the message behind this offset on, or within it, a publisher's slot names this dictionary."""

    publisher: str
    at: int
    slot: int
    hash: bytes


class Slots:
    """What every slot of every publisher names at every place of a log."""

    def __init__(self, bound: Iterable[Bound]) -> None:
        self._bound: dict[tuple[str, int], list[tuple[int, bytes]]] = defaultdict(list)
        for one in sorted(bound):
            self._bound[one.publisher, one.slot].append((one.at, one.hash))

    def named(self, publisher: str, slot: int, offset: int) -> bytes | None:
        """The hash that a slot names before the message at this offset; None where nothing is bound to it.

        >>> slots = Slots([Bound("p", 3, 7, b"old"), Bound("p", 9, 7, b"new")])
        >>> slots.named("p", 7, 3), slots.named("p", 7, 9), slots.named("p", 7, 10)
        (None, b'old', b'new')
        """
        known = self._bound.get((publisher, slot), [])
        place = bisect_left(known, (offset, b""))
        return known[place - 1][1] if place else None

    @property
    def hashes(self) -> set[bytes]:
        """Everything that was ever bound."""
        return {hash for known in self._bound.values() for _, hash in known}


def bindings_of(frames: DataFrame) -> Slots:
    """The bindings of a log that was read with `columns=frames`."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = (batch.column(name).to_pylist() for name in ("_publisher", "_offset", "payload"))
            found = [
                {"publisher": publisher, "at": offset, "slot": one.slot, "hash": one.hash}
                for publisher, offset, payload in zip(*columns, strict=True)
                for one in bindings_in(payload)
            ]
            yield pa.RecordBatch.from_pylist(found, schema=_ARROW_BOUND)

    rows = frames.mapInArrow(run, _BOUND).collect()
    return Slots(Bound(row.publisher, row.at, row.slot, bytes(row.hash)) for row in rows)


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
            columns = (batch.column(name).to_pylist() for name in ("_publisher", "_offset", "payload"))
            found = [
                (topic, place, offset, body)
                for publisher, offset, payload in zip(*columns, strict=True)
                for place, body in reader.bodies(publisher, offset, payload)
            ]
            arrays = zip(*found, strict=True) if found else [()] * len(_NAMES)
            yield pa.RecordBatch.from_arrays(
                [pa.array(column, kind) for column, kind in zip(arrays, _KINDS, strict=True)], names=list(_NAMES)
            )

    return frames.mapInArrow(run, BODIES)


class _Reader:
    """Unpacks the frames of messages that come in any order."""

    def __init__(self, slots: Slots, known: dict[bytes, Dictionary]) -> None:
        self._slots = slots
        self._known = known
        self._codecs: dict[bytes, Codec] = {}

    def bodies(self, publisher: str, offset: int, payload: bytes) -> Iterator[tuple[int, bytes]]:
        """The places and bodies of the frames that can be read; what is broken is a subscriber's to complain about."""
        within: dict[int, bytes] = {}
        try:
            for place, raw in enumerate(split(payload)):
                frame = read(raw)
                if frame.kind == FrameKind.BINDING:
                    within.update({one.slot: one.hash for one in bindings_in(raw)})
                body = self._body(frame, lambda slot: within.get(slot) or self._slots.named(publisher, slot, offset))
                if len(body) >= WORTH_TRYING:
                    yield place, body
        except PeerFault:
            return

    def _body(self, frame: Frame, named: Callable[[int], bytes | None]) -> bytes:
        if frame.kind not in SAMPLED:
            return b""
        if frame.slot is None or frame.slot == DEFLATE_SLOT:
            return frame.body
        codec = self._codec(named(frame.slot))
        return codec.unpack(frame.carried, MAX_FRAME) if codec is not None else b""

    def _codec(self, hash: bytes | None) -> Codec | None:
        if hash is None or hash not in self._known:
            return None
        if hash not in self._codecs:
            self._codecs[hash] = codec_of(self._known[hash])
        return self._codecs[hash]


_ARROW_BOUND: Any = pa.schema(
    [("publisher", pa.string()), ("at", pa.int64()), ("slot", pa.int32()), ("hash", pa.binary())]
)
_KINDS: tuple[Any, ...] = (pa.string(), pa.int64(), pa.int64(), pa.binary())
