"""Coordinates from latencies: points whose distances come close to what was measured.

Metric scaling makes the sum of squared errors small and lets a few long, odd latencies decide. Here errors count
relative to the latency, and the larger ones count less than their squares: each round weighs a pair by one over its
error, so that what is minimised approaches the sum of relative errors. The first points are those of classical scaling;
every step then majorises the stress (de Leeuw, 1977), which it never raises under the weights of its round.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinwire.errors import ConfigError
from thinwire.workload.drawing.randomness import Floats, normals
from thinwire.workload.places.latencies import completed, distances, symmetric
from thinwire.workload.places.nodes import MAX_DIMENSIONS

ROUNDS, STEPS = 6, 8
POWERS = 8
SMALLEST_ERROR = 0.05
"""pairs that are closer to the truth than this count alike: one that is exact must not hold all others"""
SHORTEST = 0.01
"""of the mean latency: pairs below it are weighed as if they were so long"""


def embed(matrix: NDArray[Any], dimensions: int = 5) -> Floats:
    """A point for every node, a row each; entries may be missing (NaN) and differ by direction.

    >>> line = np.abs(np.subtract.outer([0.0, 10, 30], [0.0, 10, 30]))
    >>> found = embed(line, 2)
    >>> np.round(distances(found)[0], 3).tolist()
    [0.0, 10.0, 30.0]
    """
    check_dimensions(dimensions)
    latencies = symmetric(matrix)
    known = ~np.isnan(latencies)
    full = completed(latencies)
    points = classical(full, dimensions)
    for _ in range(ROUNDS if len(full) > 1 else 0):
        points = _majorised(points, full, _weights(full, distances(points), known))
    return np.asarray(points - points.mean(axis=0))


def classical(latencies: Floats, dimensions: int) -> Floats:
    """Classical scaling (Torgerson, 1952): the main axes of the matrix of inner products, found by powers of it."""
    squares = latencies**2
    inner = -0.5 * (squares - squares.mean(axis=0) - squares.mean(axis=1)[:, None] + squares.mean())
    count = min(len(inner), dimensions + 4)
    basis = normals(0, "axes", np.arange(len(inner)), count)
    for _ in range(POWERS):
        basis, _ = np.linalg.qr(inner @ basis)
    values, turns = np.linalg.eigh(basis.T @ inner @ basis)
    best = np.argsort(-values)[:dimensions]
    found = np.zeros((len(inner), dimensions))
    found[:, : best.size] = (basis @ turns[:, best]) * np.sqrt(np.maximum(values[best], 0.0))
    return found


def check_dimensions(dimensions: int) -> None:
    """Refuse what is no number of dimensions."""
    if not 1 <= dimensions <= MAX_DIMENSIONS:
        raise ConfigError("outside its limits", dimensions=dimensions, lowest=1, highest=MAX_DIMENSIONS)


def _weights(latencies: Floats, told: Floats, known: NDArray[np.bool_]) -> Floats:
    scale = np.maximum(latencies, SHORTEST * latencies.mean())
    error = np.maximum(np.abs(told - latencies) / scale, SMALLEST_ERROR)
    weights = np.where(known, 1.0 / (scale**2 * error), 0.0)
    np.fill_diagonal(weights, 0.0)
    return np.asarray(weights)


def _majorised(points: Floats, latencies: Floats, weights: Floats) -> Floats:
    """Some steps under these weights; the system that each of them solves is inverted once."""
    laplacian = np.diag(weights.sum(axis=1)) - weights
    solve = np.linalg.inv(laplacian + weights.mean())
    pull = weights * latencies
    for _ in range(STEPS):
        told = distances(points)
        ratio = np.divide(pull, told, out=np.zeros_like(pull), where=told > 1e-12)
        points = solve @ (ratio.sum(axis=1)[:, None] * points - ratio @ points)
    return points
