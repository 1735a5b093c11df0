"""Kernels of the rectangle index: search in a packed tree of bounding boxes.

A box contains sixteen consecutive boxes of the level below. `low` and `high` contain all levels, rectangles first;
`starts` contains the start of each level and the end of the last.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from thinwire.codec.kernels.jit import compiled, part

FANOUT = 16
DEPTH = 16
"""levels of a tree of 2**63 rectangles"""


@compiled
def build_boxes(low: Any, high: Any, starts: Any) -> None:
    """Compute the bounding boxes of all levels above the rectangles."""
    for level in range(1, starts.size - 1):
        begin, end = starts[level - 1], starts[level]
        for box in range(end, starts[level + 1]):
            first = begin + FANOUT * (box - end)
            last = min(first + FANOUT, end)
            for axis in range(low.shape[1]):
                low[box, axis] = low[first:last, axis].min()
                high[box, axis] = high[first:last, axis].max()


@part
def contains(low: Any, high: Any, box: int, points: Any, point: int) -> bool:
    """Return whether a box contains a point; NaN is in no box."""
    for axis in range(points.shape[1]):
        value = points[point, axis]
        if not (low[box, axis] <= value <= high[box, axis]):
            return False
    return True


@compiled
def stab(points: Any, low: Any, high: Any, starts: Any, next_point: Any, matched: Any, rectangles: Any) -> int:
    """Write pairs to `matched` (points) and `rectangles`, starting at point `next_point[0]`; return their number.

    Stops before a point if its pairs might not fit; a point can match all rectangles. Sets `next_point[0]`.
    """
    count, max_matches, levels = 0, starts[1], starts.size - 1
    stack = np.empty(FANOUT * DEPTH, dtype=np.int64)
    stack_levels = np.empty(FANOUT * DEPTH, dtype=np.int64)
    point = next_point[0]
    while point < points.shape[0] and count + max_matches <= matched.size:
        top = 0
        for box in range(starts[levels - 1], starts[levels]):
            stack[top], stack_levels[top] = box, levels - 1
            top += 1
        while top > 0:
            top -= 1
            box, level = stack[top], stack_levels[top]
            if not contains(low, high, box, points, point):
                continue
            if level == 0:
                matched[count], rectangles[count] = point, box
                count += 1
                continue
            first = starts[level - 1] + FANOUT * (box - starts[level])
            for child in range(min(first + FANOUT, starts[level]) - 1, first - 1, -1):
                stack[top], stack_levels[top] = child, level - 1
                top += 1
        point += 1
    next_point[0] = point
    return count
