"""The links of all publishers that speak within a range, and what comes out of them, piece by piece."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thinwire.brokers.protocol import Block
from thinwire.codec import EventsMissed, State, StreamDecoder
from thinwire.codec.table_reader import DecodedRows, TableReader
from thinwire.errors import PeerFault
from thinwire.schema import Schema
from thinwire.topics.log_tables.offset_range import Losses, by_publisher, key_places, part
from thinwire.topics.log_tables.range_seek import Seeker
from thinwire.topics.log_tables.table_layout import TableProjector, TopicSchemas
from thinwire.topics.names import is_key
from thinwire.topics.static_properties import FACTS_PROPERTY
from thinwire.wire.frame import read
from thinwire.wire.key_frame import read_head


class RangeDecoder:
    """Reads pieces of a range in their order.

    links: by publisher, as they stand before the range; others are brought there when they first speak
    first: the offset with which the range begins; next: the offset expected next
    """

    def __init__(
        self,
        seeker: Seeker,
        schemas: TopicSchemas,
        shaper: TableProjector,
        losses: Losses,
        links: Mapping[str, StreamDecoder],
        first: int,
    ) -> None:
        self.links = dict(links)
        self.first = self.next = first
        self._seeker = seeker
        self._schemas = schemas
        self._shaper = shaper
        self._losses = losses
        self._readers: dict[str, TableReader] = {}
        self._jumped = False
        self._lost: set[str] = set()

    def take(self, piece: Block) -> Iterator[pa.RecordBatch]:
        """The rows of a piece, publisher by publisher."""
        first = int(piece.offsets[0])
        if first > self.next:
            self._jump(first)
        self.next = int(piece.offsets[-1]) + 1
        mine = by_publisher(piece)
        self._seek_new_publishers(mine.keys() - self.links.keys())
        for name, messages in mine.items():
            if self._is_lost(name, messages):
                self._losses.note_unreadable(int(messages.offsets[0]), name, "no key frames before it can be read")
            for written, stretch in self._by_schema(name, messages):
                yield from self._tables(name, written, stretch)

    def _jump(self, offset: int) -> None:
        """Messages are missing before this one: every link is told, for any may have been theirs."""
        self._losses.record_removed(self.next, offset - 1)
        self._jumped = True
        for link in self.links.values():
            link.lose("gap")

    def _seek_new_publishers(self, publishers: set[str]) -> None:
        """Bring the links of those who have not spoken in this range before."""
        if not publishers:
            return
        found = self._seeker.bring(sorted(publishers), self.first)
        for name in publishers:
            self.links[name] = found.get(name) or self._seeker.fresh(name)
            if self._jumped:
                self.links[name].lose("gap")
            if name in found and self.links[name].state is State.WAITING:
                self._lost.add(name)

    def _is_lost(self, publisher: str, messages: Block) -> bool:
        """Is this one, of whom the log has key frames before, not to be followed here? It is said once."""
        lost = publisher in self._lost and self.links[publisher].state is State.WAITING
        self._lost.discard(publisher)
        return lost and not is_key(messages.subjects[0])

    def _by_schema(self, publisher: str, messages: Block) -> Iterator[tuple[Schema, Block]]:
        """The messages in stretches that are written with one schema: another one comes with key frames."""
        decoder_state = self.links[publisher].decoder_state
        written = decoder_state.fingerprint if decoder_state is not None else None
        start = 0
        for place in key_places(messages):
            fingerprint = _fingerprint(messages.payloads[place])
            if fingerprint is not None and fingerprint != written:
                if place > start:
                    yield self._schema(written), part(messages, start, place)
                start, written = place, fingerprint
        yield self._schema(written), part(messages, start, len(messages.payloads))

    def _schema(self, fingerprint: bytes | None) -> Schema:
        """The schema of a fingerprint, looked up where it is new; the topic's own where nobody knows it."""
        if fingerprint is None:
            return self._schemas.travelling
        if self._schemas.lookup(fingerprint) is None:
            self._schemas.learn(fingerprint)
        return self._schemas.lookup(fingerprint) or self._schemas.travelling

    def _tables(self, publisher: str, written: Schema, messages: Block) -> Iterator[pa.RecordBatch]:
        for taken in self._takes(publisher, written, messages):
            for offset, missed in taken.missed:
                self._note(messages, offset, missed)
            for odd in taken.unfit:
                self._losses.note_unfit(odd.offset, publisher, odd.property)
            if taken.batch.num_rows:
                yield self._shaper.shaped(publisher, written, self._with_facts(publisher, written, taken.batch))

    def _takes(self, publisher: str, written: Schema, messages: Block) -> Iterator[DecodedRows]:
        """What the messages bring. Behind one that the link refuses it goes on, as far as it still can."""
        reader = self._readers.get(publisher)
        if reader is None or reader.schema is not written:
            reader = TableReader(self.links[publisher], written, self._shaper.needed)
            self._readers[publisher] = reader
        while messages.payloads:
            try:
                yield from reader.takes(messages.payloads, messages.offsets, messages.times)
                return
            except PeerFault as fault:
                refused = reader.offset if reader.offset is not None else int(messages.offsets[-1])
                self._losses.note_unreadable(refused, publisher, str(fault))
                messages = part(messages, int(np.searchsorted(messages.offsets, refused)) + 1, len(messages.payloads))

    def _with_facts(self, publisher: str, written: Schema, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows whose facts somebody has told."""
        for key in self._shaper.unknown_facts(written, batch):
            whose = pc.equal(batch.column(FACTS_PROPERTY), key) if key is not None else batch[FACTS_PROPERTY].is_null()
            offset = batch.column("_offset")[pc.index(whose, True).as_py()].as_py()
            self._losses.note_unreadable(offset, publisher, f"unknown facts {key!r}")
            batch = batch.filter(pc.invert(pc.fill_null(whose, False)))
        return batch

    def _note(self, messages: Block, offset: int, missed: EventsMissed) -> None:
        """A publisher that begins another life with key frames has lost nothing that the log ever had."""
        place = int(np.searchsorted(messages.offsets, offset))
        if missed.reason != "restart" or not is_key(messages.subjects[place]):
            self._losses.note_missed(offset, missed)


def _fingerprint(payload: bytes) -> bytes | None:
    """The schema that key frames are written with; None where they cannot be read."""
    try:
        return read_head(read(payload).body)[0].fingerprint
    except PeerFault:
        return None
