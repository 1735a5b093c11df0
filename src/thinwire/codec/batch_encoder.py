"""Encoding of Arrow batches, with the same frames as publishing the rows one at a time.

The kernel encodes regular rows. New sources, rejected events and other irregular rows are published one at a time in
between, on the same state.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from thinwire.codec.arrow_columns import TEXT_KINDS, Ints
from thinwire.codec.arrow_rows import ArrowRows
from thinwire.codec.compiled_encoder import CompiledEncoder
from thinwire.codec.frame_encoder import FrameEncoder
from thinwire.codec.kernels.event_encoder import scale_columns
from thinwire.codec.stream_encoder import StreamEncoder
from thinwire.codec.ticks import ABSENT
from thinwire.errors import EventRejected
from thinwire.wire.partial_event import EncodingKind

_BUFFER = 1 << 20


class EncodedFrames(NamedTuple):
    """Concatenated frames; `ends` has the end of each frame, `rows` the row of each frame."""

    data: bytes
    ends: Ints
    rows: Ints

    def frames(self) -> Iterator[bytes]:
        return (self.data[start:end] for start, end in pairwise([0, *self.ends.tolist()]))


class Batch(NamedTuple):
    """The frames of a batch in order, and the rejected rows with their errors."""

    parts: list[EncodedFrames]
    rejected: list[tuple[int, EventRejected]]

    @property
    def frames(self) -> list[bytes]:
        return [frame for part in self.parts for frame in part.frames()]


def publish_batch(encoder: StreamEncoder, batch: pa.RecordBatch, now: float) -> Batch:
    """Encode all events of a batch, published at the same time."""
    compiled = encoder.frame_encoder.compiled
    if compiled is None or encoder.config.audit_every or encoder.schema.nested or _may_keep_texts(encoder):
        return _publish_rows(encoder, batch.to_pylist(), now)
    return _Run(encoder, compiled, batch, now).run()


def _may_keep_texts(encoder: StreamEncoder) -> bool:
    """Check whether the state may keep a text that differs from the previous row; rows cannot be compared then."""
    rules = encoder.frame_encoder.reducer.rules
    return any(rule.encoding is EncodingKind.TEXT and not rules.triggers(rule) for rule in rules.rules)


def _publish_rows(encoder: StreamEncoder, events: list[dict[str, object]], now: float) -> Batch:
    frames: list[bytes] = []
    rows: list[int] = []
    rejected: list[tuple[int, EventRejected]] = []
    for row, event in enumerate(events):
        try:
            row_frames = encoder.publish(event, now)
        except EventRejected as problem:
            rejected.append((row, problem))
            continue
        frames += row_frames
        rows += [row] * len(row_frames)
    return Batch([_join_frames(frames, np.array(rows, dtype=np.int64))], rejected)


def _join_frames(frames: list[bytes], rows: Ints) -> EncodedFrames:
    return EncodedFrames(b"".join(frames), np.cumsum([len(frame) for frame in frames], dtype=np.int64), rows)


class _Run:
    def __init__(self, encoder: StreamEncoder, compiled: CompiledEncoder, batch: pa.RecordBatch, now: float) -> None:
        self.encoder = encoder
        self.frame_encoder: FrameEncoder = encoder.frame_encoder
        self.compiled = compiled
        self.now = now
        self.rows = ArrowRows(batch, encoder.schema)
        known = encoder.frame_encoder.reducer.row_map.rows
        self.table_rows = np.array([known.get(key, -1) for key in self.rows.keys], dtype=np.int64)[self.rows.sources]
        self.ticks = np.empty(self.rows.cells.shape[::-1], dtype=np.int64)
        scale_columns(compiled.rule_table, self.rows.cells, self.ticks)
        self.out = np.empty(_BUFFER, dtype=np.uint8)
        self.ends = np.zeros(self.rows.count, dtype=np.int64)
        self.parts: list[EncodedFrames] = []
        self.rejected: list[tuple[int, EventRejected]] = []

    def run(self) -> Batch:
        self._mark_texts()
        self.ticks[self.rows.irregular] = ABSENT
        at = 0
        if self.rows.count and self.encoder.is_due(self.now):
            self._publish_row(0)
            at = 1
        while at < self.rows.count:
            first, at = at, self._encode_regular(at)
            if at < self.rows.count and (at == first or self.rows.irregular[at] or self.table_rows[at] < 0):
                self._publish_row(at)
                at += 1
        return Batch(self.parts, self.rejected)

    def _encode_regular(self, first: int) -> int:
        """Encode regular rows with the kernel. Return the next row."""
        end = self.compiled.encode_rows(self.table_rows, self.ticks, first, self.rows.count, self.out, self.ends)
        self._add_frames(first, end)
        if self.frame_encoder.reducer.trials is not None:
            switches = self.frame_encoder.switches()
            if switches:
                self.parts.append(_join_frames(switches, np.full(len(switches), end - 1)))
        return end

    def _add_frames(self, first: int, end: int) -> None:
        if end == first:
            return
        ends = self.ends[first:end]
        size = int(ends[-1])
        sending = np.flatnonzero(np.diff(ends, prepend=0))
        sent = ends[sending]
        counts, reducer = self.encoder.counts, self.frame_encoder.reducer
        counts.events += end - first
        counts.frames += len(sent)
        counts.data_bytes += size
        reducer.suppressed += end - first - len(sent)
        if size:
            self.parts.append(EncodedFrames(self.out[:size].tobytes(), sent, first + sending))

    def _publish_row(self, row: int) -> None:
        try:
            frames = self.encoder.publish(self.rows.event(row), self.now)
        except EventRejected as problem:
            self.rejected.append((row, problem))
            following = self.rows.following(row)
            if following is not None:  # it was compared with the rejected row
                self.rows.irregular[following] = True
                self.ticks[following] = ABSENT
            return
        if frames:
            self.parts.append(_join_frames(frames, np.full(len(frames), row)))
        if self.table_rows[row] < 0:
            source = int(self.rows.sources[row])
            self.table_rows[self.rows.members(source)] = self.frame_encoder.reducer.row_map.rows[self.rows.keys[source]]

    def _mark_texts(self) -> None:
        """Mark rows whose text differs from the state as irregular."""
        table = self.frame_encoder.reducer.table
        for index, p in enumerate(self.encoder.schema.wire):
            if p.kind not in TEXT_KINDS:
                continue
            codes, texts = self.rows.texts(p)
            for row in self.rows.firsts().tolist():
                table_row = self.table_rows[row]
                if table_row >= 0:
                    self.rows.irregular[row] |= texts[codes[row]] != table.objects[index][table_row]
