"""What a filter delivers: a value, as soon as it lies further than the threshold from the one delivered last.

Decided on the spot, so nobody knows whether a later value would have served longer. It never leaves a subscriber
further than the threshold from the source, and every exact scheme of this room delivers the same.

What many thresholds would have delivered of one source, counted, without keeping the deliveries.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from thinwire.filters.kernels.greedy_scan import count_rows
from thinwire.filters.thresholds import Ticks, checked_threshold, checked_thresholds, checked_tick, checked_ticks


def greedy(values: Ticks, threshold: int, start: int | None = None) -> Ticks:
    """The places of the values that are delivered.

    start: what the subscriber holds already; without it the first value is delivered

    >>> greedy(np.array([0, 3, 6, 5, 11, 20]), 5).tolist()
    [0, 2, 5]
    >>> greedy(np.array([0, 3, 6]), 5, start=0).tolist()
    [2]
    """
    from thinwire.filters.kernels.greedy_scan import deliver

    ticks = checked_ticks(values)
    places = np.empty(ticks.size, dtype=np.int64)
    centre = checked_tick(0 if start is None else start)
    count = deliver(ticks, checked_threshold(threshold), centre, start is None, places)
    return places[:count].copy()


def within(values: Ticks, places: Ticks, threshold: int) -> bool:
    """Would these deliveries keep a subscriber within the threshold at every event?

    >>> walk = np.array([0, 3, 6, 5])
    >>> within(walk, np.array([0, 2]), 5), within(walk, np.array([0]), 5)
    (True, False)
    """
    from thinwire.filters.kernels.greedy_scan import longest_gap

    ticks, kept = checked_ticks(values), checked_ticks(places)
    if ticks.size == 0:
        return True
    return bool(kept.size) and kept[0] == 0 and longest_gap(ticks, kept) <= checked_threshold(threshold)


class ThresholdCounts:
    """Counts for each distinct threshold, ascending; the first value is delivered to all.

    events: values taken so far
    delivered: how many of them each threshold was given
    gaps: how far the copy was from the source at worst, in ticks; never more than the threshold
    silences: most values in a row that were not delivered

    >>> tally = ThresholdCounts([2, 5])
    >>> tally.take(np.array([0, 2, 3])); tally.take(np.array([9, 8]))
    >>> tally.events, tally.delivered.tolist(), tally.gaps.tolist(), tally.silences.tolist()
    (5, [3, 2], [2, 3], [1, 2])
    """

    def __init__(self, thresholds: Iterable[int]) -> None:
        self.thresholds = checked_thresholds(thresholds)
        self.events = 0
        self.delivered, self.gaps, self._quiet, self._longest, self._centres = (
            np.zeros(self.thresholds.size, dtype=np.int64) for _ in range(5)
        )

    def take(self, values: Ticks) -> None:
        """The next values, in their order."""
        ticks = checked_ticks(values)
        state = self._centres, self.delivered, self.gaps, self._quiet, self._longest
        count_rows(ticks, self.thresholds, self.events == 0, *state)
        self.events += ticks.size

    @property
    def silences(self) -> Ticks:
        return np.maximum(self._longest, self._quiet)
