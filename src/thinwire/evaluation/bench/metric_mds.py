"""Metric multidimensional scaling as the usual libraries do it: SMACOF from random starts, the best one kept.

Four starts, at most 300 steps each, ended when the stress falls by less than a millionth of itself: the defaults of
scikit-learn's `MDS`, whose arithmetic this follows step by step. Where scikit-learn is installed it runs itself.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

STARTS, STEPS, LEAST = 4, 300, 1e-6
Floats = NDArray[np.float64]


def usual_mds(latencies: Floats, dimensions: int, seed: int = 0) -> tuple[str, Floats]:
    """Who placed the nodes of a complete, symmetric matrix, and where."""
    if find_spec("sklearn") is None:
        return "our SMACOF", metric_mds(latencies, dimensions, seed)
    from sklearn.manifold import MDS  # type: ignore[import-not-found,unused-ignore]

    found: Any = MDS(dimensions, dissimilarity="precomputed", random_state=seed, n_init=STARTS, max_iter=STEPS)
    return "scikit-learn", np.asarray(found.fit_transform(latencies))


def metric_mds(latencies: Floats, dimensions: int, seed: int = 0) -> Floats:
    """A point for every node of a complete, symmetric matrix.

    >>> line = np.abs(np.subtract.outer([0.0, 10, 30], [0.0, 10, 30]))
    >>> found = metric_mds(line, 2)
    >>> [round(float(np.linalg.norm(found[0] - point))) for point in found]
    [0, 10, 30]
    """
    dice = np.random.default_rng(seed)
    runs = [smacof(latencies, dice.uniform(size=(len(latencies), dimensions))) for _ in range(STARTS)]
    return min(runs, key=lambda run: run[1])[0]


def smacof(latencies: Floats, points: Floats) -> tuple[Floats, float]:
    """The points where stress ends from these, and the stress."""
    before = stress = np.inf
    for _ in range(STEPS):
        told = _distances(points)
        stress = float(((told - latencies) ** 2).sum() / 2)
        if before - stress < LEAST * (told**2).sum() / 2:
            break
        before = stress
        told[told == 0] = 1e-5
        ratio = latencies / told
        matrix = -ratio
        matrix[np.diag_indices_from(matrix)] += ratio.sum(axis=1)
        points = matrix @ points / len(points)
    return points, stress


def _distances(points: Floats) -> Floats:
    squares = np.einsum("ij,ij->i", points, points)
    found = np.maximum(squares[:, None] + squares - 2 * points @ points.T, 0)
    np.fill_diagonal(found, 0)
    return np.asarray(np.sqrt(found))
