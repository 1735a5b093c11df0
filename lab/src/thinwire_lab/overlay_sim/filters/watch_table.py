"""Intervals of one quantity, and which of them a value leaves.

Two heaps, of the lower ends and of the upper ones: a value that leaves no interval costs two comparisons, however many
there are; one that leaves some costs those. Intervals may lie anywhere, each around what its own subscriber holds,
which is why an index of distinct thresholds does not do.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

Interval = tuple[int, int]
"""both ends inside"""

_SLACK = 64


class Regions:
    """Intervals by key; keys are numbers, and what leaves together leaves in their order.

    >>> regions = Regions()
    >>> regions.put(7, (1, 9)); regions.put(3, (0, 100)); regions.put(5, (4, 6))
    >>> regions.leave(5), regions.leave(10), regions.leave(-1), len(regions)
    ([], [5, 7], [3], 0)
    """

    __slots__ = ("_highs", "_intervals", "_lows")

    def __init__(self) -> None:
        self._intervals: dict[int, Interval] = {}
        self._lows: list[tuple[int, int]] = []
        self._highs: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self._intervals)

    def put(self, key: int, interval: Interval) -> None:
        """Register an interval, in place of the one under this key."""
        self._intervals[key] = interval
        heappush(self._lows, (-interval[0], key))
        heappush(self._highs, (interval[1], key))
        if len(self._lows) + len(self._highs) > 4 * len(self._intervals) + _SLACK:
            self._tidy()

    def remove(self, key: int) -> None:
        """Forget an interval; its ends go when they come up."""
        del self._intervals[key]

    def leave(self, value: int) -> list[int]:
        """Take out the intervals that do not hold a value."""
        passed: list[int] = []
        while self._lows and -self._lows[0][0] > value:
            passed.append(heappop(self._lows)[1])
        while self._highs and self._highs[0][0] < value:
            passed.append(heappop(self._highs)[1])
        return sorted(key for key in set(passed) if self._left(key, value)) if passed else passed

    def _left(self, key: int, value: int) -> bool:
        """Ends may be of an interval that is gone, or was replaced."""
        interval = self._intervals.get(key)
        if interval is None or interval[0] <= value <= interval[1]:
            return False
        del self._intervals[key]
        return True

    def _tidy(self) -> None:
        """Most ends belong to intervals that are gone: begin with those that are there."""
        self._lows = [(-low, key) for key, (low, _) in self._intervals.items()]
        self._highs = [(high, key) for key, (_, high) in self._intervals.items()]
        heapify(self._lows)
        heapify(self._highs)
