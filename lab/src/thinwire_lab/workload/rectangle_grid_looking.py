"""Looking for the rectangles that hold a point in the cells where they may begin.

Rectangles of a grid stand in the order of the cells in which their low corners lie, and none is wider than a cell:
those that hold a point begin in its cell or in the one before, along every axis. Along the last axis these two lie side
by side, so what is looked through is a few runs of neighbours.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from thinwire.codec.kernels.jit import compiled, part
from thinwire.filters.kernels.rectangle_search import holds


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
