"""The whole course of a stream that is known beforehand: which source says what, and when, in whole ticks.

What a class of subscribers must be told follows from the course alone (`class_truth`), so nobody has to ask the
publishers what they have said.

>>> course = feed_course(rate=2000, publishers=4, seconds=1.0)
>>> len(course.names), int(course.counts.sum()), course.at(0)[0].tolist()
(200, 2204, [600, 2100, 120])

The stream a knee is looked for on: readings that are due at regular instants, half of which tell something new.

Each publisher has sources of its own, which report in turn. `time` is the instant at which the event was meant to be
sent, in microseconds: latency is counted from there, so a publisher that falls behind cannot hide it. Three readings
stay as they are in half of the events and move by more than the tolerance in the others. A seed gives the same
readings everywhere.

>>> feed = LoadSource(publisher=0, publishers=4, rate=2000, start=1_000_000)
>>> events = feed.due(1_010_000)
>>> len(events), feed.rate, events[1]["time"] - events[0]["time"], events[0]["sensor"]
(6, 2000.0, 2000, 'r0-p0-s00')

What a class must be told: the events in which a value has moved too far from the last one told of it.

Two hops, each by the same rule. Publishers hold a value until it is more than their tolerance off; the class gets what
its own tolerance leaves (`share`) and compares with what the publishers told. All in whole ticks, so that nothing
depends on how doubles are rounded.

>>> from thinwire_lab.live.live_feed import EventCourse
>>> walk = np.array([[[0], [4], [7], [9], [20]]])
>>> course = EventCourse(("t",), ["a"], np.array([5]), np.array([0]), 1000, walk)
>>> told = changes(course, log=5, share=5)
>>> told.step.tolist(), told.values.ravel().tolist()
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
"""readings after which a source begins again"""
FAREWELL = 20.0
"""by how much every reading moves in the last event of a source"""

READINGS = ("temperature", "pressure", "flow")
_LEVELS = np.array([60.0, 210.0, 12.0])
_MOVES = np.array([1.5, 4.0, 0.8])

Event = dict[str, Any]


def feed_schema() -> Schema:
    """The schema of the feed."""
    stamp = Property("time", "timestamp", "header", form="epoch", step=1)
    numbers = [Property(name, "number", step="0.1") for name in READINGS]
    return Schema(TOPIC, [stamp, Property("sensor", "string", "dimension"), *numbers])


class LoadSource:
    """The events of one publisher, in the order in which they are due.

    rate: events a second of all publishers together, as near as whole microseconds between a source's events allow
    start: the instant of the first event, in microseconds since the epoch
    turn: every turn has sources of its own, so that no turn begins with what is known from the one before

    offsets: microseconds from the start to the first event of each source; period: between two events of a source
    readings: of each source, `ROWS` of them, again and again
    """

    def __init__(
        self,
        publisher: int,
        publishers: int,
        rate: float,
        start: int,
        turn: int = 0,
        sources: int = SOURCES,
        seed: int = 7,
    ) -> None:
        self.start = start
        self.period = max(1, round(publishers * sources * 1e6 / rate))
        self.rate = publishers * sources * 1e6 / self.period
        self.names = [f"r{turn}-p{publisher}-s{k:02d}" for k in range(sources)]
        self.published = 0
        self.offsets = [k * self.period // sources for k in range(sources)]
        self.readings = [_readings(seed, publisher, source) for source in range(sources)]

    def due(self, until: int) -> list[Event]:
        """The events meant to be sent up to this instant that were not given out yet."""
        last = self.due_by(until)
        events = [self._event(number) for number in range(self.published, last)]
        self.published = max(last, self.published)
        return events

    def instant(self, number: int) -> int:
        """When an event is due."""
        turn, source = divmod(number, len(self.names))
        return self.start + turn * self.period + self.offsets[source]

    def final_events(self) -> list[Event]:
        """One more event of each source, in which every reading has moved: whoever has these has been told of all."""
        events = []
        for number in range(self.published, self.published + len(self.names)):
            event = self._event(number)
            events.append(event | {name: event[name] + FAREWELL for name in READINGS})
        self.published += len(self.names)
        return events

    def due_by(self, until: int) -> int:
        """How many events are meant to be sent up to this instant."""
        turn, rest = divmod(until - self.start, self.period)
        return int(turn) * len(self.names) + sum(offset <= rest for offset in self.offsets)

    def _event(self, number: int) -> Event:
        turn, source = divmod(number, len(self.names))
        temperature, pressure, flow = self.readings[source][turn % ROWS]
        return {
            "time": self.start + turn * self.period + self.offsets[source],
            "sensor": self.names[source],
            "temperature": temperature,
            "pressure": pressure,
            "flow": flow,
        }


def _readings(seed: int, publisher: int, source: int) -> list[tuple[float, ...]]:
    """A walk that stands still in half of its steps, and comes back to where it began after `ROWS` of them."""
    rng = np.random.default_rng([seed, publisher, source])
    steps = ROWS // 4
    moves = _MOVES * rng.choice([-1.0, 1.0], (steps, 3)) * rng.uniform(1.0, 3.0, (steps, 3))
    there_and_back = np.concatenate([moves, -moves[::-1]])
    levels = _LEVELS + np.cumsum(there_and_back, axis=0)
    stays = np.zeros(ROWS, dtype=bool)
    stays[rng.permutation(ROWS)[: ROWS // 2]] = True
    rows = levels[np.cumsum(~stays) - 1]
    return [tuple(row) for row in np.round(rows, 1).tolist()]


STEP = Fraction(1, 10)
"""of all readings"""

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class EventCourse:
    """Every event of some sources: the event `step` of a source has the values `at(step)`.

    readings: the names of the values; names: of the sources; counts: events of each
    offsets, period: microseconds from the start to a source's first event, and from each to the next
    cycle: ticks by source, step and reading; after the last step they begin again
    farewell: ticks by which every reading of the last event is moved
    """

    readings: tuple[str, ...]
    names: Sequence[str]
    counts: Ints
    offsets: Ints
    period: int
    cycle: Ints
    farewell: int = 0

    @property
    def steps(self) -> int:
        """Events of the source that has most."""
        return int(self.counts.max())

    def at(self, step: int) -> Ints:
        """What every source says in this step; meaningless for those that have ended."""
        values: Ints = self.cycle[:, step % self.cycle.shape[1]]
        return values + self.farewell * np.equal(self.counts, step + 1)[:, None] if self.farewell else values

    def has_event(self, step: int) -> Flags:
        """The sources that have an event in this step."""
        going: Flags = step < self.counts
        return going


def feed_course(rate: float, publishers: int, seconds: float, turn: int = 0) -> EventCourse:
    """The course of all feeds of a round, the farewell included."""
    end = round(seconds * 1e6)
    feeds = [LoadSource(publisher, publishers, rate, start=0, turn=turn) for publisher in range(publishers)]
    counts = [_counts(feed.due_by(end), len(feed.names)) for feed in feeds]
    return EventCourse(
        readings=READINGS,
        names=[name for feed in feeds for name in feed.names],
        counts=np.concatenate(counts) + 1,
        offsets=np.array([offset for feed in feeds for offset in feed.offsets]),
        period=feeds[0].period,
        cycle=ticks([source for feed in feeds for source in feed.readings]),
        farewell=in_ticks(FAREWELL),
    )


def ticks(values: Sequence[Sequence[Sequence[float]]]) -> Ints:
    """Readings as whole numbers of steps."""
    return np.rint(np.asarray(values) * float(1 / STEP)).astype(np.int64)


def in_ticks(distance: float) -> int:
    """A distance as a number of steps, rounded down, without the rounding of doubles.

    >>> in_ticks(0.3), in_ticks(0.59)
    (3, 5)
    """
    return int(Fraction(str(distance)) / STEP)


def _counts(events: int, sources: int) -> Ints:
    """Events of each source, where sources take turns."""
    return (events - np.arange(sources) + sources - 1) // sources


@dataclass(frozen=True)
class EventsBySource:
    """Events by source and step.

    values: what they must show, in ticks; truth: what really was
    """

    source: Ints
    step: Ints
    values: Ints
    truth: Ints

    def __len__(self) -> int:
        return len(self.source)


def changes(course: EventCourse, log: int, share: int) -> EventsBySource:
    """The events in which something fires; what does not fire in them stays as it was told last.

    log: ticks by which a value may be off in the publishers' log; share: those that the class adds
    """
    found: list[tuple[Ints, Ints, Ints]] = []
    told = shown = course.at(0)
    for step in range(course.steps):
        truth = course.at(step)
        told = np.where(np.abs(truth - told) > log, truth, told)
        fires = np.abs(told - shown) > share
        shown = np.where(fires, told, shown)
        # the first values are always told
        some = np.flatnonzero(course.has_event(step) & (fires.any(axis=1) if step else True))
        found.append((some, shown[some], truth[some]))
    return EventsBySource(
        source=np.concatenate([some for some, _, _ in found]),
        step=np.repeat(np.arange(len(found)), [len(some) for some, _, _ in found]),
        values=np.concatenate([values for _, values, _ in found]),
        truth=np.concatenate([truth for _, _, truth in found]),
    )
