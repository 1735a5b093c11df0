"""Index of the thresholds of one source. It finds those that fire for a value at a cost that depends on their number.

A threshold *fires* for a value exactly when `greedy` would deliver the value: it is outside the interval of the
threshold, which is centred at the value that the threshold fired for last. Equal thresholds are stored once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from thinwire.filters.interval_table import level_starts
from thinwire.filters.kernels.intervals import HIGHEST, LOWEST, build
from thinwire_lab.overlay_sim.filters.interval_kernels import COMPARED, NEXT, STATE_CELLS, SUMMARISED, offer_values
from thinwire_lab.overlay_sim.filters.thresholds import Ticks, checked_thresholds, checked_tick, checked_ticks

BATCH_PAIRS = 1 << 16
"""pairs of a batch, without those of the last value of the batch"""

_EMPTY = np.empty(0, dtype=np.int64)


class IntervalIndex:
    """Distinct thresholds with their intervals, in the layout of `filters.kernels.intervals`.

    thresholds: in ticks
    value: first centre of all thresholds

    >>> index = IntervalIndex([2, 5, 9], value=0)
    >>> index.offer(3).tolist(), index.offer(-3).tolist(), index.offer(-2).tolist()
    ([2], [2], [])
    >>> index.centres.tolist()
    [-3, 0, 0]
    """

    def __init__(self, thresholds: Iterable[int], value: int) -> None:
        self.thresholds = checked_thresholds(thresholds)
        centre = checked_tick(value)
        self._starts = level_starts(self.thresholds.size)
        cells, leaves = int(self._starts[-1]), int(self._starts[1])
        self._padded = np.zeros(leaves, dtype=np.int64)
        self._padded[: len(self)] = self.thresholds
        self._low = np.full(cells, LOWEST, dtype=np.int64)
        self._high = np.full(cells, HIGHEST, dtype=np.int64)
        self._low[: len(self)], self._high[: len(self)] = centre - self.thresholds, centre + self.thresholds
        build(self._low, self._high, self._starts)
        self._found = np.zeros(cells, dtype=np.int64)
        self._counts = np.zeros(self._starts.size, dtype=np.int64)
        self._state = np.zeros(STATE_CELLS, dtype=np.int64)
        self._state[SUMMARISED] = 1
        self._indexes, self._fired = (np.empty(BATCH_PAIRS + leaves, dtype=np.int64) for _ in range(2))

    def __len__(self) -> int:
        """Return the number of distinct thresholds."""
        return int(self.thresholds.size)

    @property
    def centres(self) -> Ticks:
        """The value that each of `thresholds` fired for last."""
        return self._low[: len(self)] + self.thresholds

    @property
    def compared(self) -> int:
        """Number of blocks (32 thresholds or 32 blocks) compared with values so far."""
        return int(self._state[COMPARED])

    def offer(self, value: int) -> Ticks:
        """Return the thresholds that fire, ascending; the value becomes their centre."""
        tick = np.array([checked_tick(value)], dtype=np.int64)
        return next((fired for _, fired in self._batches(tick)), _EMPTY)

    def offer_many(self, values: Ticks) -> tuple[Ticks, Ticks]:
        """Return indexes of values, ascending, and the thresholds that they fire, ascending for each value.

        >>> IntervalIndex([2, 5], value=0).offer_many(np.array([1, 3, 9]))
        (array([1, 2, 2]), array([2, 2, 5]))
        """
        batches = list(self.offer_batches(values))
        if not batches:
            return _EMPTY, _EMPTY
        indexes, fired = zip(*batches, strict=True)
        return np.concatenate(indexes), np.concatenate(fired)

    def offer_batches(self, values: Ticks) -> Iterator[tuple[Ticks, Ticks]]:
        """Yield the pairs of `offer_many` in batches of limited size; values are processed as batches are consumed."""
        return self._batches(checked_ticks(values))

    def _batches(self, ticks: Ticks) -> Iterator[tuple[Ticks, Ticks]]:
        start = 0
        while start < ticks.size:
            self._state[NEXT] = start
            arrays = self._padded, self._low, self._high, self._starts, self._found, self._counts, self._state
            count = offer_values(ticks, *arrays, self._indexes, self._fired)
            start = int(self._state[NEXT])
            if count:
                yield self._indexes[:count].copy(), self._fired[:count].copy()
