"""Histogram of latencies or errors of any number of events, in constant memory.

Each bucket is a tenth wider than the one below it, so its middle is within `ACCURACY` of every value in it. Only
buckets with values are stored, at most 292.

>>> latency = Histogram()
>>> for milliseconds in range(1, 101):
...     latency.add(milliseconds / 1000)
>>> latency.count, latency.least, latency.most
(100, 0.001, 0.1)
>>> round(latency.quantile(0.5), 3), latency.quantile(1.0)
(0.05, 0.1)
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np
from numpy.typing import ArrayLike

from thinwire.errors import LedgerError

FLOOR, CEILING = 1e-6, 1e6
ACCURACY = 0.05
"""largest relative error of a quantile; below FLOOR the absolute error is at most FLOOR"""

_WIDTH = 1.1
_LOG_WIDTH = math.log(_WIDTH)
TOP = math.ceil(math.log(CEILING / FLOOR) / _LOG_WIDTH) + 1
"""the bucket of values above CEILING; bucket 0 has values up to FLOOR"""


@dataclass(repr=False, slots=True)
class Histogram:
    """Counts of non-negative values in buckets of equal relative width.

    buckets: number of values by bucket; least, most: the smallest and the largest value, exactly
    """

    buckets: Counter[int] = field(default_factory=Counter)
    least: float = math.inf
    most: float = -math.inf

    @property
    def count(self) -> int:
        return self.buckets.total()

    def add(self, value: float) -> None:
        if not value >= 0:
            raise LedgerError("a histogram counts non-negative numbers", value=value)
        self.buckets[_bucket(value)] += 1
        self.least = min(self.least, value)
        self.most = max(self.most, value)

    def add_many(self, values: ArrayLike) -> None:
        """Count a column of values."""
        column = np.asarray(values, dtype=np.float64).ravel()
        if not column.size:
            return
        if not bool((column >= 0).all()):
            raise LedgerError("a histogram counts non-negative numbers", value=float(column.min()))
        self.buckets.update(_buckets(column).tolist())
        self.least = min(self.least, float(column.min()))
        self.most = max(self.most, float(column.max()))

    def quantile(self, share: float) -> float | None:
        """Return the smallest value that at least this share of the values does not exceed; None without values.

        >>> Histogram().quantile(0.5)
        """
        if not 0 <= share <= 1:
            raise LedgerError("a share is a number from 0 to 1", share=share)
        count = self.count
        if not count:
            return None
        rank = max(1, math.ceil(share * count))
        return self.least if rank == 1 else self.most if rank == count else self._estimate(rank)

    def _estimate(self, rank: int) -> float:
        """Return the middle of the bucket that contains the value of this rank."""
        buckets = sorted(self.buckets)
        bucket = buckets[bisect_left(list(accumulate(self.buckets[bucket] for bucket in buckets)), rank)]
        # The last bucket has no upper end and therefore no middle.
        middle = self.most if bucket == TOP else 2 * FLOOR * _WIDTH**bucket / (_WIDTH + 1) if bucket else 0.0
        return float(min(max(middle, self.least), self.most))

    def __repr__(self) -> str:
        return f"Histogram(count={self.count}, least={self.least}, most={self.most})"


def merge_histograms(histograms: Iterable[Histogram]) -> Histogram:
    """Return the sum of histograms.

    >>> one, other = Histogram(), Histogram()
    >>> one.add(1.0); other.add(3.0)
    >>> merge_histograms([one, other])
    Histogram(count=2, least=1.0, most=3.0)
    """
    total = Histogram()
    for histogram in histograms:
        total.buckets.update(histogram.buckets)
        total.least = min(total.least, histogram.least)
        total.most = max(total.most, histogram.most)
    return total


def _bucket(value: float) -> int:
    if value <= FLOOR:
        return 0
    return TOP if value > CEILING else math.ceil(math.log(value / FLOOR) / _LOG_WIDTH)


def _buckets(column: np.ndarray[tuple[int], np.dtype[np.float64]]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    inside = np.clip(column, FLOOR, CEILING)
    indexes = np.ceil(np.log(inside / FLOOR) / _LOG_WIDTH).astype(np.int64)
    return np.where(column > CEILING, TOP, indexes)
