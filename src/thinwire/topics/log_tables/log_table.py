"""A demand on a table: every value as close as asked, or an error that says where the log is coarser.

The state of a topic's links behind a range, as bytes: the next range goes on with it and reads nothing twice.

It is a help and never the truth: whatever does not fit is left aside, and the links are brought there by reading.

A range of a topic's log as a table: the rows that a reader from the beginning would get within it, and no others.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from thinwire.brokers.protocol import LogSource, Span
from thinwire.codec import Demand, State, StreamDecoder
from thinwire.codec.demand import NEVER_TOLERANT, check_names, tolerance_of
from thinwire.codec.stream_snapshot import of_subscriber
from thinwire.errors import CoarserThanAsked, CorruptCheckpoint, CorruptFrame, DemandError, UnknownSchema
from thinwire.schema import Property, Role, Schema
from thinwire.schema.property import TOLERANT_KINDS
from thinwire.topics.log_tables.offset_range import Losses, Range, pieces, span_of
from thinwire.topics.log_tables.range_decoder import RangeDecoder
from thinwire.topics.log_tables.range_seek import Seeker, restored, split
from thinwire.topics.log_tables.table_layout import TableProjector, TopicSchemas
from thinwire.topics.names import log_of, publisher_subjects
from thinwire.wire import varint

BOUND = "_bound"
OPTION = "tolerance"


class ToleranceCheck:
    """Holds batches of a topic to a demand; raises `CoarserThanAsked` at the first row that does not keep it."""

    def __init__(self, topic: str, schema: Schema, demand: Demand) -> None:
        try:
            check_names(schema, demand)
        except DemandError as problem:
            raise DemandError(problem.detail, **problem.facts, option=OPTION) from None
        self.topic = topic
        named = [p for p in schema.wire if p.kind in TOLERANT_KINDS and _is_demanded(p, demand)]
        self._limits = {p.name: float(tolerance_of(schema, p, demand)) for p in named}

    def __call__(self, batch: pa.RecordBatch) -> None:
        bounds = batch.column(BOUND)
        for index, field in enumerate(bounds.type):
            if field.name in self._limits:
                self._hold(batch, field.name, bounds.field(index))

    def _hold(self, batch: pa.RecordBatch, name: str, bound: pa.Array) -> None:
        limit = self._limits[name]
        largest = pc.max(bound).as_py()
        unclaimed = bound.null_count and pc.any(pc.and_(bound.is_null(), batch.column(name).is_valid())).as_py()
        if not unclaimed and (largest is None or largest <= limit):
            return
        coarse = pc.and_(pc.or_kleene(pc.greater(bound, limit), bound.is_null()), batch.column(name).is_valid())
        row = pc.index(coarse, True).as_py()
        raise CoarserThanAsked(
            topic=self.topic,
            offset=batch.column("_offset")[row].as_py(),
            property=name,
            bound=bound[row].as_py(),
            tolerance=limit,
            option=OPTION,
        )


def _is_demanded(p: Property, demand: Demand) -> bool:
    """A number is a demand on every measurement; an object only on what it names."""
    if demand.tolerance:
        return p.name in demand.tolerance
    return p.role is Role.MEASUREMENT and p.domain not in NEVER_TOLERANT


MAGIC = b"twl1"
MAX_STATE = 1 << 30
MAX_PUBLISHERS = 1 << 20
_DIGEST = 16


class DecoderStates(NamedTuple):
    """Where the links stood: after the message at `offset`, which was stored at `time` (microseconds)."""

    offset: int
    time: int
    links: Mapping[str, bytes]

    def encode(self) -> bytes:
        parts = [varint.write(self.offset), varint.write(self.time), varint.write(len(self.links))]
        for name, state in self.links.items():
            parts += [varint.write_blob(name.encode()), varint.write_blob(state)]
        body = b"".join(parts)
        return MAGIC + _digest(body) + body

    @classmethod
    def decode(cls, data: bytes) -> DecoderStates:
        """The state as it was kept; `CorruptCheckpoint` where it is not."""
        body = data[len(MAGIC) + _DIGEST :]
        if not data.startswith(MAGIC) or data[len(MAGIC) : len(MAGIC) + _DIGEST] != _digest(body):
            raise CorruptCheckpoint("not the state of a range, or not as it was kept", size=len(data))
        try:
            return cls._read(body)
        except CorruptFrame as problem:
            raise CorruptCheckpoint(problem.detail, **problem.facts) from None

    @classmethod
    def _read(cls, body: bytes) -> DecoderStates:
        offset, at = varint.read(body, 0)
        time, at = varint.read(body, at)
        count, at = varint.read(body, at)
        links: dict[str, bytes] = {}
        for _ in range(min(count, MAX_PUBLISHERS)):
            name, at = varint.read_blob(body, at, 256)
            links[name.decode()], at = varint.read_blob(body, at, MAX_STATE)
        return cls(offset, time, links)


def keep(offset: int, time: float, links: Mapping[str, StreamDecoder]) -> bytes:
    """The state of those links that know where they are; the others are brought to their place again."""
    ready = {name: of_subscriber(link) for name, link in links.items() if link.state is State.READY}
    return DecoderStates(offset, round(time * 1e6), ready).encode()


def take_up(kept: DecoderStates, seeker: Seeker, schemas: TopicSchemas) -> dict[str, StreamDecoder]:
    """The links as they were kept; raises `CorruptCheckpoint` or `UnknownSchema`."""
    return {name: restored(seeker.fresh, name, state, schemas) for name, state in kept.links.items()}


def _digest(body: bytes) -> bytes:
    return blake2b(body, digest_size=_DIGEST).digest()


_log = logging.getLogger("thinwire.landing")


@dataclass
class Counted:
    """What a landing has done: messages asked for and read, those read in silence before them, rows made of them."""

    asked: int = 0
    read: int = 0
    run_up: int = 0
    rows: int = 0


class LogTable:
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
        self._shaper = TableProjector(topic, self.schemas, columns if demand is None else None)
        self._check = ToleranceCheck(topic, self.schemas.current, demand) if demand is not None else None
        self._following: RangeDecoder | None = None
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
        following = RangeDecoder(seeker, self.schemas, self._shaper, self.losses, links, held.first)
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
            self.losses.record_removed(reached, last)

    def _seeker(self, span: Span) -> Seeker:
        return Seeker(self._source, self.topic, self.schemas, span)

    def _taken_up(self, state: bytes | None, first: int, seeker: Seeker) -> dict[str, StreamDecoder]:
        if state is None:
            return {}
        try:
            kept = DecoderStates.decode(state)
            return take_up(kept, seeker, self.schemas) if self._fits(kept, first) else {}
        except (CorruptCheckpoint, UnknownSchema) as problem:
            _log.warning("%s: the state kept before %d is left aside: %s", self.topic, first, problem)
            return {}

    def _fits(self, kept: DecoderStates, first: int) -> bool:
        """Is it of this place, and of this log, which may have been deleted and made again?"""
        before = self._source.last(self._log, publisher_subjects(self.topic), up_to=first - 1)
        if before is None:
            return kept.offset == first - 1
        return (before.offset, round(before.time * 1e6)) == (kept.offset, kept.time)
