"""Table of intervals: find those that do not contain a value. A lookup costs time in proportion to the result.

>>> table = IntervalTable(np.array([-2, -5]), np.array([2, 5]))
>>> table.outside(3).tolist()
[0]
>>> table.put(0, 1, 5)
>>> table.outside(3).tolist(), table.outside(-9).tolist()
([], [0, 1])
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from thinwire.filters.kernels.intervals import BLOCK, HIGHEST, LOWEST, build, outside, put_interval

Ticks: TypeAlias = npt.NDArray[np.int64]

UNBOUNDED = (LOWEST, HIGHEST)
"""an interval that contains every value"""
EMPTY = (HIGHEST, LOWEST)
"""an interval that contains no value"""


class Workspace:
    """Scratch arrays of lookups, shared by tables that are used in turn."""

    def __init__(self) -> None:
        self.resize(1)

    def resize(self, size: int) -> None:
        """Allocate arrays for tables of up to `size` intervals, with padding and summaries."""
        self.blocks = np.zeros(size, dtype=np.int64)
        self.rows = np.zeros(size, dtype=np.int64)
        self.counts = np.zeros(64, dtype=np.int64)  # blocks by level; no table has more levels


class IntervalTable:
    """Closed intervals by row.

    low, high: ends of the intervals
    workspace: shared with other tables; a new one by default
    """

    __slots__ = ("_high", "_low", "_starts", "_workspace", "size")

    def __init__(self, low: Ticks, high: Ticks, workspace: Workspace | None = None) -> None:
        self.size = len(low)
        self._starts = level_starts(self.size)
        total = int(self._starts[-1])
        self._low = np.full(total, LOWEST, dtype=np.int64)
        self._high = np.full(total, HIGHEST, dtype=np.int64)
        self._low[: self.size], self._high[: self.size] = low, high
        self._workspace = workspace or Workspace()
        if len(self._workspace.blocks) < total:
            self._workspace.resize(2 * total)
        build(self._low, self._high, self._starts)

    def outside(self, value: int) -> Ticks:
        """Return the rows of the intervals that do not contain `value`, ascending.

        The result is a view of the workspace, valid until its next use.
        """
        work = self._workspace
        count = outside(self._low, self._high, self._starts, value, work.blocks, work.counts, work.rows)
        return work.rows[:count]

    def interval(self, row: int) -> tuple[int, int]:
        """Return the interval at a row."""
        return int(self._low[row]), int(self._high[row])

    def put(self, row: int, low: int, high: int) -> None:
        """Replace the interval at a row."""
        put_interval(self._low, self._high, self._starts, row, low, high)


def level_starts(count: int) -> Ticks:
    """Return the start of each level, intervals first, root last, and the end of the root. Levels are padded to blocks.

    >>> level_starts(100).tolist()
    [0, 128, 160, 161]
    """
    starts, size = [0], max(1, count)
    while True:
        blocks = -(-size // BLOCK)
        starts.append(starts[-1] + blocks * BLOCK)
        size = blocks
        if blocks == 1:
            return np.array([*starts, starts[-1] + 1], dtype=np.int64)
