"""Metric multidimensional scaling as the usual libraries do it: scikit-learn's `MDS` with its own defaults.

Where scikit-learn is not installed, our own SMACOF follows its arithmetic step by step: one random start, at most 300
steps, ended when the stress falls by less than a millionth of itself (the defaults of scikit-learn 1.9; before that it
started four times, which takes four times as long).

Coordinates from latencies: our embedding beside metric scaling, on measured latencies where they are at hand.

Both get the same complete matrix and five dimensions. The bar is on relative errors, which is what a latency that is
off by so much costs; metric scaling makes another sum small, so its own measure, stress, stands beside. Import and
compiling come before the clock.
"""

from __future__ import annotations

import gzip
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from statistics import median
from time import process_time
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from thinwire_lab.bench.benchmark import Bar, Row, Setting
from thinwire_lab.workload.builtin_summary import builtin
from thinwire_lab.workload.places.latency_embedding import embed, vivaldi
from thinwire_lab.workload.places.latency_matrix import Accuracy, accuracy, completed, distances, symmetric
from thinwire_lab.workload.random_rows import Floats as RandomRowsFloats
from thinwire_lab.workload.random_rows import normals

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


T = TypeVar("T")

DIMENSIONS = 5
ROUNDS = 3
MEASURED = "netlatency/PlanetLabData_1.txt.gz"
QUICK_NODES = 80


def embedding(setting: Setting) -> Iterator[Row]:
    """Errors and processor time of both."""
    name, latencies = network(setting)
    embed(latencies[:3, :3], DIMENSIONS)
    usual_mds(completed(latencies[:3, :3]), DIMENSIONS)
    times: dict[str, list[float]] = {"ours": [], "theirs": []}
    for number in range(setting.size(ROUNDS, 1)):
        ours = _timed(lambda: embed(latencies, DIMENSIONS), times["ours"])
        who, theirs = _timed(lambda: usual_mds(completed(latencies), DIMENSIONS), times["theirs"])
        setting.progress((number + 1) / setting.size(ROUNDS, 1))
    found = {"ours": accuracy(ours, latencies), who: accuracy(theirs, latencies)}
    told = "; ".join(f"{whose} {_describe_accuracy(own)}" for whose, own in found.items())
    how = f"{name}, {len(latencies)} nodes, {DIMENSIONS} dimensions; {told}"
    error = found["ours"].median / found[who].median
    yield Row("embedding: median relative error to metric scaling's", "times", error, high=1.0, how=how)
    yield Row("embedding: p90 of the error to metric scaling's", "times", found["ours"].p90 / found[who].p90, how=how)
    yield Row("embedding: stress to metric scaling's", "times", found["ours"].stress / found[who].stress, how=how)
    spent = {name: median(own) for name, own in times.items()}
    how = f"{spent['ours']:.2f} s to {spent['theirs']:.2f} s of {who}, median of {len(times['ours'])} rounds, CPU time"
    yield Row("embedding: CPU time to metric scaling's", "part", spent["ours"] / spent["theirs"], high=1 / 5, how=how)
    alone = accuracy(vivaldi(latencies, DIMENSIONS), latencies)
    yield Row(
        "embedding, decentralised (Vivaldi): median relative error",
        "share",
        alone.median,
        how=_describe_accuracy(alone),
    )


def network(setting: Setting) -> tuple[str, RandomRowsFloats]:
    """Measured latencies; where there are none, those between the built-in nodes, off by 15 % either way."""
    place = None if setting.data is None else setting.data / MEASURED
    if place is not None and place.exists():
        with gzip.open(place) as file:
            latencies = symmetric(np.loadtxt(file))
        return "PlanetLab, measured", latencies[:QUICK_NODES, :QUICK_NODES] if setting.quick else latencies
    nodes = builtin().nodes.points[:: 5 if setting.quick else 1]
    chance = normals(1, "latencies", np.arange(nodes.shape[0] ** 2), 1).reshape(nodes.shape[0], -1)
    return "built-in nodes, 15 % off", symmetric(distances(nodes) * np.exp(0.15 * chance))


def _timed(action: Callable[[], T], times: list[float]) -> T:
    begun = process_time()
    found = action()
    times.append(process_time() - begun)
    return found


def _describe_accuracy(found: Accuracy) -> str:
    return f"median {100 * found.median:.1f} %, p90 {100 * found.p90:.1f} %, stress {found.stress:.3f}"


BARS = [Bar("embedding", embedding)]
