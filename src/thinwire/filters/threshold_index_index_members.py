"""The thresholds of an index and their intervals, laid out for kernels; who comes and goes waits for the next value."""

from __future__ import annotations

from typing import Self

import numpy as np

from thinwire.errors import DemandError
from thinwire.filters.kernels.intervals import BLOCK, HIGHEST, LOWEST, build
from thinwire.filters.thresholds import Ticks, checked_count, checked_thresholds, checked_ticks


class Members:
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

    def settle(self) -> bool:
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
