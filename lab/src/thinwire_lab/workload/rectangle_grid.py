"""Grids of rectangles: which of them hold a point? Quicker than a tree where all sides are finite and dimensions few.

Rectangles of similar sides share a grid whose cells are a little wider than any of them, so that a point looks at its
own cell and those before it. Rectangles of other sides have grids of their own, unless they are so few that looking
through them in wider cells costs less than another grid.

Looking for the rectangles that hold a point in the cells where they may begin.

Rectangles of a grid stand in the order of the cells in which their low corners lie, and none is wider than a cell:
those that hold a point begin in its cell or in the one before, along every axis. Along the last axis these two lie side
by side, so what is looked through is a few runs of neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinwire.codec.kernels.jit import compiled, part
from thinwire.errors import ConfigError
from thinwire.filters.kernels.rectangle_search import holds
from thinwire.filters.rectangle_index import BATCH_PAIRS, Distinct, Floats, Numbers, RectangleIndex, distinct


@part
def around(points: Any, point: int, origin: Any, scale: Any, cells: Any, grid: int, first: Any, last: Any) -> bool:
    """The cells of a grid in which rectangles that hold a point may begin, along every axis; False for none."""
    for axis in range(points.shape[1]):
        at = (points[point, axis] - origin[grid, axis]) * scale[grid, axis]
        if not (0.0 <= at < cells[grid, axis] + 1.0):
            return False
        cell = int(at)
        first[axis], last[axis] = max(cell - 1, 0), min(cell, cells[grid, axis] - 1)
        if first[axis] > last[axis]:
            return False
    return True


@part
def advance(place: Any, first: Any, last: Any) -> bool:
    """The next combination of cells of all axes but the last; False after the last one."""
    for axis in range(place.size - 2, -1, -1):
        if place[axis] < last[axis]:
            place[axis] += 1
            return True
        place[axis] = first[axis]
    return False


@compiled
def look(
    points: Any,
    low: Any,
    high: Any,
    origin: Any,
    scale: Any,
    cells: Any,
    base: Any,
    starts: Any,
    at: Any,
    events: Any,
    found: Any,
) -> int:
    """Fills `events` and `found` with pairs of a point and a rectangle that holds it, from point `at[0]` on.

    Ends, with `at[0]` moved on, where another point might find more than there is room for.

    origin, scale, cells: of each grid and axis where it begins, cells a unit, and how many there are
    base: where the cells of each grid begin in `starts`; starts: of each cell the first rectangle
    """
    axes = points.shape[1]
    first, last, place = np.empty(axes, np.int64), np.empty(axes, np.int64), np.empty(axes, np.int64)
    count = 0
    while at[0] < points.shape[0] and count + low.shape[0] <= events.size:
        point = at[0]
        for grid in range(origin.shape[0]):
            more = around(points, point, origin, scale, cells, grid, first, last)
            place[:] = first
            while more:
                row = 0
                for axis in range(axes - 1):
                    row = (row + place[axis]) * cells[grid, axis + 1]
                begin, end = starts[base[grid] + row + first[axes - 1]], starts[base[grid] + row + last[axes - 1] + 1]
                for box in range(begin, end):
                    if holds(low, high, box, points, point):
                        events[count], found[count] = point, box
                        count += 1
                more = advance(place, first, last)
        at[0] += 1
    return count


MOST_DIMENSIONS = 6
"""of a grid: a point looks at two cells along each"""
POWERS = 2
"""powers of two by which sides of one grid may differ"""
A_GRID = 200.0
"""comparisons that cost as much as another grid: those go through memory in order, a grid jumps about in it"""
MOST_GRIDS = 64
CELLS = 4
"""of a grid for each of its rectangles, at most"""
WIDER = 1.01
"""a cell than the longest side, so that rounding never puts an end two cells away"""


class RectangleGrid:
    """The same answers as `RectangleIndex`, for rectangles with finite sides.

    >>> grid = RectangleGrid([[0, 0], [1, 1], [0, 0]], [[2, 2], [3, 3], [2, 2]])
    >>> [found.tolist() for batch in grid.match_batches([[0.5, 0.5], [3.0, 3.0], [9.0, 9.0]]) for found in batch]
    [[0, 1], [0, 1]]
    """

    def __init__(self, low: NDArray[Any], high: NDArray[Any]) -> None:
        self.distinct: Distinct = distinct(low, high)
        if not suits(self.distinct.low, self.distinct.high):
            raise ConfigError("a grid needs finite sides, and few dimensions: use an index", most=MOST_DIMENSIONS)
        whole = self.distinct
        families = _families(whole.low, whole.high)
        pieces = [_Grid.of(whole.low, whole.high, members) for members in families]
        self._order = np.concatenate([piece.order for piece in pieces]) if pieces else np.zeros(0, np.int64)
        self._low, self._high = whole.low[self._order], whole.high[self._order]
        axes = whole.low.shape[1]
        self._origin = np.array([piece.origin for piece in pieces]).reshape(-1, axes)
        self._scale = np.array([piece.scale for piece in pieces]).reshape(-1, axes)
        self._cells = np.array([piece.cells for piece in pieces], dtype=np.int64).reshape(-1, axes)
        lengths = [len(piece.starts) for piece in pieces]
        self._base = np.cumsum([0, *lengths])[:-1].astype(np.int64)
        before = np.cumsum([0, *(len(piece.order) for piece in pieces)])
        shifted = [piece.starts + shift for piece, shift in zip(pieces, before, strict=False)]
        self._starts = np.concatenate(shifted) if pieces else np.zeros(0, np.int64)

    def __len__(self) -> int:
        """How many distinct rectangles there are."""
        return len(self._order)

    def match_batches(self, points: NDArray[Any]) -> Iterator[tuple[Numbers, Numbers]]:
        """Places of points, ascending, and the distinct rectangles that hold them, in pieces of limited size."""
        given = np.ascontiguousarray(points, dtype=np.float64)
        if given.ndim != 2 or given.shape[1] != self._low.shape[1]:
            raise ConfigError("points have as many columns as rectangles", shape=given.shape)
        if not len(self):
            return
        events, found = (np.empty(BATCH_PAIRS + len(self), dtype=np.int64) for _ in range(2))
        at = np.zeros(1, dtype=np.int64)
        grids = (self._origin, self._scale, self._cells, self._base, self._starts)
        while at[0] < len(given):
            count = look(given, self._low, self._high, *grids, at, events, found)
            if count:
                yield events[:count].copy(), self._order[found[:count]]


def quickest(low: NDArray[Any], high: NDArray[Any]) -> RectangleGrid | RectangleIndex:
    """A grid where these rectangles suit one, else an index."""
    return RectangleGrid(low, high) if suits(np.asarray(low), np.asarray(high)) else RectangleIndex(low, high)


def suits(low: NDArray[Any], high: NDArray[Any]) -> bool:
    """Can these rectangles be put into grids?"""
    sides = np.isfinite(low).all() and np.isfinite(high).all() and np.isfinite(high - low).all()
    return bool(low.ndim == 2 and 1 <= low.shape[1] <= MOST_DIMENSIONS and sides)


class _Grid(NamedTuple):
    """One grid: its rectangles in the order of their cells, and where each cell begins among them."""

    order: Numbers
    origin: Floats
    scale: Floats
    cells: Numbers
    starts: Numbers

    @classmethod
    def of(cls, low: Floats, high: Floats, members: Numbers) -> _Grid:
        own = low[members]
        origin, reach = own.min(axis=0), np.ptp(own, axis=0)
        widest = np.maximum((high[members] - own).max(axis=0) * WIDER, np.finfo(float).tiny)
        scale = 1.0 / np.maximum(widest, np.maximum(reach, 1e-300) / (CELLS * members.size))
        # More cells than rectangles would cost memory and find nothing.
        excess = np.prod(reach * scale + 1.0) / (CELLS * members.size)
        scale = scale / max(excess, 1.0) ** (1.0 / low.shape[1]) if excess > 1.0 else scale
        cells = np.floor(reach * scale).astype(np.int64) + 1
        flat = np.ravel_multi_index(tuple(np.floor((own - origin) * scale).astype(np.int64).T), tuple(cells))
        order = np.argsort(flat, kind="stable")
        starts = np.append(0, np.cumsum(np.bincount(flat, minlength=int(np.prod(cells)))))
        return cls(members[order], origin, scale, cells, starts)


def _families(low: Floats, high: Floats) -> list[Numbers]:
    """The rectangles of each grid, by the powers of two of their sides."""
    if not len(low):
        return []
    powers = np.frexp(np.maximum(high - low, np.finfo(float).tiny))[1] // POWERS
    least = powers.min(axis=0)
    shape = tuple((powers.max(axis=0) - least + 1).tolist())
    keys, of, counts = np.unique(
        np.ravel_multi_index(tuple((powers - least).T), shape), return_inverse=True, return_counts=True
    )
    kinds = np.stack(np.unravel_index(keys, shape), axis=1) + least
    target = _joined(kinds, counts, np.ptp(low, axis=0))
    if (target == target[0]).all():
        return [np.arange(len(low))]
    return [np.flatnonzero(target[of] == kind) for kind in np.unique(target)]


def _joined(kinds: NDArray[Any], counts: NDArray[Any], reach: Floats) -> Numbers:
    """Of each kind the kind whose grid it shares: a larger one, where its members are few."""
    target, many = np.arange(len(kinds)), counts.astype(np.float64)
    left = len(kinds)
    for kind in np.argsort(counts, kind="stable"):
        larger = np.flatnonzero((kinds >= kinds[kind]).all(axis=1) & (target == np.arange(len(kinds))))
        larger = larger[larger != kind]
        if larger.size:
            wide = np.minimum(2.0 ** (POWERS * (kinds[larger] + 1.0)) / np.maximum(reach, 1e-300), 1.0)
            looked = many[kind] * wide.prod(axis=1)
            best = int(np.argmin(looked))
            if looked[best] < A_GRID or left > MOST_GRIDS:
                target[target == kind] = larger[best]
                many[larger[best]] += many[kind]
                left -= 1
    return target
