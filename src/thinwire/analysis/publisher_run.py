"""Processor time of an event, as a live client spends it: one event in, its frames out, and back.

A publisher at work in the time of its events, and everything that leaves it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from time import process_time
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from thinwire.analysis.event_columns import Floats, events_of, fits
from thinwire.analysis.strategies import Packed
from thinwire.codec import StreamConfig, StreamDecoder, StreamEncoder
from thinwire.codec.batch_encoder import publish_batch
from thinwire.dictionaries import Dictionary
from thinwire.errors import EventRejected
from thinwire.schema import Schema
from thinwire.wire import begins_round

SAMPLE = 2_000
"""events that are timed"""


class Price(NamedTuple):
    """Seconds an event at the publisher, and at a subscriber that is handed every event."""

    publish: float
    receive: float


def price(
    batch: pa.RecordBatch,
    schema: Schema,
    config: StreamConfig,
    packing: Packed = "none",
    dictionary: Dictionary | None = None,
) -> Price:
    """The median would need many runs; the second of two runs over the same events has warm caches and no compiling."""
    events = events_of(batch.slice(0, SAMPLE), schema)
    used = dictionary if packing == "dictionary" else None
    _timed(events[:100], schema, config, packing, used)
    return _timed(events, schema, config, packing, used)


def _timed(
    events: list[dict[str, object]], schema: Schema, config: StreamConfig, packing: Packed, used: Dictionary | None
) -> Price:
    publisher = StreamEncoder(schema, config)
    subscriber = StreamDecoder([schema], dictionaries=lambda hash: used)
    messages = [publisher.start(0.0)]
    if packing != "none":
        publisher.await_dictionaries()
    if used is not None:
        messages.append(publisher.use(used, 1))
    begin = process_time()
    for event in events:
        try:
            messages.append(publisher.publish(event, 0.0))
        except EventRejected:
            continue
    between = process_time()
    messages.append(publisher.heartbeat(0.0))
    for frames in messages:
        for frame in frames:
            subscriber.receive(frame, now=0.0)
    return Price((between - begin) / len(events), (process_time() - between) / len(events))


FEW = 64
"""rows below which making columns costs more than it saves"""


class EncodedRun(NamedTuple):
    """Frames in their order with the time of each; `rejected`: rows of the stretch that were refused."""

    frames: list[bytes]
    times: Floats
    rows: tuple[int, int]
    rejected: list[int]

    @property
    def alone(self) -> list[int]:
        """Places of frames that begin a round of key frames."""
        return [place for place, frame in enumerate(self.frames) if begins_round(frame)]


class TimedPublisher:
    """Publishes batches as if their events happened now; between them the publisher says what is due.

    begin: when the publisher began; rounds of key frames and heartbeats are counted from there
    """

    def __init__(self, schema: Schema, config: StreamConfig, begin: float) -> None:
        self.publisher = StreamEncoder(schema, config, now=begin)
        self.now = begin

    def start(self) -> EncodedRun:
        """What readers need before the first event."""
        return _at(self.publisher.start(self.now), self.now)

    def publish(self, batch: pa.RecordBatch, times: Floats) -> Iterator[EncodedRun]:
        """What the rows become, stretch by stretch: up to the next heartbeat or key frame at a time."""
        at = 0
        while at < batch.num_rows:
            yield from self.wait(float(times[at]))
            end = int(np.searchsorted(times, self.publisher.due, side="left"))
            self.now = float(times[end - 1])
            yield self._stretch(batch.slice(at, end - at), times[at:end], at)
            at = end

    def wait(self, until: float) -> Iterator[EncodedRun]:
        """What is due until then although nothing happens."""
        while (due := self.publisher.due) <= until:
            yield _at(self.publisher.poll(due), due)
        self.now = max(self.now, until)

    def close(self) -> EncodedRun:
        """What is still untold, if anything is."""
        return _at(self.publisher.heartbeat(self.now) if self.publisher.has_unsent_suppressed else [], self.now)

    def _stretch(self, batch: pa.RecordBatch, times: Floats, first: int) -> EncodedRun:
        schema = self.publisher.schema
        rows = (first, first + batch.num_rows)
        if batch.num_rows < FEW or not fits(schema):
            return self._singly(batch, times, rows)
        done = publish_batch(self.publisher, batch, self.now)
        told = [stretch.rows for stretch in done.parts]
        places = np.concatenate(told) if told else np.zeros(0, dtype=np.int64)
        return EncodedRun(done.frames, times[places], rows, [row for row, _ in done.rejected])

    def _singly(self, batch: pa.RecordBatch, times: Floats, rows: tuple[int, int]) -> EncodedRun:
        frames: list[bytes] = []
        when: list[float] = []
        rejected: list[int] = []
        for row, event in enumerate(events_of(batch, self.publisher.schema)):
            try:
                told = self.publisher.publish(event, self.now)
            except EventRejected:
                rejected.append(row)
                continue
            frames += told
            when += [float(times[row])] * len(told)
        return EncodedRun(frames, np.array(when), rows, rejected)


def in_step(begin: float, first: float, interval: float) -> float:
    """The last start of a round of key frames at or before `first`, for a publisher that began at `begin`.

    >>> in_step(100.0, 7500.0, 3600.0), in_step(100.0, 90.0, 3600.0)
    (7300.0, 90.0)
    """
    return begin + interval * math.floor((first - begin) / interval) if first > begin else first


def _at(frames: list[bytes], now: float) -> EncodedRun:
    return EncodedRun(frames, np.full(len(frames), now), (0, 0), [])
