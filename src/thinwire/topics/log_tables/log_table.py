"""A topic log as a table, read range by range: the rows that a subscriber of the whole log receives in each range."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from thinwire.brokers.protocol import LogSource, run_inline
from thinwire.codec import Demand, State, StreamDecoder
from thinwire.codec.demand import check_names, tolerance_of
from thinwire.codec.stream_snapshot import snapshot_decoder
from thinwire.codec.tolerance_vector import NEVER_TOLERANT
from thinwire.errors import CorruptCheckpoint, CorruptFrame, DemandError, UnknownSchema
from thinwire.schema import Property, Role, Schema
from thinwire.schema.kind import TOLERANT_KINDS
from thinwire.topics.log_tables.offset_range import Losses, Range, read_contiguous, split_range
from thinwire.topics.log_tables.range_decoder import RangeDecoder, new_decoder
from thinwire.topics.log_tables.source_broker import SourceSeeker, read_topic, span_of
from thinwire.topics.log_tables.table_layout import BOUND, TableProjector
from thinwire.topics.names import log_of
from thinwire.wire import varint

TOLERANCE_OPTION = "tolerance"
MAGIC = b"twl1"
MAX_SNAPSHOT = 1 << 30
MAX_PUBLISHERS = 1 << 20
MAX_NAME = 256
_DIGEST = 16

_log = logging.getLogger("thinwire.log_tables")


class RangeState(NamedTuple):
    """Decoder snapshots by publisher after the message at `offset`, stored at `time` (microseconds).

    The next range continues with them instead of seeking. They are a cache: a state that does not fit is ignored.
    """

    offset: int
    time: int
    snapshots: Mapping[str, bytes]

    def encode(self) -> bytes:
        parts = [varint.write(self.offset), varint.write(self.time), varint.write(len(self.snapshots))]
        for name, snapshot in self.snapshots.items():
            parts += [varint.write_blob(name.encode()), varint.write_blob(snapshot)]
        body = b"".join(parts)
        return MAGIC + _digest(body) + body

    @classmethod
    def decode(cls, data: bytes) -> RangeState:
        """Decode a state. Raise `CorruptCheckpoint` if it is damaged."""
        body = data[len(MAGIC) + _DIGEST :]
        if not data.startswith(MAGIC) or data[len(MAGIC) : len(MAGIC) + _DIGEST] != _digest(body):
            raise CorruptCheckpoint("not the state of a range, or damaged", size=len(data))
        try:
            return cls._read(body)
        except CorruptFrame as problem:
            raise CorruptCheckpoint(problem.detail, **problem.facts) from None

    @classmethod
    def _read(cls, body: bytes) -> RangeState:
        offset, at = varint.read(body, 0)
        time, at = varint.read(body, at)
        count, at = varint.read(body, at)
        snapshots: dict[str, bytes] = {}
        for _ in range(min(count, MAX_PUBLISHERS)):
            name, at = varint.read_blob(body, at, MAX_NAME)
            snapshots[name.decode()], at = varint.read_blob(body, at, MAX_SNAPSHOT)
        return cls(offset, time, snapshots)


def _digest(body: bytes) -> bytes:
    return blake2b(body, digest_size=_DIGEST).digest()


class ToleranceCheck:
    """Checks the bounds of batches against a demand. Raises `DemandError` at the first row that exceeds it."""

    def __init__(self, topic: str, schema: Schema, demand: Demand) -> None:
        try:
            check_names(schema, demand)
        except DemandError as problem:
            raise DemandError(problem.detail, **problem.facts, option=TOLERANCE_OPTION) from None
        self.topic = topic
        demanded = [p for p in schema.wire if p.kind in TOLERANT_KINDS and _is_demanded(p, demand)]
        self._limits = {p.name: float(tolerance_of(schema, p, demand)) for p in demanded}

    def __call__(self, batch: pa.RecordBatch) -> None:
        bounds = batch.column(BOUND)
        for index, field in enumerate(bounds.type):
            if field.name in self._limits:
                self._check(batch, field.name, bounds.field(index))

    def _check(self, batch: pa.RecordBatch, name: str, bound: pa.Array) -> None:
        limit = self._limits[name]
        largest = pc.max(bound).as_py()
        unbounded = bound.null_count and pc.any(pc.and_(bound.is_null(), batch.column(name).is_valid())).as_py()
        if not unbounded and (largest is None or largest <= limit):
            return
        coarse = pc.and_(pc.or_kleene(pc.greater(bound, limit), bound.is_null()), batch.column(name).is_valid())
        row = pc.index(coarse, True).as_py()
        raise DemandError(
            "the log is coarser than requested",
            advice="Request a larger tolerance, or start after this offset.",
            topic=self.topic,
            offset=batch.column("_offset")[row].as_py(),
            property=name,
            bound=bound[row].as_py(),
            tolerance=limit,
            option=TOLERANCE_OPTION,
        )


def _is_demanded(p: Property, demand: Demand) -> bool:
    """A default tolerance applies to every measurement; tolerances by name only to these properties."""
    if demand.tolerance:
        return p.name in demand.tolerance
    return p.role is Role.MEASUREMENT and p.domain not in NEVER_TOLERANT


@dataclass
class ReadCounts:
    """Messages requested, messages read, messages read by seeks before them (`replayed`), and rows made."""

    requested: int = 0
    read: int = 0
    replayed: int = 0
    rows: int = 0


class LogTable:
    """One topic of a log source as a table.

    fail_on_data_loss: raise `DataLoss` if messages are missing or cannot be decoded; else log them and continue
    log_id: identity of the log of the ranges; if another log has replaced it, all messages of the ranges are missing
    demand: tolerances that the rows must meet; raises `DemandError` otherwise
    columns: the columns to make, all by default; ignored with a demand, whose check needs all of them
    """

    def __init__(
        self,
        source: LogSource,
        topic: str,
        *,
        fail_on_data_loss: bool = True,
        log_id: str = "",
        demand: Demand | None = None,
        columns: Collection[str] | None = None,
    ) -> None:
        self.topic = topic
        self.metadata = read_topic(source, topic)
        self.counts = ReadCounts()
        self._losses = Losses(topic, fail=fail_on_data_loss, log_id=log_id)
        self._source = source
        self._log = log_of(topic)
        self._projector = TableProjector(topic, self.metadata, columns if demand is None else None)
        self._check = ToleranceCheck(topic, self.metadata.schema, demand) if demand is not None else None
        self._decoder: RangeDecoder | None = None
        self._end: tuple[int, float] | None = None

    @property
    def schema(self) -> pa.Schema:
        """The schema of the batches."""
        return self._projector.schema

    def split(self, first: int, last: int, parts: int) -> list[Range]:
        """Split a range into at most `parts` ranges at offsets that need a short seek."""
        return split_range(self._source, SourceSeeker(self._source, self.metadata), Range(first, last), parts)

    def rows(self, first: int, last: int, state: bytes | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the messages from offset `first` to `last`, both included.

        state: the result of `state` after the previous range
        """
        requested, span = Range(first, last), span_of(self._source, self._log)
        self.counts.requested += len(requested)
        available = self._losses.clip(requested, span)
        seeker = SourceSeeker(self._source, self.metadata)
        decoders = self._restore(state, first, seeker) if state is not None and available.first == first else {}
        has_gaps = span.messages != span.last - span.first + 1
        self._end = None
        self._decoder = RangeDecoder(
            seeker, self.metadata, self._projector, self._losses, decoders, available.first, has_gaps=has_gaps
        )
        try:
            for block in read_contiguous(self._source, self._log, available, self._losses):
                self.counts.read += len(block.payloads)
                yield from self._check_batches(self._decoder.decode(block))
                self._end = int(block.offsets[-1]), float(block.times[-1])
        finally:
            self.counts.replayed += seeker.messages_read

    def state(self) -> bytes | None:
        """Return the state after the last range, or None if no message was read."""
        if self._end is None or self._decoder is None:
            return None
        offset, time = self._end
        ready = {name: decoder for name, decoder in self._decoder.decoders.items() if decoder.state is State.READY}
        snapshots = {name: snapshot_decoder(decoder) for name, decoder in ready.items()}
        return RangeState(offset, round(time * 1e6), snapshots).encode()

    def _check_batches(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if self._check is not None:
                self._check(batch)
            self.counts.rows += batch.num_rows
            yield batch

    def _restore(self, state: bytes, first: int, seeker: SourceSeeker) -> dict[str, StreamDecoder]:
        """Return the decoders of a state; none if it does not fit."""
        try:
            found = RangeState.decode(state)
            if not self._fits(found, first):
                return {}
            decoders = {name: new_decoder(self.metadata, name) for name in found.snapshots}
            for name, decoder in decoders.items():
                run_inline(seeker.restore_snapshot(decoder, found.snapshots[name]))
            return decoders
        except (CorruptCheckpoint, UnknownSchema) as problem:
            _log.warning("%s: ignored the state before offset %d: %s", self.topic, first, problem)
            return {}

    def _fits(self, state: RangeState, first: int) -> bool:
        """Return whether the last message before `first` is the one of the state. A recreated log has another one."""
        before = self._source.last(self._log, self.metadata.selection.subjects(), up_to=first - 1)
        if before is None:
            return state.offset == first - 1
        return (before.offset, round(before.time * 1e6)) == (state.offset, state.time)
