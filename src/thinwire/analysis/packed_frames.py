"""Frames as a publisher packs them that deflates bodies or has a dictionary, made from those of one that does not.

What travels of an event does not depend on how its frame is packed, so ways of packing share a run of the publisher:
frames are unpacked and packed again by the publisher's own rule. One dictionary is learnt from the end of the training
part and used for all that is held out; what it costs to send is counted once.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from thinwire.analysis.event_times import EventClock
from thinwire.analysis.publisher_run import EncodedRun, TimedPublisher
from thinwire.analysis.strategies import Bytes, Packed
from thinwire.codec import StreamConfig
from thinwire.codec.dictionary_bindings import MIN_PACKED_BYTES, Packer
from thinwire.codec.stream_config import Counts
from thinwire.dictionaries import Dictionary, choose
from thinwire.dictionaries.dictionary_transfer import cost
from thinwire.dictionaries.topology import ONE_TO_ONE
from thinwire.schema import Schema
from thinwire.wire import Frame, FrameKind, read, seal

LEARNT = 4_000
"""events, the last of the training part, whose frames a dictionary is learnt from"""
SIZES = (1024, 4096, 16384)
BUDGET = 0.25
"""CPU time to pack, as a multiple of deflate's: live publishers use no more"""
SLOT = 1
EXPIRES = 1 << 31
"""a time as far ahead as any that a live publisher tells: it takes as many bytes"""
_READ_FIRST = frozenset({FrameKind.KEY, FrameKind.BINDING})


def learn(
    batches: Iterable[pa.RecordBatch], schema: Schema, config: StreamConfig, clock: EventClock
) -> Dictionary | None:
    """The dictionary of the frames that these events become; None where they are too few or too short for one."""
    pace: TimedPublisher | None = None
    bodies: list[bytes] = []
    for batch in batches:
        times = clock.read(batch)
        if not batch.num_rows:
            continue
        pace = pace or TimedPublisher(schema, config, float(times[0]))
        told = (frame for stretch in pace.publish(batch, times) for frame in stretch.frames)
        bodies += (frame.body for frame in map(read, told) if frame.kind not in _READ_FIRST)
    return choose([body for body in bodies if len(body) >= MIN_PACKED_BYTES], sizes=SIZES, budget=BUDGET)


class Packing:
    """One way of packing: none, deflate, or dictionary, which is deflate where there is no dictionary."""

    def __init__(self, name: Packed, dictionary: Dictionary | None = None) -> None:
        self.name = name
        self._packer = Packer()
        self._bindings: list[bytes] = []
        self._before, self._after = Counts(), Counts()
        self._sent = 0
        if name == "dictionary" and dictionary is not None:
            binding = self._packer.use(dictionary, SLOT, EXPIRES)
            self._bindings = [seal(FrameKind.BINDING, binding.encode(), sequence=0, chain=0)[0]]
            self._sent = cost(dictionary)

    def packed(self, told: EncodedRun) -> EncodedRun:
        """The same frames, packed, with what slots name behind every key frame. Their checks are not made anew."""
        if self.name == "none":
            return told
        frames: list[bytes] = []
        places: list[int] = []
        for place, raw in enumerate(told.frames):
            made = self._frames(raw)
            frames += made
            places += [place] * len(made)
            self._before.add(raw)
            for one in made:
                self._after.add(one)
        return EncodedRun(frames, told.times[np.array(places, dtype=np.int64)], told.rows, told.rejected)

    def mark(self) -> Bytes:
        """What packing has changed since the last mark, and the dictionary the first time: it goes to both ends."""
        before, after, sent = self._before, self._after, self._sent
        self._before, self._after, self._sent = Counts(), Counts(), 0
        return Bytes(
            data=after.data_bytes - before.data_bytes,
            key=after.key_bytes - before.key_bytes,
            control=after.control_bytes - before.control_bytes,
            frames=after.frames - before.frames,
            dictionary=sent,
            link=sent * ONE_TO_ONE.receivers,
        )

    def _frames(self, raw: bytes) -> list[bytes]:
        frame = read(raw)
        if frame.kind in _READ_FIRST:
            return [raw, *self._bindings] if frame.kind == FrameKind.KEY else [raw]
        return [self._again(frame)]

    def _again(self, frame: Frame) -> bytes:
        body, slot = self._packer.pack(frame.body)
        about = {"sequence": frame.sequence, "incarnation": frame.incarnation, "chain": 0}
        return seal(frame.kind, body, **about, wide=frame.wide, slot=slot)[0]
