"""The evaluation of strategies on the batches of a segment of a topic, in this process or in a task of Spark.

The real encoder and decoder process every event, and all bytes are counted; nothing is sent. Strategies with the same
frames share one encoder. Only events that are not delivered yet are kept in memory.

A segment that starts in the middle of its stream begins with a warm-up: the publisher encodes the last events of each
source before the segment, whose bytes and errors are not part of the measurements.
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
    count_bytes,
    last_round_start,
    measure_cpu,
)
from thinwire.analysis.strategies import AnalysisOutcome, ByteCounts, Ranges, Strategy, group_by_frames
from thinwire.codec import StreamDecoder, StreamEncoder
from thinwire.codec.kernel_warmup import warm_up as compile_kernels
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
    warm_up: Iterable[pa.RecordBatch] = (),
    stream_begin: float | None = None,
    clock: EventClock | None = None,
    with_cpu: bool = True,
    dictionary: Dictionary | None = None,
) -> list[AnalysisOutcome]:
    """Evaluate strategies with the same frames on a segment of a topic. The batches are in the order of their time.

    ranges: range of each numeric property in the training part
    warm_up: the last events of each source before a segment in the middle of its stream
    stream_begin: time of the first event of the stream; the schedule of key frames and heartbeats starts there
    clock: the clock that reads the times of `warm_up` and then of the segment
    with_cpu: measure CPU times; one segment of a stream is sufficient
    dictionary: the dictionary of strategies that pack with one
    """
    if len(group_by_frames(strategies)) != 1:
        raise ConfigError("these strategies do not have the same frames", strategies=[s.name for s in strategies])
    compile_kernels()
    evaluation = _Evaluation(schema, strategies, ranges, stream_begin, dictionary)
    clock = clock or EventClock(schema)
    for batch in warm_up:
        evaluation.add(batch, clock, is_warm_up=True)
    for batch in batches:
        if with_cpu and batch.num_rows and not evaluation.cpu_times:
            evaluation.measure_cpu(batch)
        evaluation.add(batch, clock, is_warm_up=False)
    return evaluation.close()


def _count_events(encoder: StreamEncoder) -> dict[str, int]:
    counts = encoder.counts
    return {
        "events": counts.events,
        "rejected": counts.rejected,
        "suppressed_events": encoder.suppressed_events,
    }


class _Evaluation:
    """One encoder and decoder, and the messages of every strategy.

    The decoder reads unpacked frames; packing changes only sizes.
    """

    def __init__(
        self,
        schema: Schema,
        strategies: Sequence[Strategy],
        ranges: Ranges,
        stream_begin: float | None,
        dictionary: Dictionary | None,
    ) -> None:
        self.schema = schema
        self.config = strategies[0].stream_config(schema, ranges)
        self.stream_begin = stream_begin
        self.dictionary = dictionary
        self.cpu_times: dict[str, CpuTime] = {}
        self._messages = [StrategyMessages(strategy, schema.name) for strategy in strategies]
        self._packings = {s.packing: FramePacking(s.packing, dictionary) for s in strategies}
        self._checker = ColumnChecker(schema)
        self._decoder = StreamDecoder([schema])
        self._table_decoder = TableDecoder(self._decoder, schema)
        self._frames: list[bytes] = []
        self._undecoded_rows = 0
        self._publisher: TimedPublisher | None = None
        self._events_before: dict[str, int] = {}
        self._counted_bytes = ByteCounts()
        self._start_counts: list[ByteCounts] = []
        self._first = self._last = 0.0

    def measure_cpu(self, batch: pa.RecordBatch) -> None:
        self.cpu_times = {
            name: measure_cpu(batch, self.schema, self.config, name, self.dictionary) for name in self._packings
        }

    def add(self, batch: pa.RecordBatch, clock: EventClock, *, is_warm_up: bool) -> None:
        """Publish the events of a batch. All bytes before the first event of the segment are reported as `start`."""
        times = clock.read(batch)
        if not batch.num_rows:
            return
        publisher = self._publisher or self._start(float(times[0]))
        if not is_warm_up and not self._start_counts:
            self._first = float(times[0])
            self._advance(publisher, self._first)
            self._events_before = _count_events(publisher.encoder)
            self._start_counts = self._take_counts(publisher)
        self._last = float(times[-1])
        rejected: list[int] = []
        for run in publisher.publish(batch, times):
            rejected += run.rejected
            self._add_frames(run)
        self._checker.add_published(batch, rejected, is_warm_up=is_warm_up)
        self._undecoded_rows += batch.num_rows
        # Each decoding compares all pending rows, so it is done less often when many are pending.
        if self._undecoded_rows >= max(DECODE_ROWS, self._checker.missing - self._undecoded_rows):
            self._decode()

    def close(self) -> list[AnalysisOutcome]:
        """Complete the last suppressed events and return the outcome of every strategy."""
        if self._publisher is None or not self._start_counts:
            raise ConfigError("there are no events to evaluate: the held-out part is empty", topic=self.schema.name)
        events = _count_events(self._publisher.encoder)
        in_segment = {name: count - self._events_before[name] for name, count in events.items()}
        running = self._take_counts(self._publisher)
        self._add_frames(self._publisher.close())
        self._decode()
        end = self._take_counts(self._publisher)
        outcomes: list[AnalysisOutcome] = []
        for index, strategy in enumerate(messages.strategy for messages in self._messages):
            cpu = self.cpu_times.get(strategy.packing)
            outcomes.append(
                AnalysisOutcome(
                    topic=self.schema.name,
                    strategy=strategy,
                    begin=self._first,
                    seconds=self._last - self._first,
                    start=self._start_counts[index],
                    running=running[index],
                    end=end[index],
                    errors=self._checker.errors,
                    missing=self._checker.missing,
                    unexpected=self._checker.unexpected,
                    publish_cpu=cpu.publish if cpu else None,
                    receive_cpu=cpu.receive if cpu else None,
                    **in_segment,
                )
            )
        return outcomes

    def _start(self, first: float) -> TimedPublisher:
        interval = self.config.key_frame_interval
        begin = first if self.stream_begin is None else last_round_start(self.stream_begin, first, interval)
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
        """Send the pending frames and return the bytes of every strategy since the last call."""
        frames = count_bytes(publisher.encoder.counts)
        sent, self._counted_bytes = frames - self._counted_bytes, frames
        changes = {name: sent + packing.take_counts() for name, packing in self._packings.items()}
        return [messages.flush() + changes[messages.strategy.packing] for messages in self._messages]

    def _decode(self) -> None:
        frames, self._frames, self._undecoded_rows = self._frames, [], 0
        decoded = self._table_decoder.decode(frames, range(len(frames)), np.zeros(len(frames)))
        if decoded.batch.num_rows:
            self._checker.compare_delivered(decoded.batch, self._decoder.bound)
