"""All thresholds of a source in one place; a value costs what it fires, not how many there are.

Equal thresholds are one threshold: a million subscribers with sixty-three of them are sixty-three. A threshold fires
exactly when `greedy`, begun when the threshold came, would deliver.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Self

import numpy as np

from thinwire.filters.kernels.intervals_offering import CELLS, LOOKED, NEXT, STREAK, SUMMED, offer_rows
from thinwire.filters.threshold_index_index_members import Members
from thinwire.filters.thresholds import Ticks, checked_threshold, checked_thresholds, checked_tick, checked_ticks

ROOM = 1 << 16
"""pairs of a batch beside those that one more value can fire"""

_NOTHING = np.empty(0, dtype=np.int64)


class IntervalIndex:
    """Thresholds and the values last delivered for them; says which fire.

    thresholds: in ticks; equal ones are one
    value: what all of them hold at first

    >>> index = IntervalIndex([2, 5, 9], value=0)
    >>> index.offer(3).tolist(), index.offer(-3).tolist(), index.offer(-2).tolist()
    ([2], [2], [])
    >>> index.centre(2), index.centre(5)
    (-3, 0)
    """

    def __init__(self, thresholds: Iterable[int], value: int) -> None:
        distinct = checked_thresholds(thresholds)
        self._begin(Members(distinct, np.full(distinct.size, checked_tick(value), dtype=np.int64)))

    @classmethod
    def restore(cls, thresholds: Ticks, centres: Ticks) -> Self:
        """The index that answered `centres()` with these.

        >>> IntervalIndex.restore(*IntervalIndex([2, 5], value=7).centres()).centre(5)
        7
        """
        index = cls.__new__(cls)
        index._begin(Members.saved(thresholds, centres))
        return index

    def _begin(self, members: Members) -> None:
        self._members = members
        self._state = np.zeros(CELLS, dtype=np.int64)
        self._settle()

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, threshold: int) -> bool:
        return threshold in self._members

    @property
    def looked(self) -> int:
        """Blocks of 32 thresholds, or of 32 blocks, that values had to be held against so far."""
        return int(self._state[LOOKED])

    def add(self, threshold: int, value: int) -> None:
        """From now on this threshold fires too; one that is here already keeps what it holds."""
        self._members.add(checked_threshold(threshold), checked_tick(value))

    def remove(self, threshold: int) -> None:
        """From now on this threshold fires no more."""
        self._members.remove(threshold)

    def centre(self, threshold: int) -> int:
        """The value last delivered for a threshold."""
        return self._members.centre(threshold)

    def centres(self) -> tuple[Ticks, Ticks]:
        """Thresholds, ascending, and the values last delivered for them: all there is to save."""
        self._settle()
        return self._members.columns()

    def offer(self, value: int) -> Ticks:
        """The thresholds that fire, ascending; they hold this value from now on."""
        tick = checked_tick(value)
        self._settle()
        members = self._members
        if self._state[SUMMED] and members.low[members.root] <= tick <= members.high[members.root]:
            return _NOTHING
        return next((fired for _, fired in self._batches(np.array([tick], dtype=np.int64))), _NOTHING)

    def offer_many(self, values: Ticks) -> tuple[Ticks, Ticks]:
        """Places of values, ascending, and the thresholds they fire, ascending at each place.

        >>> IntervalIndex([2, 5], value=0).offer_many(np.array([1, 3, 9]))
        (array([1, 2, 2]), array([2, 2, 5]))
        """
        batches = list(self.offer_batches(values))
        if not batches:
            return _NOTHING, _NOTHING
        places, fired = zip(*batches, strict=True)
        return np.concatenate(places), np.concatenate(fired)

    def offer_batches(self, values: Ticks) -> Iterator[tuple[Ticks, Ticks]]:
        """The same in pieces whose size has a limit, whatever fires. Values are taken as the pieces are."""
        return self._batches(checked_ticks(values))

    def _batches(self, ticks: Ticks) -> Iterator[tuple[Ticks, Ticks]]:
        at = 0
        while at < ticks.size:
            self._settle()
            self._state[NEXT] = at
            count = offer_rows(ticks, *self._members.parts(), self._state, self._places, self._fired)
            at = int(self._state[NEXT])
            if count:
                yield self._places[:count].copy(), self._fired[:count].copy()

    def _settle(self) -> None:
        """Lets thresholds in and out that came and went since the last value."""
        if self._members.settle():
            self._state[[SUMMED, STREAK]] = 1, 0
            self._places, self._fired = (np.empty(ROOM + self._members.leaves, dtype=np.int64) for _ in range(2))
