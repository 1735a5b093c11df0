"""A stream encoder that runs in the time of recorded events, the packing of its frames, and its CPU time.

Packing compresses the bodies of frames and does not change which values they contain. Strategies that differ only in
packing therefore share one encoder, and its frames are packed afterwards with the rule of a live publisher. One
dictionary is trained on the end of the training part and used for all held-out events; its transfer is counted once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from time import process_time
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from thinwire.analysis.event_columns import EventClock, Floats, Ints, to_events
from thinwire.analysis.strategies import ByteCounts, Packing
from thinwire.codec import StreamConfig, StreamDecoder, StreamEncoder
from thinwire.codec.batch_encoder import publish_batch
from thinwire.codec.dictionary_bindings import MIN_PACKED_BYTES, Packer
from thinwire.codec.stream_config import Counts
from thinwire.dictionaries import Dictionary, choose
from thinwire.dictionaries.dictionary_transfer import cost
from thinwire.dictionaries.topology import ONE_TO_ONE
from thinwire.errors import EventRejected
from thinwire.schema import Kind, Schema
from thinwire.wire import FrameKind, begins_round, read, seal

MIN_COLUMN_ROWS = 64
"""number of rows below which encoding event by event is faster than encoding columns"""


class EncodedRun(NamedTuple):
    """Frames of an encoder in order, the time of each frame, and the rows of the batch that were rejected."""

    frames: list[bytes]
    times: Floats
    rejected: list[int]

    @property
    def round_starts(self) -> list[int]:
        """Indexes of the frames that start a key frame round."""
        return [index for index, frame in enumerate(self.frames) if begins_round(frame)]


class TimedPublisher:
    """A stream encoder that encodes events, and sends heartbeats and key frames, at the times of the events.

    begin: time at which the encoder starts; key frame rounds and heartbeats are scheduled from this time on
    """

    def __init__(self, schema: Schema, config: StreamConfig, begin: float) -> None:
        self.encoder = StreamEncoder(schema, config, now=begin)
        self.now = begin

    def start(self) -> EncodedRun:
        """Return the frames before the first event."""
        return _run_at(self.encoder.start(self.now), self.now)

    def publish(self, batch: pa.RecordBatch, times: Floats) -> Iterator[EncodedRun]:
        """Encode the rows, in runs that end before the next heartbeat or key frame."""
        first = 0
        while first < batch.num_rows:
            yield from self.advance(float(times[first]))
            end = int(np.searchsorted(times, self.encoder.due, side="left"))
            self.now = float(times[end - 1])
            yield self._encode(batch.slice(first, end - first), times[first:end], first)
            first = end

    def advance(self, until: float) -> Iterator[EncodedRun]:
        """Return the heartbeats and key frames due at or before `until`."""
        while (due := self.encoder.due) <= until:
            yield _run_at(self.encoder.poll(due), due)
        self.now = max(self.now, until)

    def close(self) -> EncodedRun:
        """Return the heartbeat that completes suppressed events, if there are such events."""
        return _run_at(self.encoder.heartbeat(self.now) if self.encoder.has_unsent_suppressed else [], self.now)

    def _encode(self, batch: pa.RecordBatch, times: Floats, first: int) -> EncodedRun:
        frames, rows, rejected = encode_batch(self.encoder, batch, self.now)
        return EncodedRun(frames, times[rows], [first + row for row in rejected])


def encode_batch(encoder: StreamEncoder, batch: pa.RecordBatch, now: float) -> tuple[list[bytes], Ints, list[int]]:
    """Encode a batch and return the frames, the row of each frame, and the rejected rows."""
    has_columns = not encoder.schema.nested and not any(p.kind is Kind.OPAQUE for p in encoder.schema)
    if has_columns and batch.num_rows >= MIN_COLUMN_ROWS:
        encoded = publish_batch(encoder, batch, now)
        frame_rows = np.concatenate([np.zeros(0, dtype=np.int64), *(part.rows for part in encoded.parts)])
        return encoded.frames, frame_rows, [row for row, _ in encoded.rejected]
    frames: list[bytes] = []
    rows: list[int] = []
    rejected: list[int] = []
    for row, event in enumerate(to_events(batch, encoder.schema)):
        try:
            sent = encoder.publish(event, now)
        except EventRejected:
            rejected.append(row)
            continue
        frames += sent
        rows += [row] * len(sent)
    return frames, np.array(rows, dtype=np.int64), rejected


def _run_at(frames: list[bytes], now: float) -> EncodedRun:
    return EncodedRun(frames, np.full(len(frames), now), [])


def last_round_start(begin: float, first: float, interval: float) -> float:
    """Return the time of the last key frame round at or before `first`, for a publisher that began at `begin`.

    interval: seconds between two rounds

    >>> last_round_start(100.0, 7500.0, 3600.0), last_round_start(100.0, 90.0, 3600.0)
    (7300.0, 90.0)
    """
    return begin + interval * math.floor((first - begin) / interval) if first > begin else first


TRAINING_EVENTS = 4_000
"""events at the end of the training part whose frames train the dictionary"""
DICTIONARY_SIZES = (1024, 4096, 16384)
CPU_BUDGET = 0.25
"""CPU time of packing as a multiple of deflate, as for live publishers"""
SLOT = 1
EXPIRES = 1 << 31
"""an expiry time that is encoded in as many bytes as that of a live publisher"""
_UNPACKED_KINDS = frozenset({FrameKind.KEY, FrameKind.BINDING})


def train_dictionary(
    batches: Iterable[pa.RecordBatch], schema: Schema, config: StreamConfig, clock: EventClock
) -> Dictionary | None:
    """Train a dictionary on the frames of these events. Return None if there are too few frames, or too short ones."""
    publisher: TimedPublisher | None = None
    bodies: list[bytes] = []
    for batch in batches:
        times = clock.read(batch)
        if not batch.num_rows:
            continue
        publisher = publisher or TimedPublisher(schema, config, float(times[0]))
        frames = (read(frame) for run in publisher.publish(batch, times) for frame in run.frames)
        bodies += (frame.body for frame in frames if frame.kind not in _UNPACKED_KINDS)
    return choose([body for body in bodies if len(body) >= MIN_PACKED_BYTES], sizes=DICTIONARY_SIZES, budget=CPU_BUDGET)


def count_bytes(counts: Counts) -> ByteCounts:
    return ByteCounts(counts.data_bytes, counts.key_bytes, counts.control_bytes, frames=counts.frames)


class FramePacking:
    """Packs the frames of an encoder that does not pack.

    packing: as in `Strategy`; `dictionary` is the same as `deflate` if no dictionary could be trained
    """

    def __init__(self, packing: Packing, dictionary: Dictionary | None = None) -> None:
        self.packing = packing
        self._packer = Packer()
        self._bindings: list[bytes] = []
        self._before, self._after = Counts(), Counts()
        self._transfer = 0
        if packing == "dictionary" and dictionary is not None:
            binding = self._packer.use(dictionary, SLOT, EXPIRES)
            self._bindings = [seal(FrameKind.BINDING, binding.encode(), sequence=0, chain=0)[0]]
            self._transfer = cost(dictionary)

    def pack(self, run: EncodedRun) -> EncodedRun:
        """Return the packed frames, with a binding after each key frame. Their chain checks are not computed again."""
        if self.packing == "none":
            return run
        frames: list[bytes] = []
        indexes: list[int] = []
        for index, raw in enumerate(run.frames):
            packed = self._pack_frame(raw)
            frames += packed
            indexes += [index] * len(packed)
            self._before.add(raw)
            for frame in packed:
                self._after.add(frame)
        return EncodedRun(frames, run.times[np.array(indexes, dtype=np.int64)], run.rejected)

    def take_counts(self) -> ByteCounts:
        """Return the change of bytes since the last call. The first call includes the transfer of the dictionary."""
        change, transfer = count_bytes(self._after) - count_bytes(self._before), self._transfer
        self._before, self._after, self._transfer = Counts(), Counts(), 0
        return change + ByteCounts(dictionary=transfer, link=transfer * ONE_TO_ONE.receivers)

    def _pack_frame(self, raw: bytes) -> list[bytes]:
        frame = read(raw)
        if frame.kind in _UNPACKED_KINDS:
            return [raw, *self._bindings] if frame.kind == FrameKind.KEY else [raw]
        body, slot = self._packer.pack(frame.body)
        header = {"sequence": frame.sequence, "incarnation": frame.incarnation, "chain": 0}
        return [seal(frame.kind, body, **header, wide=frame.wide, slot=slot)[0]]


TIMED_EVENTS = 2_000
"""largest number of events whose CPU time is measured"""


class CpuTime(NamedTuple):
    """CPU seconds per event of a publisher, and of a subscriber that receives every event."""

    publish: float
    receive: float


def measure_cpu(
    batch: pa.RecordBatch,
    schema: Schema,
    config: StreamConfig,
    packing: Packing = "none",
    dictionary: Dictionary | None = None,
) -> CpuTime:
    """Measure the CPU time of the first events, one event at a time, after a run that warms up caches and code."""
    events = to_events(batch.slice(0, TIMED_EVENTS), schema)
    dictionary = dictionary if packing == "dictionary" else None
    _run_timed(events[:100], schema, config, packing, dictionary)
    return _run_timed(events, schema, config, packing, dictionary)


def _run_timed(
    events: list[dict[str, object]],
    schema: Schema,
    config: StreamConfig,
    packing: Packing,
    dictionary: Dictionary | None,
) -> CpuTime:
    encoder = StreamEncoder(schema, config)
    decoder = StreamDecoder([schema], dictionaries=lambda hash: dictionary)
    messages = [encoder.start(0.0)]
    if packing != "none":
        encoder.await_dictionaries()
    if dictionary is not None:
        messages.append(encoder.use(dictionary, SLOT))
    begin = process_time()
    for event in events:
        try:
            messages.append(encoder.publish(event, 0.0))
        except EventRejected:
            continue
    published = process_time()
    messages.append(encoder.heartbeat(0.0))
    for frames in messages:
        for frame in frames:
            decoder.receive(frame, now=0.0)
    return CpuTime((published - begin) / len(events), (process_time() - published) / len(events))
