"""All thresholds of a source in one place; a value costs what it fires, not how many there are.

Equal thresholds are one threshold: a million subscribers with sixty-three of them are sixty-three. A threshold fires
exactly when `greedy`, begun when the threshold came, would deliver.

The thresholds of an index and their intervals, laid out for kernels; who comes and goes waits for the next value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Self

import numpy as np

from thinwire.errors import DemandError
from thinwire.filters.kernels.intervals import (
    BLOCK,
    CELLS,
    HIGHEST,
    LOOKED,
    LOWEST,
    NEXT,
    STREAK,
    SUMMED,
    build,
    offer_rows,
)
from thinwire.filters.thresholds import (
    Ticks,
    checked_count,
    checked_threshold,
    checked_thresholds,
    checked_tick,
    checked_ticks,
)


class SortedThresholds:
    """Sorted thresholds with what they hold, in blocks of blocks (see `kernels.blocks`).

    thresholds: distinct, ascending
    centres: what each of them holds
    """

    def __init__(self, thresholds: Ticks, centres: Ticks) -> None:
        self._coming: dict[int, int] = {}
        self._going: set[int] = set()
        self._arrange(thresholds, centres)
        self._moved = True

    @classmethod
    def saved(cls, thresholds: Ticks, centres: Ticks) -> Self:
        """From columns that were kept somewhere, in any order."""
        columns = checked_ticks(thresholds), checked_ticks(centres)
        distinct, order = np.unique(columns[0], return_index=True)
        if not distinct.size == columns[0].size == columns[1].size:
            sizes = {"thresholds": columns[0].size, "distinct": distinct.size, "centres": columns[1].size}
            raise DemandError("every threshold is there once and has one centre", **sizes)
        return cls(checked_thresholds(distinct), columns[1][order])

    def __len__(self) -> int:
        return self._count - len(self._going) + len(self._coming)

    def __contains__(self, threshold: int) -> bool:
        return threshold in self._coming or (threshold not in self._going and self._place(threshold) is not None)

    def add(self, threshold: int, centre: int) -> None:
        if threshold not in self:
            checked_count(len(self) + 1)
            self._coming[threshold] = centre

    def remove(self, threshold: int) -> None:
        if threshold not in self:
            raise _unknown(threshold)
        if self._coming.pop(threshold, None) is None:
            self._going.add(threshold)

    def centre(self, threshold: int) -> int:
        if threshold in self._coming:
            return self._coming[threshold]
        place = self._place(threshold)
        if place is None or threshold in self._going:
            raise _unknown(threshold)
        return int(self.low[place]) + threshold

    def columns(self) -> tuple[Ticks, Ticks]:
        """Thresholds and centres of those who have settled."""
        thresholds = self.thresholds[: self._count].copy()
        return thresholds, self.low[: self._count] + thresholds

    def apply_pending(self) -> bool:
        """Lets in who came, lets out who went; has anything moved since the last time?"""
        if self._coming or self._going:
            self._merge()
            self._moved = True
        moved, self._moved = self._moved, False
        return moved

    def parts(self) -> tuple[Ticks, Ticks, Ticks, Ticks, Ticks, Ticks]:
        """What the kernels work on."""
        return self.thresholds, self.low, self.high, self.starts, self._found, self._counts

    @property
    def leaves(self) -> int:
        return int(self.starts[1])

    @property
    def root(self) -> int:
        """Where the interval lies that is common to all, if the blocks are summed up."""
        return int(self.starts[-2])

    def _place(self, threshold: int) -> int | None:
        place = int(np.searchsorted(self.thresholds[: self._count], threshold))
        return place if place < self._count and self.thresholds[place] == threshold else None

    def _merge(self) -> None:
        thresholds, centres = self.columns()
        if self._going:
            stay = ~np.isin(thresholds, np.fromiter(self._going, np.int64, len(self._going)))
            thresholds, centres = thresholds[stay], centres[stay]
        new = sorted(self._coming.items())
        names, values = (np.fromiter((pair[side] for pair in new), np.int64, len(new)) for side in (0, 1))
        places = np.searchsorted(thresholds, names)
        self._coming, self._going = {}, set()
        self._arrange(np.insert(thresholds, places, names), np.insert(centres, places, values))

    def _arrange(self, thresholds: Ticks, centres: Ticks) -> None:
        self._count = thresholds.size
        self.starts = levels(self._count)
        total = int(self.starts[-1])
        self.thresholds = np.zeros(self.leaves, dtype=np.int64)
        self.low = np.full(total, LOWEST, dtype=np.int64)
        self.high = np.full(total, HIGHEST, dtype=np.int64)
        self.thresholds[: self._count] = thresholds
        self.low[: self._count] = centres - thresholds
        self.high[: self._count] = centres + thresholds
        self._found = np.zeros(total, dtype=np.int64)
        self._counts = np.zeros(self.starts.size, dtype=np.int64)
        build(self.low, self.high, self.starts)


def levels(count: int) -> Ticks:
    """Where each level starts, the thresholds first, the root last, and the end.

    >>> levels(100).tolist()
    [0, 128, 160, 161]
    """
    starts, size = [0], max(1, count)
    while True:
        blocks = -(-size // BLOCK)
        starts.append(starts[-1] + blocks * BLOCK)
        size = blocks
        if blocks == 1:
            return np.array([*starts, starts[-1] + 1], dtype=np.int64)


def _unknown(threshold: int) -> DemandError:
    return DemandError("no such threshold here, add it first", field="threshold", value=threshold)


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
        self._begin(SortedThresholds(distinct, np.full(distinct.size, checked_tick(value), dtype=np.int64)))

    @classmethod
    def restore(cls, thresholds: Ticks, centres: Ticks) -> Self:
        """The index that answered `centres()` with these.

        >>> IntervalIndex.restore(*IntervalIndex([2, 5], value=7).centres()).centre(5)
        7
        """
        index = cls.__new__(cls)
        index._begin(SortedThresholds.saved(thresholds, centres))
        return index

    def _begin(self, members: SortedThresholds) -> None:
        self._members = members
        self._state = np.zeros(CELLS, dtype=np.int64)
        self._apply_pending()

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
        self._apply_pending()
        return self._members.columns()

    def offer(self, value: int) -> Ticks:
        """The thresholds that fire, ascending; they hold this value from now on."""
        tick = checked_tick(value)
        self._apply_pending()
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
            self._apply_pending()
            self._state[NEXT] = at
            count = offer_rows(ticks, *self._members.parts(), self._state, self._places, self._fired)
            at = int(self._state[NEXT])
            if count:
                yield self._places[:count].copy(), self._fired[:count].copy()

    def _apply_pending(self) -> None:
        """Lets thresholds in and out that came and went since the last value."""
        if self._members.apply_pending():
            self._state[[SUMMED, STREAK]] = 1, 0
            self._places, self._fired = (np.empty(ROOM + self._members.leaves, dtype=np.int64) for _ in range(2))
