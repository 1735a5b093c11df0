"""Filtering strength: how long a predicate is expected to hold back, by its threshold and how its source moves."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

MEMORY = 64
"""changes over which a rate is averaged"""


class ChangeRate:
    """The mean absolute change from one value to the next, estimated while values pass; recent ones count more.

    >>> rate = ChangeRate()
    >>> for value in (10, 13, 10, 13): rate.observe(value)
    >>> rate.rate, rate.strength(6)
    (3.0, 2.0)
    """

    __slots__ = ("_last", "_seen", "memory", "rate")

    def __init__(self, memory: int = MEMORY) -> None:
        self.memory = memory
        self.rate = 0.0
        self._seen = 0
        self._last: int | None = None

    def observe(self, value: int) -> None:
        """A plain mean until the memory is full, then an exponentially weighted one."""
        if self._last is not None:
            self._seen = min(self._seen + 1, self.memory)
            self.rate += (abs(value - self._last) - self.rate) / self._seen
        self._last = value

    def strength(self, threshold: int) -> float:
        """rho = c / Delta; without end for a source that does not move."""
        return threshold / self.rate if self.rate else math.inf


def change_rates(values: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """The mean absolute change of each column; for ranking, never zero."""
    moved = np.abs(np.diff(values, axis=0)).mean(axis=0) if len(values) > 1 else np.zeros(values.shape[1])
    return np.maximum(moved, np.finfo(np.float64).tiny)
