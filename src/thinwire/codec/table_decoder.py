"""Decoding of messages to Arrow record batches, with the rows that a stream decoder would deliver as events.

One kernel call decodes the regular frames of many messages without building events. The stream decoder handles all
other frames one at a time: key frames, introductions, exceptions, texts, audits and errors. Its events become rows in
between. Both advance the same state.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from thinwire.codec.arrow_columns import Ints, arrow_schema
from thinwire.codec.compiled_decoder import CompiledDecoder, SuppressedEvents
from thinwire.codec.deliveries import Audit, Delivery, EventsMissed, Watermark
from thinwire.codec.record_batch_builder import RecordBatchBuilder, UnfitValue
from thinwire.codec.stream_decoder import State, StreamDecoder
from thinwire.codec.table_scan import TableScan
from thinwire.errors import PeerFault, UnknownDictionary
from thinwire.schema import Event, Schema

Numbers = Sequence[int] | Sequence[float] | Ints | npt.NDArray[np.float64]

_SCAN_BYTES = 1 << 20
"""approximate bytes of messages in one scan"""


class MessageOffsets(NamedTuple):
    """Log offset and time (microseconds) of each message."""

    offsets: Ints
    times: Ints


@dataclass(frozen=True)
class DecodedRows:
    """Rows and losses.

    batch: one row per event, with the columns of `arrow_schema`
    missed: losses, each with the offset of the message that revealed it
    unfit: values that do not fit the type of their column, where the row has null
    """

    batch: pa.RecordBatch
    missed: list[tuple[int, EventsMissed]]
    unfit: list[UnfitValue]


class TableDecoder:
    """Decodes messages of one publisher to Arrow columns. It owns the rows that are not delivered yet.

    decoder: the stream decoder whose state advances; READY (for example from a snapshot) or waiting for a key frame
    schema: the columns of the table. Frames of another schema version fill the columns that both have
    columns: the requested columns, or None for all

    >>> from thinwire.schema import Property
    >>> from thinwire.codec import StreamEncoder
    >>> rooms = Schema("rooms", [Property("room", "string", "dimension"), Property("t", "number", step="0.1")])
    >>> encoder = StreamEncoder(rooms, name="p1", compiled=False)
    >>> messages = encoder.start(now=0) + encoder.publish({"room": "11.1", "t": 20.5}, now=0)
    >>> decoder = TableDecoder(StreamDecoder([rooms], publisher="p1", compiled=False), rooms)
    >>> rows = decoder.decode(messages, offsets=range(1, 1 + len(messages)), times=[0.0] * len(messages))
    >>> rows.batch.select(["room", "t", "_source", "_ordinal"]).to_pylist()
    [{'room': '11.1', 't': 20.5, '_source': '["11.1"]', '_ordinal': 1}]
    """

    def __init__(self, decoder: StreamDecoder, schema: Schema, columns: Collection[str] | None = None) -> None:
        self.decoder = decoder
        self.schema = schema
        self.columns = columns
        self.arrow = arrow_schema(schema, columns)
        self.offset: int | None = None
        """offset of the last message that was passed to the stream decoder, also if it raised an error"""
        self._builder = RecordBatchBuilder(schema, None, columns)
        self._missed: list[tuple[int, EventsMissed]] = []

    def decode(self, messages: Sequence[bytes], offsets: Numbers, times: Numbers) -> DecodedRows:
        """Return all rows of the messages in one batch."""
        parts = list(self.decode_batches(messages, offsets, times))
        if len(parts) == 1:
            return parts[0]
        before, unfit = 0, []
        for part in parts:
            unfit += [value._replace(row=before + value.row) for value in part.unfit]
            before += part.batch.num_rows
        batches = [part.batch for part in parts] or [pa.RecordBatch.from_pylist([], schema=self.arrow)]
        return DecodedRows(pa.concat_batches(batches), [missed for part in parts for missed in part.missed], unfit)

    def decode_batches(self, messages: Sequence[bytes], offsets: Numbers, times: Numbers) -> Iterator[DecodedRows]:
        """Return the rows of the messages in batches of limited size; suppressed runs may be long.

        offsets, times: log offset and time (seconds) of each message. An error of the stream decoder is raised after
            the rows before it. The rest of its message is lost, and `offset` is that of the message
        """
        log = MessageOffsets(
            np.asarray(offsets, dtype=np.int64), np.rint(np.asarray(times, dtype=np.float64) * 1e6).astype(np.int64)
        )
        if not len(messages) == len(log.offsets) == len(log.times):
            raise ValueError(
                f"{len(messages)} messages, {len(log.offsets)} offsets and {len(log.times)} times must be of one length"
            )
        for first, last in _split_by_size(messages):
            yield from self._decode_part(messages[first:last], log, first)
        yield from self._flush(log)

    def _decode_part(self, messages: Sequence[bytes], log: MessageOffsets, first: int) -> Iterator[DecodedRows]:
        """Decode some messages, the first of which has index `first` in `log`."""
        scan = TableScan(messages, first)
        while scan.number < len(messages):
            compiled = self._compiled_decoder() if self.decoder.state is State.READY else None
            if compiled is not None:
                yield from self._prepare(compiled, log)
                if self._decode_regular(compiled, scan) and self._builder.count:
                    yield from self._flush(log)
                    continue
            if scan.number < len(messages):
                yield from self._decode_frame(scan, log)

    def _prepare(self, compiled: CompiledDecoder, log: MessageOffsets) -> Iterator[DecodedRows]:
        """Ensure that the builder has space for records of this decoder."""
        if self._builder.expander is not compiled.expander:
            yield from self._flush(log)
            self._builder = RecordBatchBuilder(self.schema, compiled.expander, self.columns)
        elif self._builder.is_full:
            yield from self._flush(log)

    def _decode_regular(self, compiled: CompiledDecoder, scan: TableScan) -> bool:
        """Decode regular frames with the kernel. Return whether it stopped for lack of space."""
        decoder_state, builder = self.decoder.decoder_state, self._builder
        assert decoder_state is not None
        is_full = scan.decode(compiled, builder.records, builder.count, shown=self.decoder.include_suppressed)
        scan.count(self.decoder.counts)
        scan.add_to_dedup(decoder_state)
        messages = scan.messages_of_rows()
        if len(messages):
            builder.add_records(messages)
        return is_full

    def _decode_frame(self, scan: TableScan, log: MessageOffsets) -> Iterator[DecodedRows]:
        """Pass the next frame to the stream decoder, or a complete message that cannot be split."""
        number = scan.number + scan.first
        self.offset = int(log.offsets[number])
        try:
            out = self._receive(scan.next_frame())
        except PeerFault as fault:
            scan.skip_message()
            reason = "unknown dictionary" if isinstance(fault, UnknownDictionary) else "refused"
            yield from self._add(self.decoder.mark_lost(reason), number, log)
            yield from self._flush(log)
            raise
        yield from self._add(out, number, log)

    def _receive(self, frame: bytes) -> list[Delivery | SuppressedEvents]:
        """Return the deliveries of a frame, with suppressed events not built yet."""
        compiled = self._compiled_decoder()
        if compiled is None:
            return list(self.decoder.receive(frame, now=0.0))
        compiled.in_table = True
        try:
            return list(self.decoder.receive(frame, now=0.0))
        finally:
            compiled.in_table = False

    def _add(
        self, deliveries: Sequence[Delivery | SuppressedEvents], number: int, log: MessageOffsets
    ) -> Iterator[DecodedRows]:
        """Add the deliveries of a frame as rows."""
        for item in deliveries:
            if isinstance(item, Event):
                if self._builder.is_full:
                    yield from self._flush(log)
                self._builder.add_event(item, number)
            elif isinstance(item, EventsMissed):
                self._missed.append((int(log.offsets[number]), item))
            elif not isinstance(item, Watermark | Audit):
                yield from self._add_suppressed(item, number, log)

    def _add_suppressed(self, suppressed: SuppressedEvents, number: int, log: MessageOffsets) -> Iterator[DecodedRows]:
        """Add suppressed events, as many at a time as the builder has space for."""
        left = suppressed.count
        self.decoder.counts.events += left
        while left:
            yield from self._prepare(suppressed.decoder, log)
            count = min(left, self._builder.capacity - self._builder.count)
            suppressed.write(count, self._builder.records[self._builder.count :])
            self._builder.add_suppressed(count, number, suppressed.metadata, suppressed.texts)
            left -= count

    def _flush(self, log: MessageOffsets) -> Iterator[DecodedRows]:
        """Return the rows so far."""
        if not (self._builder.count or self._missed):
            return
        for batch, unfit in self._builder.flush(log.offsets, log.times):
            missed, self._missed = self._missed, []
            yield DecodedRows(batch, missed, unfit)

    def _compiled_decoder(self) -> CompiledDecoder | None:
        """Return the compiled decoder of the current state, if the state has one."""
        return self.decoder.decoder_state.compiled if self.decoder.decoder_state is not None else None


def _split_by_size(messages: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """Return index ranges of limited size in bytes, each with at least one message."""
    ends = np.cumsum(np.fromiter(map(len, messages), np.int64, len(messages)))
    first = before = 0
    while first < len(messages):
        last = max(first + 1, int(np.searchsorted(ends, before + _SCAN_BYTES, "right")))
        yield first, last
        first, before = last, int(ends[last - 1])
