"""Streams whose events are known in advance, and the events that a demand class must receive of them.

The load feed: each publisher has its own sources, which send in turn at regular instants. `time` is the instant at
which an event is due, in microseconds. Latency is counted from it, so it includes the delay of a publisher that falls
behind. Three readings do not change in half of the events and change by more than the tolerance in the others. A seed
gives the same readings on every machine.

>>> feed = LoadSource(publisher=0, publishers=4, rate=2000, start=1_000_000)
>>> events = feed.due(1_010_000)
>>> len(events), events[1]["time"] - events[0]["time"], events[0]["sensor"]
(6, 2000, 'r0-p0-s00')

All events of all publishers, as whole ticks:

>>> truth = feed_truth(rate=2000, publishers=4, seconds=1.0)
>>> len(truth.names), int(truth.counts.sum()), truth.at(0)[0].tolist()
(200, 2204, [600, 2100, 120])

A class receives the events in which a value moved beyond its tolerance. There are two hops with the same rule:
publishers send a value that moved by more than `log_ticks`, and a translator sends a logged value that moved by more
than `channel_ticks`. Ticks are integers, so the result does not depend on rounding.

>>> walk = np.array([[[0], [4], [7], [9], [20]]])
>>> truth = GroundTruth(("t",), ["a"], np.array([5]), np.array([0]), 1000, walk)
>>> required = required_events(truth, log_ticks=5, channel_ticks=5)
>>> required.step.tolist(), required.values.ravel().tolist()
([0, 2, 4], [0, 7, 20])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinwire.schema import Property, Schema

TOPIC = "bench.feed"
SOURCES = 50
"""sources of a publisher"""
TOLERANCE = 0.5
ROWS = 256
"""readings of a source, which are repeated"""
FINAL_MOVE = 20.0
"""change of every reading in the last event of a source"""

READINGS = ("temperature", "pressure", "flow")
_LEVELS = np.array([60.0, 210.0, 12.0])
_MOVES = np.array([1.5, 4.0, 0.8])

Event = dict[str, Any]


def stream_schema(topic: str, source: str, *values: Property) -> Schema:
    """Return a schema with the properties `time`, `source` and the values."""
    stamp = Property("time", "timestamp", "header", form="epoch", step=1)
    return Schema(topic, [stamp, Property(source, "string", "dimension"), *values])


def feed_schema() -> Schema:
    return stream_schema(TOPIC, "sensor", *(Property(name, "number", step="0.1") for name in READINGS))


class LoadSource:
    """The events of one publisher, in the order in which they are due.

    rate: events per second of all publishers together, rounded to whole microseconds between events of a source
    start: the instant of the first event, in microseconds since the epoch
    round_number: number of the round; the sources of each round are new, so that it starts without decoder state
    offsets: microseconds from the start to the first event of each source; period: between two events of a source
    readings: `ROWS` readings of each source
    """

    def __init__(
        self,
        publisher: int,
        publishers: int,
        rate: float,
        start: int,
        round_number: int = 0,
        sources: int = SOURCES,
        seed: int = 7,
    ) -> None:
        self.start = start
        self.period = max(1, round(publishers * sources * 1e6 / rate))
        self.names = [f"r{round_number}-p{publisher}-s{k:02d}" for k in range(sources)]
        self.published = 0
        self.offsets = [k * self.period // sources for k in range(sources)]
        self.readings = [_readings(seed, publisher, source) for source in range(sources)]

    def due(self, until: int) -> list[Event]:
        """Return the events that became due up to `until` since the last call."""
        last = self.due_by(until)
        events = [self._event(number) for number in range(self.published, last)]
        self.published = max(last, self.published)
        return events

    def instant(self, number: int) -> int:
        """Return when an event is due."""
        step, source = divmod(number, len(self.names))
        return self.start + step * self.period + self.offsets[source]

    def final_events(self) -> list[Event]:
        """Return one more event of each source. Every reading changes, so that every subscriber receives it."""
        events = []
        for number in range(self.published, self.published + len(self.names)):
            event = self._event(number)
            events.append(event | {name: event[name] + FINAL_MOVE for name in READINGS})
        self.published += len(self.names)
        return events

    def due_by(self, until: int) -> int:
        """Return the number of events that are due up to an instant."""
        step, rest = divmod(until - self.start, self.period)
        return int(step) * len(self.names) + sum(offset <= rest for offset in self.offsets)

    def _event(self, number: int) -> Event:
        step, source = divmod(number, len(self.names))
        temperature, pressure, flow = self.readings[source][step % ROWS]
        return {
            "time": self.start + step * self.period + self.offsets[source],
            "sensor": self.names[source],
            "temperature": temperature,
            "pressure": pressure,
            "flow": flow,
        }


def _readings(seed: int, publisher: int, source: int) -> list[tuple[float, ...]]:
    """Return a walk that does not move in half of its steps and returns to its start after `ROWS` steps."""
    rng = np.random.default_rng([seed, publisher, source])
    steps = ROWS // 4
    moves = _MOVES * rng.choice([-1.0, 1.0], (steps, 3)) * rng.uniform(1.0, 3.0, (steps, 3))
    cycle = np.concatenate([moves, -moves[::-1]])
    levels = _LEVELS + np.cumsum(cycle, axis=0)
    unchanged = np.zeros(ROWS, dtype=bool)
    unchanged[rng.permutation(ROWS)[: ROWS // 2]] = True
    rows = levels[np.cumsum(~unchanged) - 1]
    return [tuple(row) for row in np.round(rows, 1).tolist()]


STEP = Fraction(1, 10)
"""size of a tick of the readings"""

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class GroundTruth:
    """Every event of some sources: event number `step` of each source has the values `at(step)`.

    readings: names of the values; names: of the sources; counts: events of each source
    offsets, period: from the start to the first event of a source, and from each event to the next
    cycle: ticks by source, step and reading, which are repeated
    final_move: ticks by which every reading of the last event moves; unit: size of a tick
    """

    readings: tuple[str, ...]
    names: Sequence[str]
    counts: Ints
    offsets: Ints
    period: int
    cycle: Ints
    final_move: int = 0
    unit: Fraction = STEP

    @property
    def steps(self) -> int:
        """The largest number of events of a source."""
        return int(self.counts.max())

    def at(self, step: int) -> Ints:
        """Return the values of every source in a step, undefined for sources that have ended."""
        values: Ints = self.cycle[:, step % self.cycle.shape[1]]
        return values + self.final_move * np.equal(self.counts, step + 1)[:, None] if self.final_move else values

    def has_event(self, step: int) -> Flags:
        """Flag the sources that have an event in a step."""
        flags: Flags = step < self.counts
        return flags


def feed_truth(rate: float, publishers: int, seconds: float, round_number: int = 0) -> GroundTruth:
    """Return the events of all publishers of a round, including the final events."""
    end = round(seconds * 1e6)
    feeds = [
        LoadSource(publisher, publishers, rate, start=0, round_number=round_number) for publisher in range(publishers)
    ]
    counts = [_counts(feed.due_by(end), len(feed.names)) for feed in feeds]
    return GroundTruth(
        readings=READINGS,
        names=[name for feed in feeds for name in feed.names],
        counts=np.concatenate(counts) + 1,
        offsets=np.array([offset for feed in feeds for offset in feed.offsets]),
        period=feeds[0].period,
        cycle=ticks([source for feed in feeds for source in feed.readings]),
        final_move=in_ticks(FINAL_MOVE),
    )


def ticks(values: Sequence[Sequence[Sequence[float]]]) -> Ints:
    """Return readings in ticks."""
    return np.rint(np.asarray(values) * float(1 / STEP)).astype(np.int64)


def in_ticks(distance: float) -> int:
    """Return a distance in whole ticks, rounded down. The decimal text is used, so that 0.3 is 3 ticks.

    >>> in_ticks(0.3), in_ticks(0.59)
    (3, 5)
    """
    return int(Fraction(str(distance)) / STEP)


def _counts(events: int, sources: int) -> Ints:
    """Return the events of each source if sources send in turn."""
    return (events - np.arange(sources) + sources - 1) // sources


@dataclass(frozen=True)
class EventsBySource:
    """Events by source and step.

    values: the values that a subscriber must receive, in ticks; true_values: the published ones
    """

    source: Ints
    step: Ints
    values: Ints
    true_values: Ints

    def __len__(self) -> int:
        return len(self.source)


def required_events(truth: GroundTruth, log_ticks: int, channel_ticks: int) -> EventsBySource:
    """Return the events that a class must receive. Values that do not move keep their last delivered value.

    log_ticks: error bound of the log; channel_ticks: additional error bound of the channel
    """
    rows: list[tuple[Ints, Ints, Ints]] = []
    logged = delivered = truth.at(0)
    for step in range(truth.steps):
        values = truth.at(step)
        logged = np.where(np.abs(values - logged) > log_ticks, values, logged)
        moved = np.abs(logged - delivered) > channel_ticks
        delivered = np.where(moved, logged, delivered)
        # the first values are always delivered
        sources = np.flatnonzero(truth.has_event(step) & (moved.any(axis=1) if step else True))
        rows.append((sources, delivered[sources], values[sources]))
    return EventsBySource(
        source=np.concatenate([sources for sources, _, _ in rows]),
        step=np.repeat(np.arange(len(rows)), [len(sources) for sources, _, _ in rows]),
        values=np.concatenate([values for _, values, _ in rows]),
        true_values=np.concatenate([true_values for _, _, true_values in rows]),
    )
