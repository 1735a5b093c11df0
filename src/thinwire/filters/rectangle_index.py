"""Identical rectangles are one rectangle that many have asked for."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinwire.errors import ConfigError

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
