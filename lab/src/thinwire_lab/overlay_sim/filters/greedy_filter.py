"""Greedy conformance filter (OnlineGreedy): deliver a value that is further than the threshold from the last delivery.

Decisions are made online, without knowledge of later values. The subscriber's value is never further than the threshold
from the source's. `IntervalIndex` delivers the same values.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from thinwire_lab.overlay_sim.filters.greedy_kernels import count_rows, deliver
from thinwire_lab.overlay_sim.filters.thresholds import (
    Ticks,
    checked_threshold,
    checked_thresholds,
    checked_tick,
    checked_ticks,
)


def greedy(values: Ticks, threshold: int, start: int | None = None) -> Ticks:
    """Return the indexes of the delivered values.

    start: value that the subscriber has; without `start` the first value is delivered

    >>> greedy(np.array([0, 3, 6, 5, 11, 20]), 5).tolist()
    [0, 2, 5]
    >>> greedy(np.array([0, 3, 6]), 5, start=0).tolist()
    [2]
    """
    ticks = checked_ticks(values)
    places = np.empty(ticks.size, dtype=np.int64)
    centre = checked_tick(0 if start is None else start)
    count = deliver(ticks, checked_threshold(threshold), centre, start is None, places)
    return places[:count].copy()


class ThresholdCounts:
    """Delivery counts of many thresholds over one source. Every threshold delivers the first value.

    thresholds: distinct thresholds, ascending; the arrays below have one element per threshold
    events: number of values so far
    delivered: number of deliveries
    gaps: largest distance between source and subscriber in ticks; at most the threshold
    silences: longest run of values that were not delivered

    >>> counts = ThresholdCounts([2, 5])
    >>> counts.take(np.array([0, 2, 3])); counts.take(np.array([9, 8]))
    >>> counts.events, counts.delivered.tolist(), counts.gaps.tolist(), counts.silences.tolist()
    (5, [3, 2], [2, 3], [1, 2])
    """

    def __init__(self, thresholds: Iterable[int]) -> None:
        self.thresholds = checked_thresholds(thresholds)
        self.events = 0
        self.delivered, self.gaps, self._quiet, self._longest, self._centres = (
            np.zeros(self.thresholds.size, dtype=np.int64) for _ in range(5)
        )

    def take(self, values: Ticks) -> None:
        """Process the next values."""
        ticks = checked_ticks(values)
        state = self._centres, self.delivered, self.gaps, self._quiet, self._longest
        count_rows(ticks, self.thresholds, self.events == 0, *state)
        self.events += ticks.size

    @property
    def silences(self) -> Ticks:
        return np.maximum(self._longest, self._quiet)
