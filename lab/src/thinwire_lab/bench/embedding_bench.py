"""Benchmark of coordinates from latencies: our embedding compared with metric scaling.

Both get the same complete matrix of latencies, measured ones if available, and five dimensions. The required result is
on relative errors, which matter for latencies; metric scaling minimises another sum, so its own measure, stress, is
reported, too. Imports and compilation are not timed. The reference is the `MDS` of scikit-learn with its defaults.
"""

from __future__ import annotations

import gzip
import warnings
from collections.abc import Callable, Iterator
from statistics import median
from time import process_time
from typing import Any, TypeVar

import numpy as np

from thinwire_lab.bench.benchmark import Benchmark, Row, Setting
from thinwire_lab.workload.builtin_summary import builtin
from thinwire_lab.workload.places.latency_embedding import embed, vivaldi
from thinwire_lab.workload.places.latency_matrix import Accuracy, accuracy, completed, distances, symmetric
from thinwire_lab.workload.random_rows import Floats, normals


def usual_mds(latencies: Floats, dimensions: int, seed: int = 0) -> tuple[str, Floats]:
    """Return the name of the reference and the points of a complete, symmetric matrix."""
    import sklearn  # type: ignore[import-not-found,import-untyped,unused-ignore]
    from sklearn.manifold import MDS  # type: ignore[import-not-found,import-untyped,unused-ignore]

    scaling: Any = MDS(dimensions, metric="precomputed", random_state=seed)
    with warnings.catch_warnings(action="ignore", category=FutureWarning):  # defaults that will change
        return f"scikit-learn {sklearn.__version__}", np.asarray(scaling.fit_transform(latencies))


T = TypeVar("T")

DIMENSIONS = 5
ROUNDS = 3
MEASURED = "netlatency/PlanetLabData_1.txt.gz"
QUICK_NODES = 80
MAX_ERROR, MAX_TIME = 1.0, 1 / 5


def embedding(setting: Setting) -> Iterator[Row]:
    """Measure errors and processor time of both."""
    name, latencies = network(setting)
    embed(latencies[:3, :3], DIMENSIONS)
    usual_mds(completed(latencies[:3, :3]), DIMENSIONS)
    times: dict[str, list[float]] = {"ours": [], "theirs": []}
    for number in range(setting.size(ROUNDS, 1)):
        ours = _timed(lambda: embed(latencies, DIMENSIONS), times["ours"])
        reference, theirs = _timed(lambda: usual_mds(completed(latencies), DIMENSIONS), times["theirs"])
        setting.progress((number + 1) / setting.size(ROUNDS, 1))
    found = {"ours": accuracy(ours, latencies), reference: accuracy(theirs, latencies)}
    own, other = found["ours"], found[reference]
    described = "; ".join(f"{method} {_describe_accuracy(result)}" for method, result in found.items())
    how = f"{name}, {len(latencies)} nodes, {DIMENSIONS} dimensions; {described}"
    median_ratio, p90_ratio = own.median / other.median, own.p90 / other.p90
    yield Row("embedding: median relative error to metric scaling's", "times", median_ratio, high=MAX_ERROR, how=how)
    yield Row("embedding: p90 of the error to metric scaling's", "times", p90_ratio, how=how)
    yield Row("embedding: stress to metric scaling's", "times", own.stress / other.stress, how=how)
    spent = {name: median(own) for name, own in times.items()}
    how = f"{spent['ours']:.2f} s to {spent['theirs']:.2f} s of {reference}"
    how += f", median of {len(times['ours'])} rounds, CPU time"
    yield Row(
        "embedding: CPU time to metric scaling's", "part", spent["ours"] / spent["theirs"], high=MAX_TIME, how=how
    )
    alone = accuracy(vivaldi(latencies, DIMENSIONS), latencies)
    how = _describe_accuracy(alone)
    yield Row("embedding, decentralised (Vivaldi): median relative error", "share", alone.median, how=how)


def network(setting: Setting) -> tuple[str, Floats]:
    """Return measured latencies, or those between the built-in nodes with deviations of 15 %."""
    path = None if setting.data is None else setting.data / MEASURED
    if path is not None and path.exists():
        with gzip.open(path) as file:
            latencies = symmetric(np.loadtxt(file))
        return "PlanetLab, measured", latencies[:QUICK_NODES, :QUICK_NODES] if setting.quick else latencies
    nodes = builtin().nodes.points[:: 5 if setting.quick else 1]
    noise = normals(1, "latencies", np.arange(nodes.shape[0] ** 2), 1).reshape(nodes.shape[0], -1)
    return "built-in nodes, 15 % off", symmetric(distances(nodes) * np.exp(0.15 * noise))


def _timed(action: Callable[[], T], times: list[float]) -> T:
    started = process_time()
    result = action()
    times.append(process_time() - started)
    return result


def _describe_accuracy(found: Accuracy) -> str:
    return f"median {100 * found.median:.1f} %, p90 {100 * found.p90:.1f} %, stress {found.stress:.3f}"


BENCHMARKS = [Benchmark("embedding", embedding)]
