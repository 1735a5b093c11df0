"""Strategies on recorded events: the real publisher, the real subscriber, every byte counted, and nothing sent.

Strategies that make the same frames share one run of the publisher. Batches stream through: of the events only those
are kept that a subscriber has not got yet, at most those of one silence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np
import pyarrow as pa

from thinwire.analysis.column_errors import Comparison
from thinwire.analysis.event_times import EventClock
from thinwire.analysis.message_batches import ROUND_TRIP, PublisherTotals, StrategyMessages
from thinwire.analysis.packed_frames import Packing
from thinwire.analysis.publisher_run import EncodedRun, Price, TimedPublisher, in_step, price
from thinwire.analysis.strategies import AnalysisOutcome, Bytes, Ranges, Strategy, same_frames
from thinwire.codec import StreamDecoder
from thinwire.codec.kernel_warmup import warm_up
from thinwire.codec.table_decoder import TableDecoder
from thinwire.dictionaries import Dictionary
from thinwire.errors import ConfigError
from thinwire.schema import Schema

AT_ONCE = 8_192
"""rows that are published before the subscriber looks at them; what it does at once it does faster"""


def evaluate(
    batches: Iterable[pa.RecordBatch],
    schema: Schema,
    strategy: Strategy,
    ranges: Ranges,
    *,
    warm: Iterable[pa.RecordBatch] = (),
    begin: float | None = None,
    rate: float | None = None,
    round_trip: float = ROUND_TRIP,
) -> AnalysisOutcome:
    """One strategy on a stretch of a topic's events; see `evaluate_together`."""
    return evaluate_together(
        batches, schema, [strategy], ranges, warm=warm, begin=begin, rate=rate, round_trip=round_trip
    )[0]


def evaluate_together(
    batches: Iterable[pa.RecordBatch],
    schema: Schema,
    strategies: Sequence[Strategy],
    ranges: Ranges,
    *,
    warm: Iterable[pa.RecordBatch] = (),
    begin: float | None = None,
    rate: float | None = None,
    before: int = 0,
    round_trip: float = ROUND_TRIP,
    timed: bool = True,
    dictionary: Dictionary | None = None,
) -> list[AnalysisOutcome]:
    """Strategies that make the same frames, on a stretch of a topic's events.

    ranges: of the numbers in the training part
    warm: events from before the stretch, for one that begins in the middle of its stream: the last few of each source
    begin: when the stream began, so that key frames and heartbeats come at the same times as in one long run
    rate: events a second, where they do not tell their time; before: events of the stream before all these
    timed: measure processor times; one stretch of a stream is enough for that
    dictionary: for strategies that pack with one
    """
    if len(same_frames(strategies)) != 1:
        raise ConfigError("these strategies do not make the same frames", strategies=[one.name for one in strategies])
    warm_up()
    run = _Run(schema, strategies, ranges, EventClock(schema, rate, before), round_trip, timed, dictionary)
    for counted, batch in chain(((False, one) for one in warm), ((True, one) for one in batches)):
        run.take(batch, counted=counted, begin=begin)
    return run.outcomes()


