"""The fewest deliveries that keep a subscriber within a threshold, known only when all values are.

A delivery of x serves up to the first value further than the threshold from x. So the places form segments: the next
delivery may be any value up to the end of the present one, and the best is the one that serves longest.
"""

from __future__ import annotations

import numpy as np

from thinwire.filters.thresholds import Ticks, checked_threshold, checked_ticks
from thinwire_lab.overlay_sim.filters.filter_kernels_optimum import choose, serves_until


def global_optimum(values: Ticks, threshold: int) -> Ticks:
    """Places of the fewest deliveries, the first value among them; in time n log n.

    >>> global_optimum(np.array([0, -5, -9, -3]), 5).tolist()
    [0, 1]
    """
    ticks = checked_ticks(values)
    until = np.empty(ticks.size, dtype=np.int64)
    serves_until(ticks, checked_threshold(threshold), until)
    places = np.empty(ticks.size, dtype=np.int64)
    return places[: choose(until, places)].copy()
