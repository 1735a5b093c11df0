"""Coordinates from latencies: our embedding beside metric scaling, on measured latencies where they are at hand.

Both get the same complete matrix and five dimensions. The bar is on relative errors, which is what a latency that is
off by so much costs; metric scaling makes another sum small, so its own measure, stress, stands beside. Import and
compiling come before the clock.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from statistics import median
from time import process_time
from typing import TypeVar

import numpy as np

from thinwire_lab.bench.benchmark import Bar, Row, Setting
from thinwire_lab.bench.embedding_bench import usual_mds
from thinwire_lab.workload.builtin_summary import builtin
from thinwire_lab.workload.places.latency_embedding import embed
from thinwire_lab.workload.places.latency_embedding_vivaldi import vivaldi
from thinwire_lab.workload.places.latency_matrix import Accuracy, accuracy, completed, distances, symmetric
from thinwire_lab.workload.random_rows_randomness import Floats, normals

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
    told = "; ".join(f"{whose} {_told(own)}" for whose, own in found.items())
    how = f"{name}, {len(latencies)} nodes, {DIMENSIONS} dimensions; {told}"
    error = found["ours"].median / found[who].median
    yield Row("embedding: median relative error to metric scaling's", "times", error, high=1.0, how=how)
    yield Row("embedding: p90 of the error to metric scaling's", "times", found["ours"].p90 / found[who].p90, how=how)
    yield Row("embedding: stress to metric scaling's", "times", found["ours"].stress / found[who].stress, how=how)
    spent = {name: median(own) for name, own in times.items()}
    how = f"{spent['ours']:.2f} s to {spent['theirs']:.2f} s of {who}, median of {len(times['ours'])} rounds, CPU time"
    yield Row("embedding: CPU time to metric scaling's", "part", spent["ours"] / spent["theirs"], high=1 / 5, how=how)
    alone = accuracy(vivaldi(latencies, DIMENSIONS), latencies)
    yield Row("embedding, decentralised (Vivaldi): median relative error", "share", alone.median, how=_told(alone))


def network(setting: Setting) -> tuple[str, Floats]:
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


def _told(found: Accuracy) -> str:
    return f"median {100 * found.median:.1f} %, p90 {100 * found.p90:.1f} %, stress {found.stress:.3f}"


BARS = [Bar("embedding", embedding)]
