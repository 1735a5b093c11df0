"""The points of the conformance figures, each a function of one cell of a grid: parameters by name, figures by name.

So a sweep may run in this process or as a Spark job; both take and give what JSON has. `data` is a folder of
recordings, or None for the market sample.

>>> point = dissemination(nodes=100, subscriptions=300, sources=2)
>>> point["SRI maintenance"] < point["SF maintenance"] / 5
True
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from thinwire.filters import greedy
from thinwire_lab.overlay_sim.dissemination import PINNED, SCHEMES, churn, simulate
from thinwire_lab.overlay_sim.filters.published_filters_optimum import global_optimum
from thinwire_lab.reproduce.conformance.conformance_cells_conformance_figure import SOURCES
from thinwire_lab.streams.threshold_streams import SIGMA, Streams, attack, bars, scaled


def ratio(threshold: int, data: str | None = None, sources: int = SOURCES, seed: int = 1) -> dict[str, float]:
    """How much more OnlineGreedy delivers than would have sufficed, on the average, and stock by stock."""
    by_stock: dict[str, list[float]] = {}
    for name, values in _streams(data, sources, seed, 0.0).items():
        found = len(greedy(values, threshold)) / len(global_optimum(values, threshold))
        by_stock.setdefault(name.partition("/")[0], []).append(found)
    every = [found for stock in by_stock.values() for found in stock]
    return {"all ratio": float(np.mean(every)), **{f"{k} ratio": float(np.mean(v)) for k, v in by_stock.items()}}


def dissemination(
    nodes: int,
    subscriptions: int,
    synthetic: float = 0.0,
    data: str | None = None,
    sources: int = SOURCES,
    seed: int = 1,
) -> dict[str, float]:
    """What every scheme costs on one network; `synthetic` is the share of sources that attack decomposed filters."""
    streams = _streams(data, sources, seed, synthetic)
    found = simulate(nodes, streams, subscriptions, tuple(SCHEMES), seed)
    measures = {name: costs.document() for name, costs in found.items()}
    return {f"{name} {measure}": value for name, of in measures.items() for measure, value in of.items()}


def turnover(
    share: float,
    nodes: int,
    subscriptions: int,
    copies: bool = False,
    data: str | None = None,
    sources: int = 6,
    seed: int = 1,
) -> dict[str, float]:
    """What every scheme bears where this share of the nodes is replaced in every interval; each source on its own."""
    streams = list(_streams(data, sources, seed, 0.0).values())
    found: dict[str, float] = {}
    for name in SCHEMES:
        runs = [churn(nodes, of, subscriptions, share, name, copies, seed + k) for k, of in enumerate(streams)]
        documents = [run.document() for run in runs]
        found |= {f"{name} {measure}": float(np.mean([d[measure] for d in documents])) for measure in documents[0]}
    return found


@lru_cache(maxsize=4)
def _streams(data: str | None, sources: int, seed: int, synthetic: float) -> Streams:
    """Bars in ticks of half a standard deviation; the last ones give way to attacks of the same length."""
    streams = {name: scaled(cents, SIGMA) for name, cents in bars(data, sources, seed).items()}
    replaced = list(streams)[len(streams) - round(synthetic * len(streams)) :]
    for number, name in enumerate(replaced):
        streams[name] = attack(len(streams[name]), seed + number, PINNED.steepness, PINNED.largest)
    return streams
