"""One pass over all pairs of points, each moved towards the distance that was measured between them."""

from __future__ import annotations

from typing import Any

import numpy as np

from thinwire.codec.kernels.jit_compiling import compiled


@compiled
def settle(points: Any, latencies: Any, order: Any, step: float) -> None:
    """Moves both points of every pair by half of what is wrong, and by a step at most.

    Pairs whose numbers have one sum, taken around, share no point: the order is one of sums.
    latencies: those that are not known are no numbers
    """
    count = points.shape[0]
    for around in order:
        for first in range((around + 1) // 2):
            pull(points, first, around - first, latencies[first, around - first], step)
        for first in range(around + 1, (around + count + 1) // 2):
            pull(points, first, around + count - first, latencies[first, around + count - first], step)


@compiled
def pull(points: Any, one: int, other: int, latency: float, step: float) -> None:
    """Moves two points along the line between them."""
    square = 0.0
    for lane in range(points.shape[1]):
        square += (points[one, lane] - points[other, lane]) ** 2
    told = np.sqrt(square)
    if told > 0.0 and not np.isnan(latency):
        share = min(max((latency - told) / 2, -step), step) / told
        for lane in range(points.shape[1]):
            move = share * (points[one, lane] - points[other, lane])
            points[one, lane] += move
            points[other, lane] -= move
