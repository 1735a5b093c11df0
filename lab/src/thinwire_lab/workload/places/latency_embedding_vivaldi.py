"""Vivaldi: every node finds its own coordinates by asking a few others at a time (Dabek and others, 2004).

No node sees the whole matrix. A latency is a spring between two points; each round a node moves along the springs to
the neighbours it asked, further where it trusts itself less than them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinwire_lab.workload.places.latency_embedding import check_dimensions
from thinwire_lab.workload.places.latency_matrix import symmetric
from thinwire_lab.workload.random_rows_randomness import Floats, Rows, normals, uniforms

NEIGHBOURS = 8
PULL, TRUST = 0.25, 0.25


def vivaldi(matrix: NDArray[Any], dimensions: int = 5, *, rounds: int = 300, seed: int = 0) -> Floats:
    """A point for every node after so many rounds, in each of which a node asks eight others."""
    check_dimensions(dimensions)
    latencies = symmetric(matrix)
    nodes = np.arange(len(latencies))
    points = normals(seed, "first place", nodes, dimensions)
    doubt = np.ones(nodes.size)
    for number in range(rounds):
        asked = _asked(seed, number, nodes)
        points, doubt = _moved(points, doubt, latencies, asked, 1.0 - number / rounds)
    return np.asarray(points - points.mean(axis=0))


def _asked(seed: int, number: int, nodes: Rows) -> Rows:
    lanes = [uniforms(seed, f"round {number}", nodes, lane) for lane in range(NEIGHBOURS)]
    return np.minimum((np.stack(lanes, axis=1) * nodes.size).astype(np.int64), nodes.size - 1)


def _moved(points: Floats, doubt: Floats, latencies: Floats, asked: Rows, vigour: float) -> tuple[Floats, Floats]:
    """Where springs to the nodes asked pull, and how far off each node then thinks it is.

    vigour: how far nodes still move, falling to 0 so that they settle
    """
    truth = np.take_along_axis(latencies, asked, axis=1)
    way = points[:, None] - points[asked]
    told = np.linalg.norm(way, axis=2)
    known = ~np.isnan(truth) & (truth > 0) & (told > 0)
    shares = known / np.maximum(known.sum(axis=1), 1)[:, None]
    error = np.where(known, truth - told, 0.0)
    share = doubt[:, None] / (doubt[:, None] + doubt[asked])
    force = (2 * PULL * vigour * share * shares * error / np.where(known, told, 1.0))[..., None] * way * NEIGHBOURS**0.5
    seen = np.sum(shares * np.abs(error) / np.where(known, truth, 1.0), axis=1)
    return points + force.sum(axis=1), np.clip((1 - TRUST) * doubt + TRUST * seen, 1e-3, 1.0)
