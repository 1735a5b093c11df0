"""Metric multidimensional scaling as the usual libraries do it: scikit-learn's `MDS` with its own defaults.

Where scikit-learn is not installed, our own SMACOF follows its arithmetic step by step: one random start, at most 300
steps, ended when the stress falls by less than a millionth of itself (the defaults of scikit-learn 1.9; before that it
started four times, which takes four times as long).
"""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

STEPS, LEAST = 300, 1e-6
Floats = NDArray[np.float64]


def usual_mds(latencies: Floats, dimensions: int, seed: int = 0) -> tuple[str, Floats]:
    """Who placed the nodes of a complete, symmetric matrix, and where."""
    if find_spec("sklearn") is None:
        return "our SMACOF", metric_mds(latencies, dimensions, seed)
    import sklearn  # type: ignore[import-not-found,import-untyped,unused-ignore]
    from sklearn.manifold import MDS  # type: ignore[import-not-found,import-untyped,unused-ignore]

    scaling: Any = MDS(dimensions, metric="precomputed", random_state=seed)
    with warnings.catch_warnings(action="ignore", category=FutureWarning):  # of defaults that will be others some day
        return f"scikit-learn {sklearn.__version__}", np.asarray(scaling.fit_transform(latencies))


def metric_mds(latencies: Floats, dimensions: int, seed: int = 0) -> Floats:
    """A point for every node of a complete, symmetric matrix.

    >>> line = np.abs(np.subtract.outer([0.0, 10, 30], [0.0, 10, 30]))
    >>> found = metric_mds(line, 2)
    >>> [round(float(np.linalg.norm(found[0] - point))) for point in found]
    [0, 10, 30]
    """
    return smacof(latencies, np.random.default_rng(seed).uniform(size=(len(latencies), dimensions)))


def smacof(latencies: Floats, points: Floats) -> Floats:
    """The points that scaling ends at when it starts from these."""
    before = np.inf
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
    return points


def _distances(points: Floats) -> Floats:
    squares = np.einsum("ij,ij->i", points, points)
    found = np.maximum(squares[:, None] + squares - 2 * points @ points.T, 0)
    np.fill_diagonal(found, 0)
    return np.asarray(np.sqrt(found))
