"""Reading in columns: messages in, record batches out, row for row the events that a subscriber would hand out.

Ordinary frames of many messages go through one call of a compiled kernel, and no event is ever made of them. Whatever
is not ordinary (key frames, introductions, exceptions, texts, audits, anything lost or corrupt) the subscriber takes
as always, one frame at a time; the events it hands out become rows in between. Both move the same state.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from thinwire.codec.arrow_columns import arrow_schema
from thinwire.codec.decoder_state import DecoderState
from thinwire.codec.deliveries import Audit, Delivery, EventsMissed, Watermark
from thinwire.codec.record_batch_builder import Page, Unfit
from thinwire.codec.stream_decoder import State, StreamDecoder
from thinwire.codec.table_scan import TableScan
from thinwire.errors import PeerFault, UnknownDictionary
from thinwire.schema import Event, Schema

if TYPE_CHECKING:
    from thinwire.codec.compiled_table_decoder import SuppressedEvents, TableDecoder

Ints = npt.NDArray[np.int64]
Numbers = Sequence[int] | Sequence[float] | Ints | npt.NDArray[np.float64]

_AT_ONCE = 1 << 20
"""bytes of messages in one walk, about"""


class MessageOffsets(NamedTuple):
    """Where each message stands in its log, and since when (microseconds)."""

    offsets: Ints
    times: Ints


@dataclass(frozen=True)
class DecodedRows:
    """Rows, and what could not be had.

    batch: one row an event, with the columns of `arrow_schema`
    missed: word of events that could not be had, each with the offset of the message that told
    unfit: values that their column cannot hold, and is null for
    """

    batch: pa.RecordBatch
    missed: list[tuple[int, EventsMissed]]
    unfit: list[Unfit]


class TableReader:
    """One publisher's frames as a table.

    subscriber: whose state moves on; it may be READY (from a checkpoint, say) or still waiting for a key frame
    schema: the columns of the table. Frames of another version of it give the columns both have, and null elsewhere
    columns: the only ones that are wanted, if not all

    >>> from thinwire.schema import Property
    >>> from thinwire.codec import StreamEncoder
    >>> rooms = Schema("rooms", [Property("room", "string", "dimension"), Property("t", "number", step="0.1")])
    >>> publisher = StreamEncoder(rooms, name="p1", compiled=False)
    >>> messages = publisher.start(now=0) + publisher.publish({"room": "11.1", "t": 20.5}, now=0)
    >>> reader = TableReader(StreamDecoder([rooms], publisher="p1", compiled=False), rooms)
    >>> taken = reader.take(messages, offsets=range(1, 1 + len(messages)), times=[0.0] * len(messages))
    >>> taken.batch.select(["room", "t", "_source", "_ordinal"]).to_pylist()
    [{'room': '11.1', 't': 20.5, '_source': '["11.1"]', '_ordinal': 1}]
    """

    def __init__(self, subscriber: StreamDecoder, schema: Schema, columns: Collection[str] | None = None) -> None:
        self.subscriber = subscriber
        self.schema = schema
        self.columns = columns
        self.arrow = arrow_schema(schema, columns)
        self.offset: int | None = None
        """of the message taken last, or tried, if it brought an error"""
        self._page = Page(schema, None, columns)
        self._missed: list[tuple[int, EventsMissed]] = []
        self._of: tuple[DecoderState, TableDecoder] | None = None

    def take(self, messages: Sequence[bytes], offsets: Numbers, times: Numbers) -> DecodedRows:
        """All rows that the messages bring, in one batch, however many they are."""
        parts = list(self.takes(messages, offsets, times))
        if len(parts) == 1:
            return parts[0]
        before, unfit = 0, []
        for part in parts:
            unfit += [odd._replace(row=before + odd.row) for odd in part.unfit]
            before += part.batch.num_rows
        batches = [part.batch for part in parts] or [pa.RecordBatch.from_pylist([], schema=self.arrow)]
        return DecodedRows(pa.concat_batches(batches), [missed for part in parts for missed in part.missed], unfit)

    def takes(self, messages: Sequence[bytes], offsets: Numbers, times: Numbers) -> Iterator[DecodedRows]:
        """The same in batches of limited size, whatever the messages tell of: silence may be long.

        offsets, times: where the log has each message, and since when (seconds). An error that a subscriber would raise
        comes after the rows before it; the rest of its message is gone, as it is for a subscriber, and `offset` says
        which one that was.
        """
        log = MessageOffsets(
            np.asarray(offsets, dtype=np.int64), np.rint(np.asarray(times, dtype=np.float64) * 1e6).astype(np.int64)
        )
        if not len(messages) == len(log.offsets) == len(log.times):
            raise ValueError(f"{len(messages)} messages, {len(log.offsets)} offsets, {len(log.times)} times: one each")
        for first, last in _stretches(messages):
            yield from self._walk(messages[first:last], log, first)
        yield from self._turn(log)

    def _walk(self, messages: Sequence[bytes], log: MessageOffsets, first: int) -> Iterator[DecodedRows]:
        """Some messages, the first of which has this number in the log."""
        way = TableScan(messages, first)
        while way.number < len(messages):
            decoder = self._decoder() if self.subscriber.state is State.READY else None
            if decoder is not None:
                yield from self._prepare(decoder, log)
                if self._take_ordinary(decoder, way) and self._page.count:
                    yield from self._turn(log)
                    continue
            if way.number < len(messages):
                yield from self._take_next(way, log)

    def _prepare(self, decoder: TableDecoder, log: MessageOffsets) -> Iterator[DecodedRows]:
        """Have a page that takes the decoder's records, and has room."""
        if self._page.expander is not decoder.expander:
            yield from self._turn(log)
            self._page = Page(self.schema, decoder.expander, self.columns)
        elif self._page.full:
            yield from self._turn(log)

    def _take_ordinary(self, decoder: TableDecoder, way: TableScan) -> bool:
        """As many frames as the kernel takes. Did it stop for want of room?"""
        decoder_state, page = self.subscriber.decoder_state, self._page
        assert decoder_state is not None
        full = way.take(decoder, page.records, page.count, shown=self.subscriber.include_suppressed)
        way.count(self.subscriber.counts)
        way.remember(decoder_state)
        messages = way.messages_of_rows()
        if len(messages):
            page.add_records(messages)
        return full

    def _take_next(self, way: TableScan, log: MessageOffsets) -> Iterator[DecodedRows]:
        """The next frame the long way, or a whole message that has none."""
        number = way.number + way.first
        self.offset = int(log.offsets[number])
        try:
            out = self._receive(way.next_frame())
        except PeerFault as fault:
            way.leave()
            reason = "unknown dictionary" if isinstance(fault, UnknownDictionary) else "refused"
            yield from self._add(self.subscriber.lose(reason), number, log)
            yield from self._turn(log)
            raise
        yield from self._add(out, number, log)

    def _receive(self, frame: bytes) -> list[Delivery | SuppressedEvents]:
        """What the subscriber makes of a frame, with silence left as it is."""
        decoder = self._decoder()
        if decoder is None:
            return list(self.subscriber.receive(frame, now=0.0))
        from thinwire.codec.table_scan import keep_suppressed

        with keep_suppressed(self.subscriber.decoder_state, decoder):
            return list(self.subscriber.receive(frame, now=0.0))

    def _add(
        self, found: Sequence[Delivery | SuppressedEvents], number: int, log: MessageOffsets
    ) -> Iterator[DecodedRows]:
        """What a frame of a message brought, as rows."""
        for thing in found:
            if isinstance(thing, Event):
                if self._page.full:
                    yield from self._turn(log)
                self._page.add_event(thing, number)
            elif isinstance(thing, EventsMissed):
                self._missed.append((int(log.offsets[number]), thing))
            elif not isinstance(thing, Watermark | Audit):
                yield from self._emit_suppressed(thing, number, log)

    def _emit_suppressed(self, silence: SuppressedEvents, number: int, log: MessageOffsets) -> Iterator[DecodedRows]:
        """Events that were passed over, as many at a time as the page has room for."""
        left = silence.skip
        self.subscriber.counts.events += left
        while left:
            yield from self._prepare(silence.decoder, log)
            count = min(left, self._page.room - self._page.count)
            silence.decoder.emit_suppressed(silence, count, self._page.records[self._page.count :])
            self._page.add_silent(count, number, silence.about, silence.texts)
            left -= count

    def _turn(self, log: MessageOffsets) -> Iterator[DecodedRows]:
        """The rows so far."""
        if not (self._page.count or self._missed):
            return
        for batch, unfit in self._page.turn(log.offsets, log.times):
            missed, self._missed = self._missed, []
            yield DecodedRows(batch, missed, unfit)

    def _decoder(self) -> TableDecoder | None:
        """The kernel's way with the subscriber's replica, where it has one."""
        decoder_state = self.subscriber.decoder_state
        if decoder_state is None or decoder_state.fast is None:
            return None
        if self._of is None or self._of[0] is not decoder_state:
            from thinwire.codec.compiled_table_decoder import TableDecoder

            self._of = decoder_state, TableDecoder(decoder_state.expander, decoder_state.link)
        return self._of[1]


def _stretches(messages: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """Messages in stretches of limited size, each one message at least."""
    ends = np.cumsum(np.fromiter(map(len, messages), np.int64, len(messages)))
    first = before = 0
    while first < len(messages):
        last = max(first + 1, int(np.searchsorted(ends, before + _AT_ONCE, "right")))
        yield first, last
        first, before = last, int(ends[last - 1])
