"""The points of the conformance figures, each a function of one cell of a grid: parameters by name, figures by name.

So a sweep may run in this process or as a Spark job; both take and give what JSON has. `data` is a folder of
recordings, or None for the market sample.

>>> point = dissemination(nodes=100, subscriptions=300, sources=2)
>>> point["SRI maintenance"] < point["SF maintenance"] / 5
True

What a figure of the conformance thesis is made of, and how much is computed for it.

Conjunctions on Chord: who stores them, who asks whom over how many hops, and how long a subscriber waits.

A source's values go to its segment of the ring, as one multicast a minute; a conjunction is stored with a node of its
strongest source's segment. A question goes over the ring to a node of the other segment and is answered straight; nodes
ask each other once a minute, whatever for. What fires goes from there to the subscriber, the values of all sources in
one message.

>>> point = composite(nodes=100, subscriptions=60, dimension=3, sources=6)
>>> point["watched questions"] < point["chaining questions"] < point["fanning questions"]
True
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from thinwire.analysis.analysis_cells import Cell, Run
from thinwire.errors import ConfigError
from thinwire_lab.overlay_sim.chord import Ring, hops, key_of, routes
from thinwire_lab.overlay_sim.dissemination import PINNED, SCHEMES, churn, simulate
from thinwire_lab.overlay_sim.filters.conjunction_costs import SCHEMES as CONJUNCTION_COSTS_SCHEMES
from thinwire_lab.overlay_sim.filters.conjunction_costs import (
    VOLATILITIES,
    Conjunctions,
    change_rates,
    conjunction_costs,
    draw,
)
from thinwire_lab.overlay_sim.filters.greedy_filter import greedy
from thinwire_lab.overlay_sim.filters.published_filters import global_optimum
from thinwire_lab.streams.threshold_streams import SIGMA, Streams, Ticks, attack, bars, scaled

Rows = Sequence[Mapping[str, Any]]
Function = Callable[..., Mapping[str, Any]]

SMALLEST, LARGEST = 100, 1_600
SUBSCRIPTIONS = 6_000
SOURCES = 30


@dataclass(frozen=True)
class ConformanceScale:
    """How much is computed.

    nodes: the largest network; sizes double from 100
    data: folder of recordings; without it the market sample
    """

    nodes: int = LARGEST
    subscriptions: int = SUBSCRIPTIONS
    data: str | None = None
    sources: int = SOURCES
    seed: int = 1

    def __post_init__(self) -> None:
        if self.nodes < SMALLEST:
            raise ConfigError("outside its limits", field="nodes", value=self.nodes, lowest=SMALLEST)

    @property
    def sizes(self) -> list[int]:
        """The networks.

        >>> ConformanceScale(nodes=700).sizes
        [100, 200, 400, 700]
        """
        doubled = [SMALLEST << n for n in range(self.nodes.bit_length()) if SMALLEST << n < self.nodes]
        return [*doubled, self.nodes]

    @property
    def common(self) -> Cell:
        return {"data": self.data, "sources": self.sources, "seed": self.seed}


@dataclass(frozen=True)
class ConformanceFigure:
    """A figure of the thesis, made again.

    shape: what the thesis says of it
    axis: the parameter that is varied
    measures: what is shown -> its name in a cell's answer; a panel each
    series: the curves
    """

    number: str
    what: str
    shape: str
    axis: str
    measures: Mapping[str, str]
    series: tuple[str, ...]
    function: Function
    cells: Callable[[ConformanceScale], list[Cell]]

    def rows(self, scale: ConformanceScale, run: Run) -> list[dict[str, Any]]:
        """The points: parameters of the cell and figures together."""
        grid = self.cells(scale)
        return [{**cell, **found} for cell, found in zip(grid, run(self.function, grid, _weight), strict=True)]


def grown(rows: Rows, figure: ConformanceFigure, measure: str) -> str:
    """How each curve goes from its first point to its last, in words, the lowest end first.

    >>> figure = ConformanceFigure("0", "", "", "nodes", {}, ("SF", "MFD"), dict, lambda scale: [])
    >>> points = [(2.0, 1.0), (3.0, 2.0), (3.0, 1.0)]
    >>> grown([{"SF cost": a, "MFD cost": b} for a, b in points], figure, "cost")
    'MFD 1 -> 1 (highest 2), SF 2 -> 3 (x1.50)'
    """
    curves = {
        name: [row[f"{name} {measure}"] for row in rows] for name in figure.series if f"{name} {measure}" in rows[0]
    }
    return ", ".join(f"{name} {_course(of)}" for name, of in sorted(curves.items(), key=lambda pair: pair[1][-1]))


def _course(points: Sequence[float]) -> str:
    first, last, highest = points[0], points[-1], max(points)
    said = f"{first:.3g} -> {last:.3g}"
    if highest > max(first, last):
        return f"{said} (highest {highest:.3g})"
    return f"{said} (x{last / first:.2f})" if first else said


def _weight(cell: Cell) -> float:
    """How much work a cell is: every subscription has a way over the ring, every node its fingers."""
    return float(cell.get("nodes", 100) + cell.get("subscriptions", 100))


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


TRAINING = 0.1
"""share of the values that the strength of predicates is taken from"""


class _Ground(NamedTuple):
    """Segments on a ring: a row of nodes for each source, its publisher, and what a value costs that goes to all."""

    ring: Ring
    segments: Ticks
    publishers: Ticks
    multicast: int


def composite(
    nodes: int,
    subscriptions: int,
    dimension: int,
    data: str | None = None,
    sources: int = SOURCES,
    seed: int = 1,
) -> dict[str, float]:
    """What conjunctions of so many sources cost, a subscription and minute, under every scheme."""
    values = _values(data, sources, seed)
    before = max(2, int(TRAINING * len(values)))
    wanted = draw(change_rates(values[:before]), dimension, subscriptions, seed, PINNED.largest)
    ground, rng = _ground(nodes, values.shape[1], seed), np.random.default_rng([seed, nodes, dimension])
    width = ground.segments.shape[1]
    homes = rng.integers(0, nodes, subscriptions)
    stored = ground.segments[wanted.sources[:, 0], np.arange(subscriptions) % width]
    onward = float(hops(ground.ring, stored, homes).mean())
    found = {"any subscription": float(hops(ground.ring, homes, stored).mean())}
    inward = float(hops(ground.ring, ground.publishers[:, None], ground.segments).mean())
    between = _between(ground, rng)
    for name in CONJUNCTION_COSTS_SCHEMES:
        costs = _costs(values[before:], wanted, name, between, width, ground.multicast)
        delivery = costs["fired"] * onward
        found |= {f"{name} {measure}": costs[measure] for measure in ("questions", "maintenance")}
        found |= {f"{name} delivery": delivery, f"{name} total": costs["maintenance"] + delivery}
        found[f"{name} latency"] = inward + costs["waited"] + onward
    return found


def _costs(
    values: Ticks, wanted: Conjunctions, name: str, between: Ticks, width: int, multicast: int
) -> dict[str, float]:
    costs = conjunction_costs(values, wanted, CONJUNCTION_COSTS_SCHEMES[name], between, width)
    share = 1 / (costs.subscriptions * costs.ticks)
    questions = costs.merged_messages * share
    return {
        "questions": questions,
        "maintenance": questions + multicast / costs.subscriptions,
        "fired": costs.fired * share,
        "waited": costs.latency,
    }


@lru_cache(maxsize=4)
def _values(data: str | None, sources: int, seed: int) -> Ticks:
    """A column a source, a row a minute; sources of ten volatilities, each in its turn."""
    cents = list(bars(data, sources, seed).values())
    length = min(map(len, cents))
    columns = [scaled(of[:length], float(VOLATILITIES[k % len(VOLATILITIES)])) for k, of in enumerate(cents)]
    return np.stack(columns, axis=1)


def _ground(nodes: int, sources: int, seed: int) -> _Ground:
    ring = Ring.random(nodes, seed, PINNED.bits)
    firsts = np.array([ring.successor(key_of(f"source {k}", ring.bits)) for k in range(sources)])
    segments = (firsts[:, None] + np.arange(min(PINNED.processors, nodes))) % nodes
    publishers = np.random.default_rng([seed, nodes]).integers(0, nodes, sources)
    pairs = zip(publishers.tolist(), segments.tolist(), strict=True)
    multicast = sum(len(np.unique(routes(ring, [start], segment).nodes)) for start, segment in pairs)
    return _Ground(ring, segments, publishers, multicast)


def _between(ground: _Ground, rng: np.random.Generator) -> Ticks:
    """Hops from a node of each segment to a node of each other one."""
    count, width = ground.segments.shape
    senders = ground.segments[np.arange(count)[:, None], rng.integers(0, width, (count, count))]
    receivers = ground.segments[np.arange(count)[None, :], rng.integers(0, width, (count, count))]
    return np.maximum(hops(ground.ring, senders, receivers), 1)
