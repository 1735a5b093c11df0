"""Single-level filters (SF): every threshold looks at every value by itself.

The plainest scheme and the measure of the others: it delivers what `greedy` does, and touches everything.
"""

from __future__ import annotations

from collections.abc import Iterable

from thinwire.filters.threshold_index import IntervalIndex
from thinwire.filters.thresholds import Ticks, checked_ticks
from thinwire_lab.overlay_sim.filters.published_filters_passage import Passage


class SingleLevel:
    """One filter for each distinct threshold.

    >>> import numpy as np
    >>> passage = SingleLevel([2, 5], value=0).run(np.array([3, 9]))
    >>> passage.thresholds.tolist(), passage.touched
    ([2, 2, 5], 4)
    """

    def __init__(self, thresholds: Iterable[int], value: int) -> None:
        self._index = IntervalIndex(thresholds, value)

    def run(self, values: Ticks) -> Passage:
        """Offers all values, in order."""
        ticks = checked_ticks(values)
        places, fired = self._index.offer_many(ticks)
        return Passage(places, fired, places, fired, ticks.size, ticks.size * len(self._index))