class _Run:
    """One publisher, its subscriber, and a way into messages for every strategy."""

    def __init__(
        self,
        schema: Schema,
        strategies: Sequence[Strategy],
        ranges: Ranges,
        clock: EventClock,
        round_trip: float,
        timed: bool,
        dictionary: Dictionary | None,
    ) -> None:
        self.schema = schema
        self.dictionary = dictionary
        self.config = strategies[0].link_config(schema, ranges)
        self.ways = [StrategyMessages(one, schema.name, round_trip) for one in strategies]
        self.packings = {one.packing: Packing(one.packing, dictionary) for one in strategies}
        self.starts = [Bytes() for _ in strategies]
        self.clock = clock
        self.comparison = Comparison(schema)
        self.subscriber = StreamDecoder([schema])
        self.reader = TableDecoder(self.subscriber, schema)
        self.frames: list[bytes] = []
        self.unread = 0
        """rows published since the subscriber last looked"""
        self.timed = timed
        self.prices: dict[str, Price] = {}
        self.pace: TimedPublisher | None = None
        self.before: PublisherTotals | None = None
        self.first = self.last = 0.0

    def take(self, batch: pa.RecordBatch, *, counted: bool, begin: float | None) -> None:
        """Publish the events of a batch."""
        times = self.clock.read(batch)
        if not batch.num_rows:
            return
        pace = self.pace or self._begin(float(times[0]), begin)
        if counted and self.before is None:
            self._count_from(pace, float(times[0]))
            self.prices = self._prices(batch) if self.timed else {}
        self.last = float(times[-1])
        refused: list[int] = []
        for told in pace.publish(batch, times):
            refused += (told.rows[0] + row for row in told.rejected)
            self._carry(told)
        self.comparison.published(batch, refused, counted)
        self.unread += batch.num_rows
        # rows that are still untold are looked through every time: the more there are, the rarer that shall be
        if self.unread >= max(AT_ONCE, self.comparison.missing - self.unread):
            self._read()

    def outcomes(self) -> list[AnalysisOutcome]:
        """What it came to, strategy by strategy."""
        if self.pace is None or self.before is None:
            raise ConfigError("there are no events to evaluate on: the held-out part is empty", topic=self.schema.name)
        sums = PublisherTotals.of(self.pace)
        running = self._marks()
        self._carry(self.pace.close())
        self._read()
        ending = PublisherTotals.of(self.pace).less(sums).bytes
        ends = [ending + mark for mark in self._marks()]
        counted = sums.less(self.before)
        return [
            self._outcome(way.strategy, counted, self.before.bytes + start, counted.bytes + ran, end)
            for way, start, ran, end in zip(self.ways, self.starts, running, ends, strict=True)
        ]

    def _begin(self, first: float, begin: float | None) -> TimedPublisher:
        at = first if begin is None else in_step(begin, first, self.config.key_frame_interval)
        self.pace = pace = TimedPublisher(self.schema, self.config, at)
        self._carry(pace.start())
        self._wait(pace, first)
        return pace

    def _count_from(self, pace: TimedPublisher, first: float) -> None:
        """From here on it counts."""
        self._wait(pace, first)
        self.starts = self._marks()
        self.before = PublisherTotals.of(pace)
        self.first = first

    def _wait(self, pace: TimedPublisher, until: float) -> None:
        for told in pace.wait(until):
            self._carry(told)

    def _carry(self, told: EncodedRun) -> None:
        if not told.frames:
            return
        for packing in self.packings.values():
            packed = packing.packed(told)
            alone = packed.alone
            for way in self.ways:
                if way.strategy.packing == packing.name:
                    way.take(packed, alone)
        self.frames += told.frames

    def _marks(self) -> list[Bytes]:
        """What every way came to since the last time."""
        changed = {name: packing.mark() for name, packing in self.packings.items()}
        return [way.mark() + changed[way.strategy.packing] for way in self.ways]

    def _prices(self, batch: pa.RecordBatch) -> dict[str, Price]:
        return {name: price(batch, self.schema, self.config, name, self.dictionary) for name in self.packings}

    def _read(self) -> None:
        """Let the subscriber have what was sent."""
        frames, self.frames, self.unread = self.frames, [], 0
        taken = self.reader.decode(frames, range(len(frames)), np.zeros(len(frames)))
        if taken.batch.num_rows:
            self.comparison.delivered(taken.batch, self.subscriber.bound)

    def _outcome(
        self, strategy: Strategy, sums: PublisherTotals, start: Bytes, running: Bytes, end: Bytes
    ) -> AnalysisOutcome:
        spent = self.prices.get(strategy.packing)
        return AnalysisOutcome(
            topic=self.schema.name,
            strategy=strategy,
            begin=self.first,
            seconds=self.last - self.first,
            events=sums.events,
            rejected=sums.rejected,
            suppressed_events=sums.suppressed_events,
            values=sums.events * len(self.schema.wire),
            suppressed_values=sums.suppressed_values,
            start=start,
            running=running,
            end=end,
            errors=self.comparison.errors,
            missing=self.comparison.missing + self.comparison.lost,
            publish_cpu=spent.publish if spent else None,
            receive_cpu=spent.receive if spent else None,
        )
