"""Table of intervals: which of them does a value lie outside of? A lookup costs O(matches).

`IntervalIndex` moves intervals itself and identifies them by threshold. Here the caller replaces an interval, several
may be equal, and each is identified by its row.

>>> table = IntervalTable(np.array([-2, -5]), np.array([2, 5]))
>>> table.outside(3).tolist()
[0]
>>> table.put(0, 1, 5)
>>> table.outside(3).tolist(), table.outside(-9).tolist()
([], [0, 1])
"""

from __future__ import annotations

import numpy as np

from thinwire.filters.kernels.intervals import HIGHEST, LOWEST, build, outside, put_interval
from thinwire.filters.threshold_index import levels
from thinwire.filters.thresholds import Ticks

UNBOUNDED = (LOWEST, HIGHEST)
"""an interval that contains every value"""
EMPTY = (HIGHEST, LOWEST)
"""an interval that contains no value"""


class Workspace:
    """Scratch arrays of lookups, shared by tables that are used in turn."""

    def __init__(self) -> None:
        self.resize(1)

    def resize(self, size: int) -> None:
        """Allocate arrays for tables of `size` cells."""
        self.found = np.zeros(size, dtype=np.int64)
        self.rows = np.zeros(size, dtype=np.int64)
        self.counts = np.zeros(64, dtype=np.int64)


class IntervalTable:
    """Closed intervals by row.

    low, high: ends of the intervals
    workspace: shared with other tables; a new one by default
    """

    __slots__ = ("_high", "_low", "_starts", "_workspace", "size")

    def __init__(self, low: Ticks, high: Ticks, workspace: Workspace | None = None) -> None:
        self.size = len(low)
        self._starts = levels(self.size)
        total = int(self._starts[-1])
        self._low = np.full(total, LOWEST, dtype=np.int64)
        self._high = np.full(total, HIGHEST, dtype=np.int64)
        self._low[: self.size], self._high[: self.size] = low, high
        self._workspace = workspace or Workspace()
        if len(self._workspace.found) < total:
            self._workspace.resize(2 * total)
        build(self._low, self._high, self._starts)

    def outside(self, value: int) -> Ticks:
        """Return the rows of the intervals that do not contain `value`, ascending.

        The result is a view of the workspace, valid until its next use.
        """
        work = self._workspace
        count = outside(self._low, self._high, self._starts, value, work.found, work.counts, work.rows)
        return work.rows[:count]

    def interval(self, row: int) -> tuple[int, int]:
        """Return the interval at a row."""
        return int(self._low[row]), int(self._high[row])

    def put(self, row: int, low: int, high: int) -> None:
        """Replace the interval at a row."""
        put_interval(self._low, self._high, self._starts, row, low, high)
