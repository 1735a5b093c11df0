"""Coordinates from latencies: points whose distances approximate measured latencies.

`embed` starts with classical scaling. It then visits all pairs in random order and moves both points towards the
measured distance, with steps that shrink from pass to pass (stochastic gradient descent, as in Zheng, Pawar and
Goodman, 2018). It minimises absolute errors, so that outliers have less influence than in metric scaling, which
minimises squared errors.

`vivaldi` is the distributed algorithm of Dabek and others (2004), in which no node has the complete matrix. Latencies
are springs between points. In each round a node moves along the springs to a few neighbours, by a distance that depends
on the error estimates of both.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thinwire.codec.kernels.jit import compiled
from thinwire.errors import ConfigError
from thinwire_lab.errors import SummaryError
from thinwire_lab.workload.interests.hierarchy import number_column, text_column
from thinwire_lab.workload.places.latency_matrix import completed, symmetric
from thinwire_lab.workload.places.network_nodes import MAX_DIMENSIONS, Nodes
from thinwire_lab.workload.random_rows import Floats, Ints, normals, uniforms

PASSES = 15
STEPS = 0.1, 0.001
"""maximum movement of a point in the first and in the last pass, in mean latencies"""
POWERS = 8


def embed(matrix: NDArray[Any], dimensions: int = 5) -> Floats:
    """Return a point for each node, one row each. Entries may be missing (NaN) and differ by direction.

    >>> line = np.abs(np.subtract.outer([0.0, 10, 30], [0.0, 10, 30]))
    >>> from thinwire_lab.workload.places.latency_matrix import distances
    >>> points = embed(line, 2)
    >>> np.round(distances(points)[0], 3).tolist()
    [0.0, 10.0, 30.0]
    """
    check_dimensions(dimensions)
    latencies = symmetric(matrix)
    complete = completed(latencies)
    points = classical_scaling(complete, dimensions)
    for index, step in enumerate(np.geomspace(*STEPS, PASSES) * complete.mean()):
        order = np.argsort(uniforms(0, f"pass {index}", np.arange(len(complete))))
        relax_pairs(points, latencies, order, step)
    return np.asarray(points - points.mean(axis=0))


def classical_scaling(latencies: Floats, dimensions: int) -> Floats:
    """Return the main axes of the matrix of inner products, computed by power iteration (Torgerson, 1952)."""
    squares = latencies**2
    inner = -0.5 * (squares - squares.mean(axis=0) - squares.mean(axis=1)[:, None] + squares.mean())
    count = min(len(inner), dimensions + 4)
    basis = normals(0, "axes", np.arange(len(inner)), count)
    for _ in range(POWERS):
        basis, _ = np.linalg.qr(inner @ basis)
    values, rotations = np.linalg.eigh(basis.T @ inner @ basis)
    best = np.argsort(-values)[:dimensions]
    points = np.zeros((len(inner), dimensions))
    points[:, : best.size] = (basis @ rotations[:, best]) * np.sqrt(np.maximum(values[best], 0.0))
    return points


def check_dimensions(dimensions: int) -> None:
    """Raise an error if the number of dimensions is out of range."""
    if not 1 <= dimensions <= MAX_DIMENSIONS:
        raise ConfigError("out of range", dimensions=dimensions, lowest=1, highest=MAX_DIMENSIONS)


DIMENSIONS = 5


def read_latencies(table: pa.Table, dimensions: int = DIMENSIONS, of: str = "latencies") -> Nodes:
    """Return the nodes of a table with a column `region` and a column of milliseconds per row. Empty values are
    missing.

    >>> rows = {"region": ["a", "a", "b"], "1": [0, 10, 30], "2": [10, 0, None], "3": [30, 21, 0]}
    >>> read_latencies(pa.table(rows), 2).points.shape
    (3, 2)
    """
    region_names = [str(name) for name in text_column(table, "region", of)]
    columns = [name for name in table.column_names if name != "region"]
    if len(columns) != len(region_names) or not region_names:
        detail = "needs as many columns of latencies as rows, in addition to the region"
        raise SummaryError(detail, table=of, rows=len(region_names), columns=len(columns))
    matrix = np.stack([number_column(table, name, of, missing=True) for name in columns], axis=1)
    regions = tuple(dict.fromkeys(region_names))
    return Nodes(
        regions, np.array([regions.index(name) for name in region_names], dtype=np.int64), embed(matrix, dimensions)
    )


@compiled
def relax_pairs(points: Any, latencies: Any, order: Any, step: float) -> None:
    """Move both points of each pair by half of the error, and at most by a step.

    Pairs with equal index sums modulo the number of points have no point in common; the order is one of sums.
    latencies: NaN if unknown
    """
    count = points.shape[0]
    for total in order:
        for first in range((total + 1) // 2):
            pull(points, first, total - first, latencies[first, total - first], step)
        for first in range(total + 1, (total + count + 1) // 2):
            pull(points, first, total + count - first, latencies[first, total + count - first], step)


@compiled
def pull(points: Any, first: int, second: int, latency: float, step: float) -> None:
    """Move two points along the line between them."""
    square = 0.0
    for dimension in range(points.shape[1]):
        square += (points[first, dimension] - points[second, dimension]) ** 2
    distance = np.sqrt(square)
    if distance > 0.0 and not np.isnan(latency):
        share = min(max((latency - distance) / 2, -step), step) / distance
        for dimension in range(points.shape[1]):
            move = share * (points[first, dimension] - points[second, dimension])
            points[first, dimension] += move
            points[second, dimension] -= move


NEIGHBOURS = 8
PULL, TRUST = 0.25, 0.25


def vivaldi(matrix: NDArray[Any], dimensions: int = 5, *, rounds: int = 300, seed: int = 0) -> Floats:
    """Return a point for each node after a number of rounds, in each of which a node measures eight others."""
    check_dimensions(dimensions)
    latencies = symmetric(matrix)
    nodes = np.arange(len(latencies))
    points = normals(seed, "first place", nodes, dimensions)
    errors = np.ones(nodes.size)
    for index in range(rounds):
        neighbours = _neighbours(seed, index, nodes)
        points, errors = _step(points, errors, latencies, neighbours, 1.0 - index / rounds)
    return np.asarray(points - points.mean(axis=0))


def _neighbours(seed: int, index: int, nodes: Ints) -> Ints:
    columns = [uniforms(seed, f"round {index}", nodes, dimension) for dimension in range(NEIGHBOURS)]
    return np.minimum((np.stack(columns, axis=1) * nodes.size).astype(np.int64), nodes.size - 1)


def _step(points: Floats, errors: Floats, latencies: Floats, neighbours: Ints, scale: float) -> tuple[Floats, Floats]:
    """Return the points after a round, and the error estimates of the nodes.

    scale: factor of the movement, which falls to 0
    """
    measured = np.take_along_axis(latencies, neighbours, axis=1)
    vectors = points[:, None] - points[neighbours]
    distances = np.linalg.norm(vectors, axis=2)
    known = ~np.isnan(measured) & (measured > 0) & (distances > 0)
    shares = known / np.maximum(known.sum(axis=1), 1)[:, None]
    differences = np.where(known, measured - distances, 0.0)
    trust = errors[:, None] / (errors[:, None] + errors[neighbours])
    weights = 2 * PULL * scale * trust * shares * differences / np.where(known, distances, 1.0)
    force = weights[..., None] * vectors * NEIGHBOURS**0.5
    relative = np.sum(shares * np.abs(differences) / np.where(known, measured, 1.0), axis=1)
    return points + force.sum(axis=1), np.clip((1 - TRUST) * errors + TRUST * relative, 1e-3, 1.0)
