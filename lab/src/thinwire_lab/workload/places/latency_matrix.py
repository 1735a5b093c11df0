"""Matrices of latencies as they are measured: some entries missing, the two directions of a pair not alike."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinwire_lab.errors import SummaryError
from thinwire_lab.workload.random_rows import Floats

MAX_NODES = 20_000
"""a matrix of more is above 3 GB"""


class Accuracy(NamedTuple):
    """How far distances of points are from latencies: relative errors over all pairs that were measured, and stress.

    stress: what is left of the squared latencies, as a share of them, under the root (Kruskal, 1964)
    """

    median: float
    p90: float
    stress: float
    pairs: int


def symmetric(matrix: NDArray[Any]) -> Floats:
    """One latency a pair: the mean of both directions, or the one there is; NaN where neither was measured.

    An entry that is negative, zero off the diagonal, or not a finite number counts as missing.

    >>> symmetric(np.array([[0, 8, np.nan], [10, 0, 5], [-1, np.nan, 0]])).tolist()
    [[0.0, 9.0, nan], [9.0, 0.0, 5.0], [nan, 5.0, 0.0]]
    """
    found = _square(matrix)
    known = np.isfinite(found) & (found > 0)
    there = known.astype(np.int64) + known.T
    total = np.where(known, found, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        both = (total + total.T) / there
    np.fill_diagonal(both, 0.0)
    lonely = np.flatnonzero(there.sum(axis=1) - 2 * np.diag(known) == 0)
    if lonely.size and len(found) > 1:
        raise SummaryError("a node without any latency", table="latencies", row=int(lonely[0]) + 1)
    return np.asarray(both)


def completed(latencies: Floats) -> Floats:
    """The same with what is missing replaced by the shortest way around, or the longest of all where there is none."""
    if not np.isnan(latencies).any():
        return latencies
    ways = np.where(np.isnan(latencies), np.inf, latencies)
    for by in range(len(ways)):
        np.minimum(ways, ways[:, by, None] + ways[by], out=ways)
    filled = np.where(np.isnan(latencies), ways, latencies)
    return np.where(np.isfinite(filled), filled, filled[np.isfinite(filled)].max())


def accuracy(points: Floats, latencies: Floats) -> Accuracy:
    """How well points of a network stand for its latencies."""
    above = np.triu(~np.isnan(latencies), 1)
    truth, told = latencies[above], distances(points)[above]
    if not truth.size:
        return Accuracy(0.0, 0.0, 0.0, 0)
    error = np.abs(told - truth) / truth
    stress = float(np.sqrt(np.sum((told - truth) ** 2) / np.sum(truth**2)))
    return Accuracy(float(np.median(error)), float(np.quantile(error, 0.9)), stress, int(truth.size))


def distances(points: Floats) -> Floats:
    """The distances of all pairs of points."""
    squares = np.einsum("ij,ij->i", points, points)
    found = squares[:, None] + squares - 2.0 * (points @ points.T)
    np.fill_diagonal(found, 0.0)
    return np.asarray(np.sqrt(np.maximum(found, 0.0)))


def _square(matrix: NDArray[Any]) -> Floats:
    try:
        found = np.asarray(matrix, dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise SummaryError(f"latencies are numbers: {problem}", table="latencies") from None
    if found.ndim != 2 or found.shape[0] != found.shape[1] or not 1 <= len(found) <= MAX_NODES:
        detail = f"a matrix of latencies has as many rows as columns, 1 to {MAX_NODES:,}"
        raise SummaryError(detail, table="latencies", shape=found.shape)
    return found
