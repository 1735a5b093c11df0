"""Index of the thresholds of one source: which of them fire for a value? The cost depends on those that fire.

Equal thresholds are stored once. A threshold fires exactly when `greedy`, started when the threshold was added, would
deliver the value. Added and removed thresholds take effect with the next value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Self

import numpy as np

from thinwire.errors import DemandError
from thinwire.filters.interval_table import levels
from thinwire.filters.kernels.intervals import HIGHEST, LOWEST, build
from thinwire_lab.overlay_sim.filters.interval_kernels import CELLS, COMPARED, NEXT, STREAK, SUMMED, offer_rows
from thinwire_lab.overlay_sim.filters.thresholds import (
    Ticks,
    checked_count,
    checked_threshold,
    checked_thresholds,
    checked_tick,
    checked_ticks,
)


class SortedThresholds:
    """Sorted thresholds and their intervals in the layout of `kernels.intervals`.

    thresholds: distinct, ascending
    centres: value delivered last for each
    """

    def __init__(self, thresholds: Ticks, centres: Ticks) -> None:
        self._added: dict[int, int] = {}
        self._removed: set[int] = set()
        self._arrange(thresholds, centres)
        self._changed = True

    @classmethod
    def saved(cls, thresholds: Ticks, centres: Ticks) -> Self:
        """Restore from saved columns in any order."""
        columns = checked_ticks(thresholds), checked_ticks(centres)
        distinct, order = np.unique(columns[0], return_index=True)
        if not distinct.size == columns[0].size == columns[1].size:
            sizes = {"thresholds": columns[0].size, "distinct": distinct.size, "centres": columns[1].size}
            raise DemandError("each threshold must occur once and have one centre", **sizes)
        return cls(checked_thresholds(distinct), columns[1][order])

    def __len__(self) -> int:
        return self._count - len(self._removed) + len(self._added)

    def __contains__(self, threshold: int) -> bool:
        return threshold in self._added or (threshold not in self._removed and self._index_of(threshold) is not None)

    def add(self, threshold: int, centre: int) -> None:
        if threshold not in self:
            checked_count(len(self) + 1)
            self._added[threshold] = centre

    def remove(self, threshold: int) -> None:
        if threshold not in self:
            raise _unknown(threshold)
        if self._added.pop(threshold, None) is None:
            self._removed.add(threshold)

    def centre(self, threshold: int) -> int:
        if threshold in self._added:
            return self._added[threshold]
        index = self._index_of(threshold)
        if index is None or threshold in self._removed:
            raise _unknown(threshold)
        return int(self.low[index]) + threshold

    def columns(self) -> tuple[Ticks, Ticks]:
        """Return thresholds and centres without pending changes."""
        thresholds = self.thresholds[: self._count].copy()
        return thresholds, self.low[: self._count] + thresholds

    def apply_pending(self) -> bool:
        """Apply pending additions and removals; return whether the layout changed since the last call."""
        if self._added or self._removed:
            self._merge()
            self._changed = True
        changed, self._changed = self._changed, False
        return changed

    def parts(self) -> tuple[Ticks, Ticks, Ticks, Ticks, Ticks, Ticks]:
        """Return the arrays for the kernels."""
        return self.thresholds, self.low, self.high, self.starts, self._found, self._counts

    @property
    def leaves(self) -> int:
        return int(self.starts[1])

    @property
    def root(self) -> int:
        """Index of the intersection of all intervals; valid while block summaries are current."""
        return int(self.starts[-2])

    def _index_of(self, threshold: int) -> int | None:
        index = int(np.searchsorted(self.thresholds[: self._count], threshold))
        return index if index < self._count and self.thresholds[index] == threshold else None

    def _merge(self) -> None:
        thresholds, centres = self.columns()
        if self._removed:
            stay = ~np.isin(thresholds, np.fromiter(self._removed, np.int64, len(self._removed)))
            thresholds, centres = thresholds[stay], centres[stay]
        new = sorted(self._added.items())
        names, values = (np.fromiter((pair[side] for pair in new), np.int64, len(new)) for side in (0, 1))
        indexes = np.searchsorted(thresholds, names)
        self._added, self._removed = {}, set()
        self._arrange(np.insert(thresholds, indexes, names), np.insert(centres, indexes, values))

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


def _unknown(threshold: int) -> DemandError:
    return DemandError("no such threshold: add it first", field="threshold", value=threshold)


BATCH_PAIRS = 1 << 16
"""pairs of a batch, without those of its last value"""

_EMPTY = np.empty(0, dtype=np.int64)


class IntervalIndex:
    """Thresholds and the values delivered last for them.

    thresholds: in ticks
    value: initial value of all thresholds

    >>> index = IntervalIndex([2, 5, 9], value=0)
    >>> index.offer(3).tolist(), index.offer(-3).tolist(), index.offer(-2).tolist()
    ([2], [2], [])
    >>> index.centre(2), index.centre(5)
    (-3, 0)
    """

    def __init__(self, thresholds: Iterable[int], value: int) -> None:
        distinct = checked_thresholds(thresholds)
        self._initialize(SortedThresholds(distinct, np.full(distinct.size, checked_tick(value), dtype=np.int64)))

    @classmethod
    def restore(cls, thresholds: Ticks, centres: Ticks) -> Self:
        """Restore an index from the result of `centres()`.

        >>> IntervalIndex.restore(*IntervalIndex([2, 5], value=7).centres()).centre(5)
        7
        """
        index = cls.__new__(cls)
        index._initialize(SortedThresholds.saved(thresholds, centres))
        return index

    def _initialize(self, members: SortedThresholds) -> None:
        self._members = members
        self._state = np.zeros(CELLS, dtype=np.int64)
        self._apply_pending()

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, threshold: int) -> bool:
        return threshold in self._members

    @property
    def compared(self) -> int:
        """Number of blocks (32 thresholds or 32 blocks) compared with values so far."""
        return int(self._state[COMPARED])

    def add(self, threshold: int, value: int) -> None:
        """Add a threshold; an existing one keeps its centre."""
        self._members.add(checked_threshold(threshold), checked_tick(value))

    def remove(self, threshold: int) -> None:
        """Remove a threshold."""
        self._members.remove(threshold)

    def centre(self, threshold: int) -> int:
        """Return the value delivered last for a threshold."""
        return self._members.centre(threshold)

    def centres(self) -> tuple[Ticks, Ticks]:
        """Return thresholds, ascending, and their centres: the complete state."""
        self._apply_pending()
        return self._members.columns()

    def offer(self, value: int) -> Ticks:
        """Return the thresholds that fire, ascending; the value becomes their centre."""
        tick = checked_tick(value)
        self._apply_pending()
        members = self._members
        if self._state[SUMMED] and members.low[members.root] <= tick <= members.high[members.root]:
            return _EMPTY
        return next((fired for _, fired in self._batches(np.array([tick], dtype=np.int64))), _EMPTY)

    def offer_many(self, values: Ticks) -> tuple[Ticks, Ticks]:
        """Return indexes of values, ascending, and the thresholds that they fire, ascending for each value.

        >>> IntervalIndex([2, 5], value=0).offer_many(np.array([1, 3, 9]))
        (array([1, 2, 2]), array([2, 2, 5]))
        """
        batches = list(self.offer_batches(values))
        if not batches:
            return _EMPTY, _EMPTY
        places, fired = zip(*batches, strict=True)
        return np.concatenate(places), np.concatenate(fired)

    def offer_batches(self, values: Ticks) -> Iterator[tuple[Ticks, Ticks]]:
        """Yield the pairs of `offer_many` in batches of limited size; values are processed as batches are consumed."""
        return self._batches(checked_ticks(values))

    def _batches(self, ticks: Ticks) -> Iterator[tuple[Ticks, Ticks]]:
        start = 0
        while start < ticks.size:
            self._apply_pending()
            self._state[NEXT] = start
            count = offer_rows(ticks, *self._members.parts(), self._state, self._places, self._fired)
            start = int(self._state[NEXT])
            if count:
                yield self._places[:count].copy(), self._fired[:count].copy()

    def _apply_pending(self) -> None:
        if self._members.apply_pending():
            self._state[[SUMMED, STREAK]] = 1, 0
            self._places, self._fired = (np.empty(BATCH_PAIRS + self._members.leaves, dtype=np.int64) for _ in range(2))
