"""Many events at once: an Arrow batch in, the frames that publishing its rows one by one would have given.

Ordinary rows run through the compiled kernel without coming back to Python; new sources, refused events and whatever
else is not ordinary take the per-event way in between, on the same state.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from thinwire.codec.arrow_columns import Ints, Rows
from thinwire.codec.compiled_encoder import FastEncoder
from thinwire.codec.frame_encoder import Encoder
from thinwire.codec.kernels.event_encoder import encode_rows, scale_columns
from thinwire.codec.stream_encoder import StreamEncoder
from thinwire.errors import EventRejected
from thinwire.schema import Kind
from thinwire.wire.partial_event import EncodingKind

_BUFFER = 1 << 20


class EncodedFrames(NamedTuple):
    """Frames one after the other in one buffer; `ends` says where each one ends, `rows` which row it belongs to."""

    data: bytes
    ends: Ints
    rows: Ints

    def frames(self) -> Iterator[bytes]:
        start = 0
        for end in self.ends.tolist():
            yield self.data[start:end]
            start = end


class Batch(NamedTuple):
    """The frames of a batch, in order, and the rows that were refused with the reason."""

    stretches: list[EncodedFrames]
    rejected: list[tuple[int, EventRejected]]

    @property
    def frames(self) -> list[bytes]:
        return [frame for stretch in self.stretches for frame in stretch.frames()]


def publish_batch(publisher: StreamEncoder, batch: pa.RecordBatch, now: float) -> Batch:
    """The frames of all events of a batch, all published at the same time."""
    fast = publisher.encoder.fast
    if fast is None or publisher.config.audit_every or publisher.schema.nested or _texts_wait(publisher):
        return _one_by_one(publisher, batch.to_pylist(), now)
    return _Run(publisher, fast, batch, now).run()


def _texts_wait(publisher: StreamEncoder) -> bool:
    """Can the state keep a text although a row had another? Then a row cannot be compared with the one before."""
    rules = publisher.encoder.reducer.rules
    return any(rule.lane is EncodingKind.TEXT and not rules.fires(rule) for rule in rules.rules)


def _one_by_one(publisher: StreamEncoder, events: list[dict[str, object]], now: float) -> Batch:
    frames: list[bytes] = []
    rows: list[int] = []
    rejected: list[tuple[int, EventRejected]] = []
    for row, event in enumerate(events):
        try:
            told = publisher.publish(event, now)
        except EventRejected as problem:
            rejected.append((row, problem))
            continue
        frames += told
        rows += [row] * len(told)
    return Batch([_stretch(frames, np.array(rows, dtype=np.int64))], rejected)


def _stretch(frames: list[bytes], rows: Ints) -> EncodedFrames:
    return EncodedFrames(b"".join(frames), np.cumsum([len(frame) for frame in frames], dtype=np.int64), rows)


class _Run:
    """One batch under way."""

    def __init__(self, publisher: StreamEncoder, fast: FastEncoder, batch: pa.RecordBatch, now: float) -> None:
        self.publisher = publisher
        self.encoder: Encoder = publisher.encoder
        self.fast = fast
        self.now = now
        self.rows = Rows(batch, publisher.schema)
        known = publisher.encoder.reducer.roster.rows
        self.places = np.array([known.get(key, -1) for key in self.rows.keys], dtype=np.int64)[self.rows.sources]
        self.ticks = np.zeros_like(self.rows.cells)
        scale_columns(fast.plan, self.rows.cells, self.ticks)
        self.out = np.empty(_BUFFER, dtype=np.uint8)
        self.ends = np.zeros(self.rows.count, dtype=np.int64)
        self.stretches: list[EncodedFrames] = []
        self.rejected: list[tuple[int, EventRejected]] = []
        self._stuck = False

    def run(self) -> Batch:
        self._mark_texts()
        at = 0
        if self.rows.count and self.publisher.is_due(self.now):
            self._singly(0)
            at = 1
        while at < self.rows.count:
            at = self._ordinary(at)
            if at < self.rows.count and (self.rows.odd[at] or self.places[at] < 0 or self._stuck):
                self._singly(at)
                at += 1
        return Batch(self.stretches, self.rejected)

    def _ordinary(self, first: int) -> int:
        """As many rows as the kernel takes; answers with the next."""
        fast, columns = self.fast, self.encoder.reducer.columns
        end, size = encode_rows(
            fast.plan,
            fast.cells,
            columns.view(),
            columns.width,
            self.places,
            self.ticks,
            self.rows.odd,
            first,
            fast.work,
            fast.blocks,
            self.out,
            self.ends,
        )
        self._stuck = end == first
        self._keep(first, end, size)
        fast.attend()
        if self.encoder.reducer.trials is not None:
            switches = self.encoder.switches()
            if switches:
                self.stretches.append(_stretch(switches, np.full(len(switches), end - 1)))
        return int(end)

    def _keep(self, first: int, end: int, size: int) -> None:
        if end == first:
            return
        ends = self.ends[first:end]
        telling = np.flatnonzero(np.diff(ends, prepend=0))
        sent = ends[telling]
        counts, reducer = self.publisher.counts, self.encoder.reducer
        counts.events += end - first
        counts.frames += len(sent)
        counts.data_bytes += size
        reducer.sent += len(sent)
        reducer.suppressed += end - first - len(sent)
        if size:
            self.stretches.append(EncodedFrames(self.out[:size].tobytes(), sent, first + telling))

    def _singly(self, row: int) -> None:
        try:
            frames = self.publisher.publish(self.rows.event(row), self.now)
        except EventRejected as problem:
            self.rejected.append((row, problem))
            self._distrust(row)
            return
        if frames:
            self.stretches.append(_stretch(frames, np.full(len(frames), row)))
        if self.places[row] < 0:
            source = int(self.rows.sources[row])
            self.places[self.rows.members(source)] = self.encoder.reducer.roster.rows[self.rows.keys[source]]

    def _distrust(self, row: int) -> None:
        """After a refused row, the next of its source was compared with something that never happened."""
        following = self.rows.following(row)
        if following is not None:
            self.rows.odd[following] = True

    def _mark_texts(self) -> None:
        """Rows whose text differs from what the state or the row before has cannot be told by the kernel."""
        columns = self.encoder.reducer.columns
        for index, p in enumerate(self.publisher.schema.wire):
            if p.kind not in (Kind.ENUM, Kind.STRING):
                continue
            codes, texts = self.rows.texts(p)
            for row in self.rows.firsts().tolist():
                place = self.places[row]
                if place >= 0:
                    self.rows.odd[row] |= texts[codes[row]] != columns.objects[index][place]
