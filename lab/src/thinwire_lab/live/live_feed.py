"""The whole course of a stream that is known beforehand: which source says what, and when, in whole ticks.

What a class of subscribers must be told follows from the course alone (`class_truth`), so nobody has to ask the
publishers what they have said.

>>> course = feed_course(rate=2000, publishers=4, seconds=1.0)
>>> len(course.names), int(course.counts.sum()), course.at(0)[0].tolist()
(200, 2204, [600, 2100, 120])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from thinwire_lab.live.live_feed_feed import FAREWELL, READINGS, Feed

STEP = Fraction(1, 10)
"""of all readings"""

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Course:
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

    def goes_on(self, step: int) -> Flags:
        """The sources that have an event in this step."""
        going: Flags = step < self.counts
        return going


def feed_course(rate: float, publishers: int, seconds: float, turn: int = 0) -> Course:
    """The course of all feeds of a round, the farewell included."""
    end = round(seconds * 1e6)
    feeds = [Feed(publisher, publishers, rate, start=0, turn=turn) for publisher in range(publishers)]
    counts = [_counts(feed.due_by(end), len(feed.names)) for feed in feeds]
    return Course(
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
