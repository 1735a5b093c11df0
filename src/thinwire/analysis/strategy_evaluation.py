"""The evaluation of strategies on a stream of event batches, in this process or in a task of Spark.

The real encoder and decoder process every event, and all bytes are counted; nothing is sent. Strategies with the same
frames share one encoder. Only events that are not delivered yet are kept in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from thinwire.analysis.event_columns import EventClock
from thinwire.analysis.guarantee_check import ColumnChecker
from thinwire.analysis.message_batches import StrategyMessages
from thinwire.analysis.publisher_run import (
    CpuTime,
    EncodedRun,
    FramePacking,
    TimedPublisher,
    last_round_start,
    measure_cpu,
)
from thinwire.analysis.strategies import AnalysisOutcome, ByteCounts, Ranges, Strategy, group_by_frames
from thinwire.codec import StreamDecoder, StreamEncoder
from thinwire.codec.kernel_warmup import warm_up
from thinwire.codec.table_decoder import TableDecoder
from thinwire.dictionaries import Dictionary
from thinwire.errors import ConfigError
from thinwire.schema import Schema

DECODE_ROWS = 8_192
"""rows that are published before frames are decoded, because decoding many frames together is faster"""


def evaluate(
    batches: Iterable[pa.RecordBatch],
    schema: Schema,
    strategies: Sequence[Strategy],
    ranges: Ranges,
    *,
    warm: Iterable[pa.RecordBatch] = (),
    begin: float | None = None,
    clock: EventClock | None = None,
    with_cpu: bool = True,
    dictionary: Dictionary | None = None,
) -> list[AnalysisOutcome]:
    """Evaluate strategies with the same frames on a segment of a topic. The batches are in the order of their time.

    ranges: range of each numeric property in the training part
    warm: the last events of each source before the segment, if it starts in the middle of its stream
    begin: start of the stream, for the same schedule of key frames and heartbeats as in one long run
    clock: reads the times, of `warm` first
    with_cpu: measure CPU times; one segment of a stream is sufficient
    dictionary: for strategies that pack with a dictionary
    """
    if len(group_by_frames(strategies)) != 1:
        raise ConfigError("these strategies do not have the same frames", strategies=[s.name for s in strategies])
    warm_up()
    evaluation = _Evaluation(schema, strategies, ranges, begin, dictionary)
    clock = clock or EventClock(schema)
    for batch in warm:
        evaluation.add(batch, clock, counted=False)
    for batch in batches:
        if with_cpu and batch.num_rows and not evaluation.cpu_times:
            evaluation.measure_cpu(batch)
        evaluation.add(batch, clock, counted=True)
    return evaluation.close()


def _count_events(encoder: StreamEncoder) -> dict[str, int]:
    return {
        "events": encoder.counts.events,
        "rejected": encoder.counts.rejected,
        "suppressed_events": encoder.suppressed_events,
        "suppressed_values": encoder.suppressed_values,
    }


def _count_bytes(encoder: StreamEncoder) -> ByteCounts:
    counts = encoder.counts
    return ByteCounts(counts.data_bytes, counts.key_bytes, counts.control_bytes, frames=counts.frames)


class _Evaluation:
    """One encoder and decoder, and the messages of every strategy.

    The decoder reads unpacked frames; packing changes only sizes.
    """

    def __init__(
        self,
        schema: Schema,
        strategies: Sequence[Strategy],
        ranges: Ranges,
        begin: float | None,
        dictionary: Dictionary | None,
    ) -> None:
        self.schema = schema
        self.config = strategies[0].stream_config(schema, ranges)
        self.begin = begin
        self.dictionary = dictionary
        self.cpu_times: dict[str, CpuTime] = {}
        self._messages = [StrategyMessages(strategy, schema.name) for strategy in strategies]
        self._packings = {s.packing: FramePacking(s.packing, dictionary) for s in strategies}
        self._checker = ColumnChecker(schema)
        self._decoder = StreamDecoder([schema])
        self._tables = TableDecoder(self._decoder, schema)
        self._frames: list[bytes] = []
        self._undecoded = 0
        """rows published since the last decoding"""
        self._publisher: TimedPublisher | None = None
        self._events_before: dict[str, int] = {}
        self._counted_bytes = ByteCounts()
        self._starts: list[ByteCounts] = []
        self._first = self._last = 0.0

    def measure_cpu(self, batch: pa.RecordBatch) -> None:
        """Measure the CPU time of every packing."""
        self.cpu_times = {
            name: measure_cpu(batch, self.schema, self.config, name, self.dictionary) for name in self._packings
        }

    def add(self, batch: pa.RecordBatch, clock: EventClock, *, counted: bool) -> None:
        """Publish the events of a batch. Bytes before the first counted event are reported as `start`."""
        times = clock.read(batch)
        if not batch.num_rows:
            return
        publisher = self._publisher or self._start(float(times[0]))
        if counted and not self._starts:
            self._first = float(times[0])
            self._advance(publisher, self._first)
            self._events_before = _count_events(publisher.encoder)
            self._starts = self._take_counts(publisher)
        self._last = float(times[-1])
        rejected: list[int] = []
        for run in publisher.publish(batch, times):
            rejected += run.rejected
            self._add_frames(run)
        self._checker.published(batch, rejected, counted)
        self._undecoded += batch.num_rows
        # Each decoding compares all pending rows, so it is done less often when many are pending.
        if self._undecoded >= max(DECODE_ROWS, self._checker.missing - self._undecoded):
            self._decode()

    def close(self) -> list[AnalysisOutcome]:
        """Complete the last suppressed events and return the outcome of every strategy."""
        if self._publisher is None or not self._starts:
            raise ConfigError("there are no events to evaluate: the held-out part is empty", topic=self.schema.name)
        events = _count_events(self._publisher.encoder)
        counted = {name: count - self._events_before[name] for name, count in events.items()}
        running = self._take_counts(self._publisher)
        self._add_frames(self._publisher.close())
        self._decode()
        sizes = zip(self._starts, running, self._take_counts(self._publisher), strict=True)
        strategies = (messages.strategy for messages in self._messages)
        return [self._outcome(strategy, counted, *parts) for strategy, parts in zip(strategies, sizes, strict=True)]

    def _start(self, first: float) -> TimedPublisher:
        interval = self.config.key_frame_interval
        begin = first if self.begin is None else last_round_start(self.begin, first, interval)
        self._publisher = publisher = TimedPublisher(self.schema, self.config, begin)
        self._add_frames(publisher.start())
        self._advance(publisher, first)
        return publisher

    def _advance(self, publisher: TimedPublisher, until: float) -> None:
        for run in publisher.advance(until):
            self._add_frames(run)

    def _add_frames(self, run: EncodedRun) -> None:
        if not run.frames:
            return
        for name, packing in self._packings.items():
            packed = packing.pack(run)
            round_starts = packed.round_starts
            for messages in self._messages:
                if messages.strategy.packing == name:
                    messages.add(packed, round_starts)
        self._frames += run.frames

    def _take_counts(self, publisher: TimedPublisher) -> list[ByteCounts]:
        """Return the bytes of every strategy since the last call."""
        frames = _count_bytes(publisher.encoder)
        sent, self._counted_bytes = frames - self._counted_bytes, frames
        changes = {name: sent + packing.take_counts() for name, packing in self._packings.items()}
        return [messages.take_counts() + changes[messages.strategy.packing] for messages in self._messages]

    def _decode(self) -> None:
        frames, self._frames, self._undecoded = self._frames, [], 0
        decoded = self._tables.decode(frames, range(len(frames)), np.zeros(len(frames)))
        if decoded.batch.num_rows:
            self._checker.delivered(decoded.batch, self._decoder.bound)

    def _outcome(
        self, strategy: Strategy, events: dict[str, int], start: ByteCounts, running: ByteCounts, end: ByteCounts
    ) -> AnalysisOutcome:
        cpu = self.cpu_times.get(strategy.packing)
        return AnalysisOutcome(
            topic=self.schema.name,
            strategy=strategy,
            begin=self._first,
            seconds=self._last - self._first,
            values=events["events"] * len(self.schema.wire),
            start=start,
            running=running,
            end=end,
            errors=self._checker.errors,
            missing=self._checker.missing + self._checker.unexpected,
            publish_cpu=cpu.publish if cpu else None,
            receive_cpu=cpu.receive if cpu else None,
            **events,
        )
