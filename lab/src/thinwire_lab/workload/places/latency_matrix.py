"""Matrices of measured latencies, with missing entries and different values by direction."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinwire_lab.errors import SummaryError
from thinwire_lab.workload.random_rows import Floats

MAX_NODES = 20_000
"""larger matrices exceed 3 GB"""


class Accuracy(NamedTuple):
    """Relative errors of distances over all measured pairs, and stress.

    stress: root of the share of the squared latencies that is not explained (Kruskal, 1964)
    """

    median: float
    p90: float
    stress: float


def symmetric(matrix: NDArray[Any]) -> Floats:
    """Return one latency per pair: the mean of the measured directions, or NaN without a measurement.

    Entries that are negative, zero off the diagonal, or not finite are missing.

    >>> symmetric(np.array([[0, 8, np.nan], [10, 0, 5], [-1, np.nan, 0]])).tolist()
    [[0.0, 9.0, nan], [9.0, 0.0, 5.0], [nan, 5.0, 0.0]]
    """
    latencies = _square(matrix)
    known = np.isfinite(latencies) & (latencies > 0)
    directions = known.astype(np.int64) + known.T
    total = np.where(known, latencies, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = (total + total.T) / directions
    np.fill_diagonal(means, 0.0)
    empty = np.flatnonzero(directions.sum(axis=1) - 2 * np.diag(known) == 0)
    if empty.size and len(latencies) > 1:
        raise SummaryError("a node without any latency", table="latencies", row=int(empty[0]) + 1)
    return np.asarray(means)


def completed(latencies: Floats) -> Floats:
    """Return the matrix with missing entries replaced by the shortest path, or without a path by the maximum."""
    if not np.isnan(latencies).any():
        return latencies
    paths = np.where(np.isnan(latencies), np.inf, latencies)
    for node in range(len(paths)):
        np.minimum(paths, paths[:, node, None] + paths[node], out=paths)
    filled = np.where(np.isnan(latencies), paths, latencies)
    return np.where(np.isfinite(filled), filled, filled[np.isfinite(filled)].max())


def accuracy(points: Floats, latencies: Floats) -> Accuracy:
    """Return the accuracy of points as coordinates for latencies."""
    pairs = np.triu(~np.isnan(latencies), 1)
    truth, estimate = latencies[pairs], distances(points)[pairs]
    if not truth.size:
        return Accuracy(0.0, 0.0, 0.0)
    error = np.abs(estimate - truth) / truth
    stress = float(np.sqrt(np.sum((estimate - truth) ** 2) / np.sum(truth**2)))
    return Accuracy(float(np.median(error)), float(np.quantile(error, 0.9)), stress)


def distances(points: Floats) -> Floats:
    """Return the distances of all pairs of points."""
    squares = np.einsum("ij,ij->i", points, points)
    squared = squares[:, None] + squares - 2.0 * (points @ points.T)
    np.fill_diagonal(squared, 0.0)
    return np.asarray(np.sqrt(np.maximum(squared, 0.0)))


def _square(matrix: NDArray[Any]) -> Floats:
    try:
        latencies = np.asarray(matrix, dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise SummaryError(f"latencies are numbers: {problem}", table="latencies") from None
    if latencies.ndim != 2 or latencies.shape[0] != latencies.shape[1] or not 1 <= len(latencies) <= MAX_NODES:
        detail = f"a matrix of latencies has as many rows as columns, 1 to {MAX_NODES:,}"
        raise SummaryError(detail, table="latencies", shape=latencies.shape)
    return latencies
