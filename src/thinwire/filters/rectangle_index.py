"""Identical rectangles are one rectangle that many have asked for.

An index of rectangles: which of them hold a point?

Rectangles of similar size that lie close together share a box, sixteen to a box, and so do boxes, up to one. A point
goes down only into boxes that hold it. Places count by rank, not by distance, so that a crowded corner of the space is
cut as finely as it is crowded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinwire.errors import ConfigError
from thinwire.filters.kernels.rectangle_search import FANOUT, stab, sum_up

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]

MAX_DIMENSIONS = 64


class Distinct(NamedTuple):
    """Rectangles without repetition.

    low, high: a row a rectangle
    multiplicity: how many were identical to each
    of: of each rectangle given, which of the distinct ones it is
    """

    low: Floats
    high: Floats
    multiplicity: Numbers
    of: Numbers


def distinct(low: NDArray[Any], high: NDArray[Any]) -> Distinct:
    """The distinct ones of some rectangles.

    >>> found = distinct([[0, 0], [1, 1], [0, 0]], [[2, 2], [3, 3], [2, 2]])
    >>> found.multiplicity.tolist(), found.of.tolist()
    ([2, 1], [0, 1, 0])
    """
    lows, highs = checked(low, high)
    if not len(lows):
        return Distinct(lows, highs, np.zeros(0, np.int64), np.zeros(0, np.int64))
    both = np.hstack([lows, highs]) + 0.0  # -0.0 and 0.0 are one number and two patterns of bits
    rows = np.ascontiguousarray(both).view(np.dtype((np.void, both.itemsize * both.shape[1]))).ravel()
    _, first, of, counts = np.unique(rows, return_index=True, return_inverse=True, return_counts=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    kept = first[order]
    return Distinct(lows[kept], highs[kept], counts[order].astype(np.int64), rank[of].astype(np.int64))


def checked(low: NDArray[Any], high: NDArray[Any]) -> tuple[Floats, Floats]:
    """Both corners as columns of numbers; infinite ones leave a side open. Refuses what is no rectangle."""
    lows, highs = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
    if lows.ndim != 2 or lows.shape != highs.shape or not 1 <= lows.shape[1] <= MAX_DIMENSIONS:
        detail = f"corners are two arrays of one shape: rectangles by dimensions, 1 to {MAX_DIMENSIONS}"
        raise ConfigError(detail, low=lows.shape, high=highs.shape)
    wrong = ~(lows <= highs)
    if wrong.any():
        row, axis = (int(place) for place in np.argwhere(wrong)[0])
        ends = {"low": float(lows[row, axis]), "high": float(highs[row, axis])}
        raise ConfigError("a rectangle's low end is above its high end, or no number", row=row, dimension=axis, **ends)
    return lows, highs


ROOM = 1 << 16
"""pairs of a batch, beside those that one more point can make"""


class RectangleIndex:
    """Rectangles of any dimension, both ends included; an infinite end leaves a side open.

    low, high: corners, a row a rectangle; identical ones are one inside

    >>> index = RectangleIndex([[0, 0], [1, 1], [0, 0]], [[2, 2], [3, 3], [2, 2]])
    >>> [found.tolist() for found in index.match([[0.5, 0.5], [3.0, 3.0], [9.0, 9.0]])]
    [[0, 1], [0, 1]]
    >>> index.distinct.multiplicity.tolist(), index.count([[0.5, 0.5], [2.0, 2.0]]).tolist()
    ([2, 1], [2, 3])
    """

    def __init__(self, low: NDArray[Any], high: NDArray[Any]) -> None:
        self.distinct: Distinct = distinct(low, high)
        self._order = _order(self.distinct.low, self.distinct.high)
        self._starts = _starts(len(self._order))
        shape = (int(self._starts[-1]), self.distinct.low.shape[1])
        self._low, self._high = np.empty(shape), np.empty(shape)
        self._low[: len(self._order)] = self.distinct.low[self._order]
        self._high[: len(self._order)] = self.distinct.high[self._order]
        sum_up(self._low, self._high, self._starts)

    def __len__(self) -> int:
        """How many distinct rectangles there are."""
        return len(self._order)

    def match(self, points: NDArray[Any]) -> tuple[Numbers, Numbers]:
        """Places of points, ascending, and the distinct rectangles that hold them, in no order of their own."""
        pieces = list(self.match_batches(points))
        if not pieces:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        events, found = zip(*pieces, strict=True)
        return np.concatenate(events), np.concatenate(found)

    def match_batches(self, points: NDArray[Any]) -> Iterator[tuple[Numbers, Numbers]]:
        """The same in pieces whose size has a limit, whatever is found."""
        given = self._checked(points)
        if not len(self):
            return
        events, found = (np.empty(ROOM + len(self), dtype=np.int64) for _ in range(2))
        at = np.zeros(1, dtype=np.int64)
        while at[0] < len(given):
            count = stab(given, self._low, self._high, self._starts, at, events, found)
            if count:
                yield events[:count].copy(), self._order[found[:count]]

    def count(self, points: NDArray[Any]) -> Numbers:
        """For every point how many of the rectangles given hold it, identical ones included."""
        sums = np.zeros(len(self._checked(points)), dtype=np.int64)
        for events, found in self.match_batches(points):
            np.add.at(sums, events, self.distinct.multiplicity[found])
        return sums

    def _checked(self, points: NDArray[Any]) -> Floats:
        given = np.ascontiguousarray(points, dtype=np.float64)
        dimensions = self.distinct.low.shape[1]
        if given.ndim != 2 or given.shape[1] != dimensions:
            raise ConfigError("points have as many columns as rectangles", shape=given.shape, dimensions=dimensions)
        return given


def _starts(count: int) -> Numbers:
    """Where each level begins: the rectangles, boxes of sixteen, boxes of those, up to one of at most sixteen."""
    starts = [0, count]
    while count > FANOUT:
        count = -(-count // FANOUT)
        starts.append(starts[-1] + count)
    return np.array(starts, dtype=np.int64)


def _order(low: Floats, high: Floats) -> Numbers:
    """Rectangles by size, coarsely, and within a size along a curve that keeps close ones together."""
    if not len(low):
        return np.zeros(0, dtype=np.int64)
    finite = np.nan_to_num(np.stack([low, high]), posinf=np.finfo(float).max / 4, neginf=-np.finfo(float).max / 4)
    sizes = np.log2(np.maximum(finite[1] - finite[0], np.finfo(float).tiny)).sum(axis=1) / low.shape[1]
    curve = _curve(np.stack([_ranks(column) for column in (finite[0] / 2 + finite[1] / 2).T], axis=1))
    return np.lexsort((curve, np.floor(sizes / 2.0))).astype(np.int64)


def _ranks(values: Floats) -> NDArray[np.uint64]:
    """The rank of each value, equal ones alike, as sixteen bits."""
    known, place = np.unique(values, return_inverse=True)
    return (place.astype(np.float64) * (65_535 / max(len(known) - 1, 1))).astype(np.uint64)


def _curve(ranks: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Bits of all dimensions in turn, the highest first (Morton, 1966)."""
    dimensions = ranks.shape[1]
    bits = max(1, min(16, 64 // dimensions))
    found = np.zeros(len(ranks), dtype=np.uint64)
    for bit in range(bits):
        for axis in range(min(dimensions, 64)):
            found = (found << np.uint64(1)) | ((ranks[:, axis] >> np.uint64(15 - bit)) & np.uint64(1))
    return found
