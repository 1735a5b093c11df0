"""Coordinates from latencies: points whose distances come close to what was measured.

Metric scaling makes the sum of squared errors small and lets a few long, odd latencies decide. Here errors count as
they are, so that one odd latency has no more to say than any other. The first points are those of classical scaling.
Then, pair by pair in an order of chance, both points are moved towards the right distance, less far with every pass
(stochastic gradient descent, as Zheng, Pawar and Goodman draw graphs, 2018).

Nodes from measured latencies: a table with a row and a column for every node, and the region of each row.

One pass over all pairs of points, each moved towards the distance that was measured between them.

Vivaldi: every node finds its own coordinates by asking a few others at a time (Dabek and others, 2004).

No node sees the whole matrix. A latency is a spring between two points; each round a node moves along the springs to
the neighbours it asked, further where it trusts itself less than them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thinwire.codec.kernels.jit import compiled
from thinwire.errors import ConfigError
from thinwire_lab.errors import SummaryError
from thinwire_lab.workload.interests.hierarchy import numbers, texts
from thinwire_lab.workload.places.latency_matrix import completed, symmetric
from thinwire_lab.workload.places.network_nodes import MAX_DIMENSIONS, Nodes
from thinwire_lab.workload.random_rows import Floats, Rows, normals, uniforms

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

    check_dimensions(dimensions)
    latencies = symmetric(matrix)
    full = completed(latencies)
    points = classical(full, dimensions)
    for number, step in enumerate(np.geomspace(*STEPS, PASSES) * full.mean()):
        order = np.argsort(uniforms(0, f"pass {number}", np.arange(len(full))))
        relax_pairs(points, latencies, order, step)
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


DIMENSIONS = 5


def measured(table: pa.Table, dimensions: int = DIMENSIONS, of: str = "latencies") -> Nodes:
    """The nodes of a table with a column `region` and a column of milliseconds for every row; empty ones are missing.

    >>> rows = {"region": ["a", "a", "b"], "1": [0, 10, 30], "2": [10, 0, None], "3": [30, 21, 0]}
    >>> measured(pa.table(rows), 2).points.shape
    (3, 2)
    """
    names = [str(name) for name in texts(table, "region", of)]
    columns = [name for name in table.column_names if name != "region"]
    if len(columns) != len(names) or not names:
        detail = "as many columns of latencies as rows, beside the region"
        raise SummaryError(detail, table=of, rows=len(names), columns=len(columns))
    matrix = np.stack([numbers(table, name, of, missing=True) for name in columns], axis=1)
    regions = tuple(dict.fromkeys(names))
    return Nodes(regions, np.array([regions.index(name) for name in names], dtype=np.int64), embed(matrix, dimensions))


@compiled
def relax_pairs(points: Any, latencies: Any, order: Any, step: float) -> None:
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
