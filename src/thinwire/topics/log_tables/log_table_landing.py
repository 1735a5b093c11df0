"""A range of a topic's log as a table: the rows that a reader from the beginning would get within it, and no others."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import pyarrow as pa

from thinwire.brokers.protocol_broker import Span
from thinwire.brokers.protocol_source import LogSource
from thinwire.codec import Demand, Subscriber
from thinwire.errors import CorruptCheckpoint, UnknownSchema
from thinwire.topics.log_tables.log_table import Check
from thinwire.topics.log_tables.log_table_keeping import Kept, keep, take_up
from thinwire.topics.log_tables.offset_range import Losses
from thinwire.topics.log_tables.offset_range_pieces import pieces
from thinwire.topics.log_tables.offset_range_ranges import Range, span_of
from thinwire.topics.log_tables.range_decoder import Following
from thinwire.topics.log_tables.range_seek import Seeker
from thinwire.topics.log_tables.range_seek_splitting import split
from thinwire.topics.log_tables.table_layout import TopicSchemas
from thinwire.topics.log_tables.table_layout_shaping import Shaper
from thinwire.topics.names import log_of, publisher_subjects

_log = logging.getLogger("thinwire.landing")


@dataclass
class Counted:
    """What a landing has done: messages asked for and read, those read in silence before them, rows made of them."""

    asked: int = 0
    read: int = 0
    run_up: int = 0
    rows: int = 0


class Landing:
    """One topic of a source of logs, to be read range by range.

    fail_on_data_loss: raise `DataLoss` where messages are missing or cannot be read; else count them and go on
    log: of which log the ranges are, by when it was made (`Span.made`); one that was made again has none of them
    demand: tolerances that the log must keep; `CoarserThanAsked` where it does not
    columns: the only ones that are made, if not all; with a demand all are, for it looks at them
    """

    def __init__(
        self,
        source: LogSource,
        topic: str,
        *,
        fail_on_data_loss: bool = True,
        log: str = "",
        demand: Demand | None = None,
        columns: Collection[str] | None = None,
    ) -> None:
        self.topic = topic
        self.schemas = TopicSchemas(source, topic)
        self.counted = Counted()
        self.losses = Losses(topic, fail=fail_on_data_loss, log=log)
        self._source = source
        self._log = log_of(topic)
        self._shaper = Shaper(topic, self.schemas, columns if demand is None else None)
        self._check = Check(topic, self.schemas.current, demand) if demand is not None else None
        self._following: Following | None = None
        self._behind: tuple[int, float] | None = None

    @property
    def schema(self) -> pa.Schema:
        """Of the batches that come out of it."""
        return self._shaper.schema

    def split(self, first: int, last: int, parts: int) -> list[Range]:
        """A range in at most so many parts, cut where a reader can begin without reading much before."""
        span = span_of(self._source, self._log)
        return split(self._source, self.topic, self._seeker(span), Range(first, last), parts)

    def rows(self, first: int, last: int, state: bytes | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of the messages from an offset to another, both included.

        state: as `state` gave it behind the range before this one; where it does not fit, it is left aside
        """
        wanted, span = Range(first, last), span_of(self._source, self._log)
        self.counted.asked += len(wanted)
        held = self.losses.held(wanted, span)
        seeker = self._seeker(span)
        links = self._taken_up(state, first, seeker) if held.first == first else {}
        following = Following(seeker, self.schemas, self._shaper, self.losses, links, held.first)
        self._following, self._behind = following, None
        try:
            for block in self._source.read_blocks(self._log, held.first, held.last) if held else ():
                self.counted.read += len(block.payloads)
                for piece in pieces(block, following.next):
                    yield from self._checked(following.take(piece))
                    self._behind = int(piece.offsets[-1]), float(piece.times[-1])
            self._end(following.next, held.last)
        finally:
            self.counted.run_up += seeker.read

    def state(self) -> bytes | None:
        """Where the links stand behind the range read last; None where nothing was read."""
        if self._behind is None or self._following is None:
            return None
        return keep(*self._behind, self._following.links)

    def _checked(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if self._check is not None:
                self._check(batch)
            self.counted.rows += batch.num_rows
            yield batch

    def _end(self, reached: int, last: int) -> None:
        if reached <= last:
            self.losses.note_gone(reached, last)

    def _seeker(self, span: Span) -> Seeker:
        return Seeker(self._source, self.topic, self.schemas, span)

    def _taken_up(self, state: bytes | None, first: int, seeker: Seeker) -> dict[str, Subscriber]:
        if state is None:
            return {}
        try:
            kept = Kept.decode(state)
            return take_up(kept, seeker, self.schemas) if self._fits(kept, first) else {}
        except (CorruptCheckpoint, UnknownSchema) as problem:
            _log.warning("%s: the state kept before %d is left aside: %s", self.topic, first, problem)
            return {}

    def _fits(self, kept: Kept, first: int) -> bool:
        """Is it of this place, and of this log, which may have been deleted and made again?"""
        before = self._source.last(self._log, publisher_subjects(self.topic), up_to=first - 1)
        if before is None:
            return kept.offset == first - 1
        return (before.offset, round(before.time * 1e6)) == (kept.offset, kept.time)
