"""Grids of rectangles: an index that is faster than a tree for finite sides and few dimensions.

Rectangles of similar sides share a grid whose cells are slightly wider than the widest of them. The rectangles that
contain a point therefore begin in the cell of the point or in the previous one, along each axis. Rectangles are sorted
by the cell of their low corner, so that along the last axis these two cells are a contiguous range. Rectangles of other
sizes have separate grids, unless they are so few that scanning them in wider cells costs less than another grid.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinwire.codec.kernels.jit import compiled, part
from thinwire.errors import ConfigError
from thinwire.filters.kernels.rectangle_search import contains
from thinwire.filters.rectangle_index import BATCH_PAIRS, Floats, Ints, RectangleIndex, find_distinct


@part
def around(points: Any, point: int, origin: Any, scale: Any, cells: Any, grid: int, first: Any, last: Any) -> bool:
    """Set the range of cells in which rectangles around a point may begin. Return False for an empty range."""
    for axis in range(points.shape[1]):
        position = (points[point, axis] - origin[grid, axis]) * scale[grid, axis]
        if not (0.0 <= position < cells[grid, axis] + 1.0):
            return False
        cell = int(position)
        first[axis], last[axis] = max(cell - 1, 0), min(cell, cells[grid, axis] - 1)
        if first[axis] > last[axis]:
            return False
    return True


@part
def advance(cells: Any, first: Any, last: Any) -> bool:
    """Advance to the next combination of cells of all axes but the last. Return False after the last combination."""
    for axis in range(cells.size - 2, -1, -1):
        if cells[axis] < last[axis]:
            cells[axis] += 1
            return True
        cells[axis] = first[axis]
    return False


@compiled
def find_pairs(
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
    rectangles: Any,
) -> int:
    """Fill `events` and `rectangles` with pairs of a point and a rectangle that contains it, from point `at[0]` on.

    Stop, with `at[0]` advanced, when the results of another point might exceed the capacity.

    origin, scale, cells: start, cells per unit and number of cells, by grid and axis
    base: start of the cells of each grid in `starts`; starts: first rectangle of each cell
    """
    axes = points.shape[1]
    first, last, combination = np.empty(axes, np.int64), np.empty(axes, np.int64), np.empty(axes, np.int64)
    count = 0
    while at[0] < points.shape[0] and count + low.shape[0] <= events.size:
        point = at[0]
        for grid in range(origin.shape[0]):
            has_cells = around(points, point, origin, scale, cells, grid, first, last)
            combination[:] = first
            while has_cells:
                row = 0
                for axis in range(axes - 1):
                    row = (row + combination[axis]) * cells[grid, axis + 1]
                begin, end = starts[base[grid] + row + first[axes - 1]], starts[base[grid] + row + last[axes - 1] + 1]
                for box in range(begin, end):
                    if contains(low, high, box, points, point):
                        events[count], rectangles[count] = point, box
                        count += 1
                has_cells = advance(combination, first, last)
        at[0] += 1
    return count


MAX_DIMENSIONS = 6
"""of a grid: a lookup visits two cells per dimension"""
POWERS = 2
"""powers of two by which the sides of a grid may differ"""
GRID_COST = 200.0
"""cost of another grid in comparisons; these read memory sequentially, a grid lookup does not"""
MAX_GRIDS = 64
CELLS_PER_RECTANGLE = 4
"""maximum of a grid"""
CELL_MARGIN = 1.01
"""cell width in units of the longest side, so that rounding never moves an end by two cells"""


class RectangleGrid:
    """Finds the rectangles that contain points, as `RectangleIndex` does, for rectangles with finite sides.

    >>> grid = RectangleGrid([[0, 0], [1, 1], [0, 0]], [[2, 2], [3, 3], [2, 2]])
    >>> [rows.tolist() for batch in grid.match_batches([[0.5, 0.5], [3.0, 3.0], [9.0, 9.0]]) for rows in batch]
    [[0, 1], [0, 1]]
    """

    def __init__(self, low: NDArray[Any], high: NDArray[Any]) -> None:
        self.distinct = find_distinct(low, high)
        if not is_supported(self.distinct.low, self.distinct.high):
            raise ConfigError("a grid needs finite sides and few dimensions; use an index", limit=MAX_DIMENSIONS)
        rectangles = self.distinct
        families = _families(rectangles.low, rectangles.high)
        grids = [_Grid.of(rectangles.low, rectangles.high, members) for members in families]
        self._order = np.concatenate([grid.order for grid in grids]) if grids else np.zeros(0, np.int64)
        self._low, self._high = rectangles.low[self._order], rectangles.high[self._order]
        axes = rectangles.low.shape[1]
        self._origin = np.array([grid.origin for grid in grids]).reshape(-1, axes)
        self._scale = np.array([grid.scale for grid in grids]).reshape(-1, axes)
        self._cells = np.array([grid.cells for grid in grids], dtype=np.int64).reshape(-1, axes)
        lengths = [len(grid.starts) for grid in grids]
        self._base = np.cumsum([0, *lengths])[:-1].astype(np.int64)
        offsets = np.cumsum([0, *(len(grid.order) for grid in grids)])
        shifted = [grid.starts + offset for grid, offset in zip(grids, offsets, strict=False)]
        self._starts = np.concatenate(shifted) if grids else np.zeros(0, np.int64)

    def __len__(self) -> int:
        """Return the number of distinct rectangles."""
        return len(self._order)

    def match_batches(self, points: NDArray[Any]) -> Iterator[tuple[Ints, Ints]]:
        """Yield indexes of points, ascending, and of the distinct rectangles that contain them, in limited batches."""
        checked = np.ascontiguousarray(points, dtype=np.float64)
        if checked.ndim != 2 or checked.shape[1] != self._low.shape[1]:
            raise ConfigError("points must have as many columns as rectangles", shape=checked.shape)
        if not len(self):
            return
        events, boxes = (np.empty(BATCH_PAIRS + len(self), dtype=np.int64) for _ in range(2))
        at = np.zeros(1, dtype=np.int64)
        grids = (self._origin, self._scale, self._cells, self._base, self._starts)
        while at[0] < len(checked):
            count = find_pairs(checked, self._low, self._high, *grids, at, events, boxes)
            if count:
                yield events[:count].copy(), self._order[boxes[:count]]


def fastest_index(low: NDArray[Any], high: NDArray[Any]) -> RectangleGrid | RectangleIndex:
    """Return a grid if it supports these rectangles, else an index."""
    return RectangleGrid(low, high) if is_supported(np.asarray(low), np.asarray(high)) else RectangleIndex(low, high)


def is_supported(low: NDArray[Any], high: NDArray[Any]) -> bool:
    """Return whether a grid supports these rectangles."""
    sides = np.isfinite(low).all() and np.isfinite(high).all() and np.isfinite(high - low).all()
    return bool(low.ndim == 2 and 1 <= low.shape[1] <= MAX_DIMENSIONS and sides)


class _Grid(NamedTuple):
    """One grid: its rectangles sorted by cell, and the start of each cell among them."""

    order: Ints
    origin: Floats
    scale: Floats
    cells: Ints
    starts: Ints

    @classmethod
    def of(cls, low: Floats, high: Floats, members: Ints) -> _Grid:
        corners = low[members]
        origin, extent = corners.min(axis=0), np.ptp(corners, axis=0)
        widest = np.maximum((high[members] - corners).max(axis=0) * CELL_MARGIN, np.finfo(float).tiny)
        scale = 1.0 / np.maximum(widest, np.maximum(extent, 1e-300) / (CELLS_PER_RECTANGLE * members.size))
        # More cells than rectangles cost memory without benefit.
        excess = np.prod(extent * scale + 1.0) / (CELLS_PER_RECTANGLE * members.size)
        scale = scale / max(excess, 1.0) ** (1.0 / low.shape[1]) if excess > 1.0 else scale
        cells = np.floor(extent * scale).astype(np.int64) + 1
        flat = np.ravel_multi_index(tuple(np.floor((corners - origin) * scale).astype(np.int64).T), tuple(cells))
        order = np.argsort(flat, kind="stable")
        starts = np.append(0, np.cumsum(np.bincount(flat, minlength=int(np.prod(cells)))))
        return cls(members[order], origin, scale, cells, starts)


def _families(low: Floats, high: Floats) -> list[Ints]:
    """Return the rectangles of each grid, grouped by the powers of two of their sides."""
    if not len(low):
        return []
    powers = np.frexp(np.maximum(high - low, np.finfo(float).tiny))[1] // POWERS
    smallest = powers.min(axis=0)
    shape = tuple((powers.max(axis=0) - smallest + 1).tolist())
    keys, of, counts = np.unique(
        np.ravel_multi_index(tuple((powers - smallest).T), shape), return_inverse=True, return_counts=True
    )
    kinds = np.stack(np.unravel_index(keys, shape), axis=1) + smallest
    target = _joined(kinds, counts, np.ptp(low, axis=0))
    if (target == target[0]).all():
        return [np.arange(len(low))]
    return [np.flatnonzero(target[of] == kind) for kind in np.unique(target)]


def _joined(kinds: NDArray[Any], counts: NDArray[Any], extent: Floats) -> Ints:
    """Return for each kind of rectangles the kind whose grid it shares: a larger one if its members are few."""
    target, sizes = np.arange(len(kinds)), counts.astype(np.float64)
    grids = len(kinds)
    for kind in np.argsort(counts, kind="stable"):
        larger = np.flatnonzero((kinds >= kinds[kind]).all(axis=1) & (target == np.arange(len(kinds))))
        larger = larger[larger != kind]
        if larger.size:
            shares = np.minimum(2.0 ** (POWERS * (kinds[larger] + 1.0)) / np.maximum(extent, 1e-300), 1.0)
            scanned = sizes[kind] * shares.prod(axis=1)
            best = int(np.argmin(scanned))
            if scanned[best] < GRID_COST or grids > MAX_GRIDS:
                target[target == kind] = larger[best]
                sizes[larger[best]] += sizes[kind]
                grids -= 1
    return target
