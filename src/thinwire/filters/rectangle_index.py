"""Index of rectangles: find those that contain a point.

A packed tree with a fan-out of sixteen. Rectangles are grouped by size and sorted along a Morton curve of their
centres, by rank instead of coordinate, so that dense regions are divided as finely as sparse ones. Identical rectangles
are stored once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinwire.errors import ConfigError
from thinwire.filters.kernels.rectangle_search import FANOUT, build_boxes, stab

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BATCH_PAIRS = 1 << 16
"""a batch ends after the point with which it reaches this number of pairs"""


class DistinctRectangles(NamedTuple):
    """Rectangles without duplicates.

    low, high: corners, one row per rectangle
    multiplicity: number of given rectangles that are equal to each
    row_of: for each given rectangle, the row of the distinct one that is equal to it
    """

    low: Floats
    high: Floats
    multiplicity: Ints
    row_of: Ints


def find_distinct(low: NDArray[Any], high: NDArray[Any]) -> DistinctRectangles:
    """Return the distinct rectangles, in the order of their first occurrence.

    >>> found = find_distinct([[0, 0], [1, 1], [0, 0]], [[2, 2], [3, 3], [2, 2]])
    >>> found.multiplicity.tolist(), found.row_of.tolist()
    ([2, 1], [0, 1, 0])
    """
    lows, highs = to_corners(low, high)
    if not len(lows):
        return DistinctRectangles(lows, highs, np.zeros(0, np.int64), np.zeros(0, np.int64))
    both = np.hstack([lows, highs]) + 0.0  # -0.0 equals 0.0 but has another bit pattern
    keys = np.ascontiguousarray(both).view(np.dtype((np.void, both.itemsize * both.shape[1]))).ravel()
    _, first, of, counts = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    rows = first[order]
    return DistinctRectangles(lows[rows], highs[rows], counts[order].astype(np.int64), rank[of].astype(np.int64))


def to_corners(low: NDArray[Any], high: NDArray[Any]) -> tuple[Floats, Floats]:
    """Return both corners as doubles; raise `ConfigError` for rows that are not rectangles."""
    lows, highs = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
    if lows.ndim != 2 or lows.shape != highs.shape or not lows.shape[1]:
        detail = "corners must be two arrays of one shape: rectangles by dimensions"
        raise ConfigError(detail, low=lows.shape, high=highs.shape)
    wrong = ~(lows <= highs)
    if wrong.any():
        row, axis = (int(index) for index in np.argwhere(wrong)[0])
        ends = {"low": float(lows[row, axis]), "high": float(highs[row, axis])}
        raise ConfigError("the low end of a rectangle is above its high end or NaN", row=row, dimension=axis, **ends)
    return lows, highs


class RectangleIndex:
    """Closed rectangles of any dimension; infinite ends are allowed.

    low, high: corners, one row per rectangle

    >>> index = RectangleIndex([[0, 0], [1, 1], [0, 0]], [[2, 2], [3, 3], [2, 2]])
    >>> [found.tolist() for found in index.match([[0.5, 0.5], [3.0, 3.0], [9.0, 9.0]])]
    [[0, 1], [0, 1]]
    >>> index.distinct.multiplicity.tolist()
    [2, 1]
    """

    def __init__(self, low: NDArray[Any], high: NDArray[Any]) -> None:
        self.distinct: DistinctRectangles = find_distinct(low, high)
        self._order = _sort_for_tree(self.distinct.low, self.distinct.high)
        self._starts = _level_starts(len(self._order))
        shape = (int(self._starts[-1]), self.distinct.low.shape[1])
        self._low, self._high = np.empty(shape), np.empty(shape)
        self._low[: len(self._order)] = self.distinct.low[self._order]
        self._high[: len(self._order)] = self.distinct.high[self._order]
        build_boxes(self._low, self._high, self._starts)

    def __len__(self) -> int:
        """Return the number of distinct rectangles."""
        return len(self._order)

    def match(self, points: NDArray[Any]) -> tuple[Ints, Ints]:
        """Return indexes of points, ascending, and of the distinct rectangles that contain them."""
        pieces = list(self.match_batches(points))
        if not pieces:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        matched, rectangles = zip(*pieces, strict=True)
        return np.concatenate(matched), np.concatenate(rectangles)

    def match_batches(self, points: NDArray[Any]) -> Iterator[tuple[Ints, Ints]]:
        """Yield the pairs of `match` in batches of limited size."""
        given = np.ascontiguousarray(points, dtype=np.float64)
        dimensions = self.distinct.low.shape[1]
        if given.ndim != 2 or given.shape[1] != dimensions:
            raise ConfigError("points must have one column per dimension", shape=given.shape, dimensions=dimensions)
        if not len(self):
            return
        matched, rectangles = (np.empty(BATCH_PAIRS + len(self), dtype=np.int64) for _ in range(2))
        next_point = np.zeros(1, dtype=np.int64)  # advanced by `stab`
        while next_point[0] < len(given):
            count = stab(given, self._low, self._high, self._starts, next_point, matched, rectangles)
            if count:
                yield matched[:count].copy(), self._order[rectangles[:count]]


def _level_starts(count: int) -> Ints:
    """Return the start of each level: rectangles, then boxes of sixteen, up to at most sixteen boxes; then the end."""
    starts = [0, count]
    while count > FANOUT:
        count = -(-count // FANOUT)
        starts.append(starts[-1] + count)
    return np.array(starts, dtype=np.int64)


def _sort_for_tree(low: Floats, high: Floats) -> Ints:
    """Return the order of rectangles by mean side, in powers of four, then along the Morton curve of the centres."""
    if not len(low):
        return np.zeros(0, dtype=np.int64)
    finite = np.nan_to_num(np.stack([low, high]), posinf=np.finfo(float).max / 4, neginf=-np.finfo(float).max / 4)
    log_sides = np.log2(np.maximum(finite[1] - finite[0], np.finfo(float).tiny)).sum(axis=1) / low.shape[1]
    curve = _morton_codes(np.stack([_ranks(column) for column in (finite[0] / 2 + finite[1] / 2).T], axis=1))
    return np.lexsort((curve, np.floor(log_sides / 2.0))).astype(np.int64)


def _ranks(values: Floats) -> NDArray[np.uint64]:
    """Return the rank of each value among the distinct values, scaled to sixteen bits."""
    known, rank = np.unique(values, return_inverse=True)
    return (rank.astype(np.float64) * (65_535 / max(len(known) - 1, 1))).astype(np.uint64)


def _morton_codes(ranks: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the Morton code of each row: the bits of the first 64 dimensions, interleaved, highest first."""
    dimensions = ranks.shape[1]
    bits = max(1, min(16, 64 // dimensions))
    codes = np.zeros(len(ranks), dtype=np.uint64)
    for bit in range(bits):
        for axis in range(min(dimensions, 64)):
            codes = (codes << np.uint64(1)) | ((ranks[:, axis] >> np.uint64(15 - bit)) & np.uint64(1))
    return codes
