"""What many thresholds would have delivered of one source, counted, without keeping the deliveries."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from thinwire.filters.kernels.greedy_scan import count_rows
from thinwire.filters.thresholds import Ticks, checked_thresholds, checked_ticks


class Tally:
    """Counts for each distinct threshold, ascending; the first value is delivered to all.

    events: values taken so far
    delivered: how many of them each threshold was given
    gaps: how far the copy was from the source at worst, in ticks; never more than the threshold
    silences: most values in a row that were not delivered

    >>> tally = Tally([2, 5])
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
