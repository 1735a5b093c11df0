"""Intervals side by side: which of them does a value leave? Each is put by hand; a value costs what it leaves.

`IntervalIndex` moves the intervals itself and knows them by their thresholds. Here somebody else decides what becomes
of an interval that was left, several may have the same threshold, and each is known by its place.

>>> line = IntervalLine(np.array([-2, -5]), np.array([2, 5]))
>>> line.outside(3).tolist()
[0]
>>> line.put(0, 1, 5)
>>> line.outside(3).tolist(), line.outside(-9).tolist()
([], [0, 1])
"""

from __future__ import annotations

import numpy as np

from thinwire.filters.kernels.intervals import HIGHEST, LOWEST, build, outside, put_interval
from thinwire.filters.threshold_index import levels
from thinwire.filters.thresholds import Ticks

ANYWHERE = (LOWEST, HIGHEST)
"""an interval that no value leaves"""
NOWHERE = (HIGHEST, LOWEST)
"""one that every value leaves"""


class Desk:
    """Room to work in, shared by lines that are asked one after the other."""

    def __init__(self) -> None:
        self.make_room(1)

    def make_room(self, size: int) -> None:
        """Have room for lines of so many cells."""
        self.found = np.zeros(size, dtype=np.int64)
        self.places = np.zeros(size, dtype=np.int64)
        self.counts = np.zeros(64, dtype=np.int64)


class IntervalLine:
    """Intervals by their places.

    low, high: the ends of each, which belong to it
    desk: room to work in; its own where none is given
    """

    __slots__ = ("_desk", "_high", "_low", "_starts", "size")

    def __init__(self, low: Ticks, high: Ticks, desk: Desk | None = None) -> None:
        self.size = len(low)
        self._starts = levels(self.size)
        total = int(self._starts[-1])
        self._low = np.full(total, LOWEST, dtype=np.int64)
        self._high = np.full(total, HIGHEST, dtype=np.int64)
        self._low[: self.size], self._high[: self.size] = low, high
        self._desk = desk or Desk()
        if len(self._desk.found) < total:
            self._desk.make_room(2 * total)
        build(self._low, self._high, self._starts)

    def outside(self, value: int) -> Ticks:
        """The places, ascending, of the intervals that a value lies outside of. Read them before anybody asks again."""
        desk = self._desk
        count = outside(self._low, self._high, self._starts, value, desk.found, desk.counts, desk.places)
        return desk.places[:count]

    def interval(self, place: int) -> tuple[int, int]:
        """The one at a place."""
        return int(self._low[place]), int(self._high[place])

    def put(self, place: int, low: int, high: int) -> None:
        """Another one at a place."""
        put_interval(self._low, self._high, self._starts, place, low, high)
