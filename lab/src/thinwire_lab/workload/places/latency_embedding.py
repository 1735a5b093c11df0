"""Coordinates from latencies: points whose distances come close to what was measured.

Metric scaling makes the sum of squared errors small and lets a few long, odd latencies decide. Here errors count as
they are, so that one odd latency has no more to say than any other. The first points are those of classical scaling.
Then, pair by pair in an order of chance, both points are moved towards the right distance, less far with every pass
(stochastic gradient descent, as Zheng, Pawar and Goodman draw graphs, 2018).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinwire.errors import ConfigError
from thinwire_lab.workload.places.latency_matrix import completed, symmetric
from thinwire_lab.workload.places.network_nodes_nodes import MAX_DIMENSIONS
from thinwire_lab.workload.random_rows_randomness import Floats, normals, uniforms

PASSES = 15
STEPS = 0.1, 0.001
"""how far a point is moved at most in the first pass and in the last, in mean latencies"""
POWERS = 8


def embed(matrix: NDArray[Any], dimensions: int = 5) -> Floats:
    """A point for every node, a row each; entries may be missing (NaN) and differ by direction.

    >>> line = np.abs(np.subtract.outer([0.0, 10, 30], [0.0, 10, 30]))
    >>> from thinwire_lab.workload.places.latency_matrix import distances
    >>> found = embed(line, 2)
    >>> np.round(distances(found)[0], 3).tolist()
    [0.0, 10.0, 30.0]
    """
    from thinwire_lab.workload.places.latency_embedding_settling import (
        settle,  # compiled code, which most who read a summary do not need
    )

    check_dimensions(dimensions)
    latencies = symmetric(matrix)
    full = completed(latencies)
    points = classical(full, dimensions)
    for number, step in enumerate(np.geomspace(*STEPS, PASSES) * full.mean()):
        order = np.argsort(uniforms(0, f"pass {number}", np.arange(len(full))))
        settle(points, latencies, order, step)
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
