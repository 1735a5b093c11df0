"""Decoding the messages of an offset range, publisher by publisher, into rows of the topic's table."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thinwire.brokers.protocol import Block, StoredMessage, run_inline
from thinwire.codec import Delivery, EventsMissed, State, StreamDecoder
from thinwire.codec.table_decoder import DecodedRows, TableDecoder
from thinwire.dictionaries import Dictionary
from thinwire.errors import CorruptDictionary, PeerFault
from thinwire.schema import Schema
from thinwire.topics.log_decoder import LogDecoder
from thinwire.topics.log_tables.offset_range import Losses, by_publisher, key_frame_indices
from thinwire.topics.log_tables.source_broker import SourceSeeker
from thinwire.topics.log_tables.table_layout import TableProjector
from thinwire.topics.names import is_key, publisher_in
from thinwire.topics.static_properties import FACTS_PROPERTY
from thinwire.topics.topic_metadata import TopicMetadata
from thinwire.wire.frame import read
from thinwire.wire.key_frame import read_head

_log = logging.getLogger("thinwire.log_tables")


class TableDecoders(LogDecoder):
    """Decoders for tables: they wait for key frames instead of requesting them, and skip suppressed events in a seek.

    publishers: messages of others are skipped
    detect_gaps: all messages of the log are passed in, so a gap in the offsets is a loss
    """

    def __init__(self, metadata: TopicMetadata, publishers: Collection[str], *, detect_gaps: bool) -> None:
        super().__init__(metadata.lookup, reads_all=detect_gaps)
        self._metadata = metadata
        self._publishers = frozenset(publishers)

    def open_decoder(self, publisher: str) -> StreamDecoder:
        if publisher not in self.decoders:
            self.decoders[publisher] = new_decoder(self._metadata, publisher)
            self.decoders[publisher].include_suppressed = False
        return self.decoders[publisher]

    def decode(self, stored: StoredMessage, now: float) -> list[Delivery]:
        return super().decode(stored, now) if publisher_in(stored.subject) in self._publishers else []

    def copy_empty(self) -> Self:
        return type(self)(self._metadata, self._publishers, detect_gaps=self._reads_all)


def new_decoder(metadata: TopicMetadata, publisher: str) -> StreamDecoder:
    """Return a decoder without state. It fetches dictionaries when it needs them."""

    def find_dictionary(hash: bytes) -> Dictionary | None:
        if metadata.dictionary(hash) is None:
            try:
                run_inline(metadata.fetch_definition(hash))
            except CorruptDictionary as problem:
                _log.warning("%s: %s", metadata.name, problem)
        return metadata.dictionary(hash)

    return StreamDecoder(metadata.lookup, publisher=publisher, resync="wait", dictionaries=find_dictionary)


class RangeDecoder:
    """Decodes the blocks of a range in order.

    decoders: by publisher, in the state before the range; a seek adds the decoder of another one at its first message
    first: the first offset of the range
    has_gaps: offsets are missing in the log
    """

    def __init__(
        self,
        seeker: SourceSeeker,
        metadata: TopicMetadata,
        projector: TableProjector,
        losses: Losses,
        decoders: Mapping[str, StreamDecoder],
        first: int,
        *,
        has_gaps: bool,
    ) -> None:
        self.decoders = dict(decoders)
        self._first = self._next = first
        self._seeker = seeker
        self._metadata = metadata
        self._projector = projector
        self._losses = losses
        self._has_gaps = has_gaps
        self._readers: dict[str, TableDecoder] = {}
        self._has_passed_gap = False
        self._without_state: set[str] = set()

    def decode(self, block: Block) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a contiguous block, publisher by publisher."""
        first = int(block.offsets[0])
        if first > self._next:
            self._mark_all_lost()
        self._next = int(block.offsets[-1]) + 1
        messages_by_publisher = by_publisher(block)
        self._seek(messages_by_publisher.keys() - self.decoders.keys())
        for name, messages in messages_by_publisher.items():
            if self._starts_unreadable(name, messages):
                self._losses.report_unreadable(int(messages.offsets[0]), name, "no key frames before it can be decoded")
            for schema, part in self._by_schema(name, messages):
                yield from self._tables(name, schema, part)

    def _mark_all_lost(self) -> None:
        """Record a loss in every decoder after a gap in the offsets: the missing messages may be of any publisher."""
        self._has_passed_gap = True
        for decoder in self.decoders.values():
            decoder.mark_lost("gap")

    def _seek(self, publishers: Collection[str]) -> None:
        """Seek to the start of the range with the decoders of publishers that are new in it."""
        if not publishers:
            return
        fresh = TableDecoders(self._metadata, publishers, detect_gaps=self._has_gaps)
        found = run_inline(
            self._seeker.seek(fresh, self._first, publishers=publishers, read_all=self._has_gaps)
        ).log_decoder.decoders
        for name in publishers:
            decoder = self.decoders[name] = found.get(name) or new_decoder(self._metadata, name)
            decoder.include_suppressed = True
            if self._has_passed_gap or (decoder.state is State.WAITING and name in found):
                decoder.mark_lost("gap")  # also discards the losses that the decoder recorded before the range
            if decoder.state is State.WAITING and name in found:
                self._without_state.add(name)

    def _starts_unreadable(self, publisher: str, messages: Block) -> bool:
        """Return whether the first messages of a publisher need key frames that could not be decoded in the seek."""
        waiting = publisher in self._without_state and self.decoders[publisher].state is State.WAITING
        self._without_state.discard(publisher)
        return waiting and not is_key(messages.subjects[0])

    def _by_schema(self, publisher: str, messages: Block) -> Iterator[tuple[Schema, Block]]:
        """Split messages where the schema changes, which only key frames can do."""
        decoder_state = self.decoders[publisher].decoder_state
        current = decoder_state.fingerprint if decoder_state is not None else None
        start = 0
        for index in key_frame_indices(messages):
            fingerprint = _read_fingerprint(messages.payloads[index])
            if fingerprint is not None and fingerprint != current:
                if index > start:
                    yield self._schema(current), messages.slice(start, index)
                start, current = index, fingerprint
        yield self._schema(current), messages.slice(start, len(messages.payloads))

    def _schema(self, fingerprint: bytes | None) -> Schema:
        """Return the schema of a fingerprint; the topic's current one if it is unknown."""
        if fingerprint is not None and self._metadata.lookup(fingerprint) is None:
            run_inline(self._metadata.fetch_definition(fingerprint))
        known = self._metadata.lookup(fingerprint) if fingerprint is not None else None
        return known or self._metadata.wire_schema

    def _tables(self, publisher: str, schema: Schema, messages: Block) -> Iterator[pa.RecordBatch]:
        for decoded in self._decoded_rows(publisher, schema, messages):
            for offset, missed in decoded.missed:
                self._report_missed(messages, offset, missed)
            for unfit in decoded.unfit:
                self._losses.report_unfit(unfit.offset, publisher, unfit.property)
            if decoded.batch.num_rows:
                rows = self._drop_unknown_facts(publisher, schema, decoded.batch)
                yield self._projector.project(publisher, schema, rows)

    def _decoded_rows(self, publisher: str, schema: Schema, messages: Block) -> Iterator[DecodedRows]:
        """Decode messages. After one that the decoder refuses, continue with the next."""
        reader = self._readers.get(publisher)
        if reader is None or reader.schema is not schema:
            reader = TableDecoder(self.decoders[publisher], schema, self._projector.needed)
            self._readers[publisher] = reader
        while messages.payloads:
            try:
                yield from reader.decode_batches(messages.payloads, messages.offsets, messages.times)
                return
            except PeerFault as fault:
                refused = reader.offset if reader.offset is not None else int(messages.offsets[-1])
                self._losses.report_unreadable(refused, publisher, str(fault))
                after = int(np.searchsorted(messages.offsets, refused)) + 1
                messages = messages.slice(after, len(messages.payloads))

    def _drop_unknown_facts(self, publisher: str, schema: Schema, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Remove the rows whose static facts are not stored."""
        for key in self._projector.unknown_facts(schema, batch):
            affected = pc.equal(batch[FACTS_PROPERTY], key) if key is not None else batch[FACTS_PROPERTY].is_null()
            offset = batch.column("_offset")[pc.index(affected, True).as_py()].as_py()
            self._losses.report_unreadable(offset, publisher, f"unknown facts {key!r}")
            batch = batch.filter(pc.invert(pc.fill_null(affected, False)))
        return batch

    def _report_missed(self, messages: Block, offset: int, missed: EventsMissed) -> None:
        """Report a loss, except at key frames of a new incarnation: the log has all events of the one before."""
        index = int(np.searchsorted(messages.offsets, offset))
        if missed.reason != "restart" or not is_key(messages.subjects[index]):
            self._losses.report_unreadable(offset, missed.publisher, missed.reason)


def _read_fingerprint(payload: bytes) -> bytes | None:
    """Return the fingerprint in key frames; None if they cannot be decoded."""
    try:
        return read_head(read(payload).body)[0].fingerprint
    except PeerFault:
        return None
