"""Points of the conformance figures, as functions of grid cells.

Parameters and results are JSON values, so that a sweep runs in this process or as a Spark job. `data` is a folder of
recordings, or None for the market sample.

>>> point = dissemination(nodes=100, subscriptions=300, sources=2)
>>> point["SRI maintenance"] < point["SF maintenance"] / 5
True

Conjunctions on Chord. The values of a source go to its segment of the ring, as one multicast per minute. A conjunction
is stored at a node of the segment of its strongest source. A request is routed to a node of the other segment,
and the reply is direct; a node requests each value at most once per minute. A delivery goes to the subscriber as one
message with the values of all sources.

>>> point = composite(nodes=100, subscriptions=60, dimension=3, sources=6)
>>> point["watched requests"] < point["chaining requests"] < point["fanning requests"]
True
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from thinwire.analysis.analysis_run import Cell, CellRunner
from thinwire.errors import ConfigError
from thinwire_lab.overlay_sim.chord.ring import Ring, hops, key_of, routes
from thinwire_lab.overlay_sim.dissemination.cost_model import DEFAULT_MODEL
from thinwire_lab.overlay_sim.dissemination.overlay_simulation import churn, simulate
from thinwire_lab.overlay_sim.dissemination.schemes import SCHEMES
from thinwire_lab.overlay_sim.filters.conjunction_costs import SCHEMES as COMPOSITE_SCHEMES
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
    """Size of the computation.

    nodes: largest network; sizes double from 100
    data: folder of recordings; by default the market sample
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
        """The network sizes.

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
    """A reproduced figure of the thesis.

    statement: statement of the thesis about it
    measures: label -> name in the results of a cell; one panel each
    axis: the varied parameter
    series: the curves
    """

    number: str
    what: str
    statement: str
    measures: Mapping[str, str]
    axis: str
    series: tuple[str, ...]
    function: Function
    cells: Callable[[ConformanceScale], list[Cell]]

    def rows(self, scale: ConformanceScale, run: CellRunner) -> list[dict[str, Any]]:
        """Return the points: parameters and results of each cell."""
        grid = self.cells(scale)
        return [{**cell, **found} for cell, found in zip(grid, run(self.function, grid, _weight), strict=True)]


def describe_curves(rows: Rows, figure: ConformanceFigure, measure: str) -> str:
    """Describe each curve by its first, last and highest point, in order of the last.

    >>> figure = ConformanceFigure("0", "", "", {}, "nodes", ("SF", "MFD"), dict, lambda scale: [])
    >>> points = [(2.0, 1.0), (3.0, 2.0), (3.0, 1.0)]
    >>> describe_curves([{"SF cost": a, "MFD cost": b} for a, b in points], figure, "cost")
    'MFD 1 -> 1 (highest 2), SF 2 -> 3 (x1.50)'
    """
    curves = {
        name: [row[f"{name} {measure}"] for row in rows] for name in figure.series if f"{name} {measure}" in rows[0]
    }
    in_order = sorted(curves.items(), key=lambda pair: pair[1][-1])
    return ", ".join(f"{name} {_describe_curve(points)}" for name, points in in_order)


def _describe_curve(points: Sequence[float]) -> str:
    first, last, highest = points[0], points[-1], max(points)
    text = f"{first:.3g} -> {last:.3g}"
    if highest > max(first, last):
        return f"{text} (highest {highest:.3g})"
    return f"{text} (x{last / first:.2f})" if first else text


def _weight(cell: Cell) -> float:
    """Return the work of a cell: routes of subscriptions and fingers of nodes."""
    return float(cell.get("nodes", 100) + cell.get("subscriptions", 100))


def ratio(threshold: int, data: str | None = None, sources: int = SOURCES, seed: int = 1) -> dict[str, float]:
    """Return deliveries of OnlineGreedy relative to the optimum, on average and per stock."""
    by_stock: dict[str, list[float]] = {}
    for name, values in _streams(data, sources, seed, 0.0).items():
        found = len(greedy(values, threshold)) / len(global_optimum(values, threshold))
        by_stock.setdefault(name.partition("/")[0], []).append(found)
    ratios = [found for stock in by_stock.values() for found in stock]
    return {"all ratio": float(np.mean(ratios)), **{f"{k} ratio": float(np.mean(v)) for k, v in by_stock.items()}}


def dissemination(
    nodes: int,
    subscriptions: int,
    synthetic: float = 0.0,
    data: str | None = None,
    sources: int = SOURCES,
    seed: int = 1,
) -> dict[str, float]:
    """Return the costs of every scheme on one network; `synthetic` is the share of sources with attack streams."""
    streams = _streams(data, sources, seed, synthetic)
    found = simulate(nodes, streams, subscriptions, tuple(SCHEMES), seed)
    measures = {name: costs.document() for name, costs in found.items()}
    return {f"{name} {measure}": value for name, document in measures.items() for measure, value in document.items()}


def churn_costs(
    share: float,
    nodes: int,
    subscriptions: int,
    copies: bool = False,
    data: str | None = None,
    sources: int = 6,
    seed: int = 1,
) -> dict[str, float]:
    """Return the churn costs of every scheme if this share of nodes is replaced per interval, as mean over sources."""
    streams = list(_streams(data, sources, seed, 0.0).values())
    found: dict[str, float] = {}
    for name in SCHEMES:
        runs = [churn(nodes, values, subscriptions, share, name, copies, seed + k) for k, values in enumerate(streams)]
        documents = [run.document() for run in runs]
        found |= {f"{name} {measure}": float(np.mean([d[measure] for d in documents])) for measure in documents[0]}
    return found


@lru_cache(maxsize=4)
def _streams(data: str | None, sources: int, seed: int, synthetic: float) -> Streams:
    """Return bars in ticks of half a standard deviation; the last ones are replaced by attacks of equal length."""
    streams = {name: scaled(cents, SIGMA) for name, cents in bars(data, sources, seed).items()}
    replaced = list(streams)[len(streams) - round(synthetic * len(streams)) :]
    for number, name in enumerate(replaced):
        streams[name] = attack(len(streams[name]), seed + number, DEFAULT_MODEL.steepness, DEFAULT_MODEL.largest)
    return streams


TRAINING = 0.1
"""share of the values used to compute the strength of predicates"""


class _Layout(NamedTuple):
    """Segments on a ring: a row of nodes for each source, its publisher, and the messages of a multicast to all."""

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
    """Return the costs of conjunctions of `dimension` sources per subscription and minute, under every scheme."""
    values = _values(data, sources, seed)
    before = max(2, int(TRAINING * len(values)))
    subscribed = draw(change_rates(values[:before]), dimension, subscriptions, seed, DEFAULT_MODEL.largest)
    layout, rng = _layout(nodes, values.shape[1], seed), np.random.default_rng([seed, nodes, dimension])
    width = layout.segments.shape[1]
    homes = rng.integers(0, nodes, subscriptions)
    stored = layout.segments[subscribed.sources[:, 0], np.arange(subscriptions) % width]
    delivery_hops = float(hops(layout.ring, stored, homes).mean())
    found = {"any subscription": float(hops(layout.ring, homes, stored).mean())}
    publish_hops = float(hops(layout.ring, layout.publishers[:, None], layout.segments).mean())
    segment_hops = _segment_hops(layout, rng)
    for name in COMPOSITE_SCHEMES:
        costs = _costs(values[before:], subscribed, name, segment_hops, width, layout.multicast)
        delivery = costs["fired"] * delivery_hops
        found |= {f"{name} {measure}": costs[measure] for measure in ("requests", "maintenance")}
        found |= {f"{name} delivery": delivery, f"{name} total": costs["maintenance"] + delivery}
        found[f"{name} latency"] = publish_hops + costs["latency"] + delivery_hops
    return found


def _costs(
    values: Ticks, subscribed: Conjunctions, name: str, segment_hops: Ticks, width: int, multicast: int
) -> dict[str, float]:
    costs = conjunction_costs(values, subscribed, COMPOSITE_SCHEMES[name], segment_hops, width)
    share = 1 / (costs.subscriptions * costs.ticks)
    requests = costs.distinct_messages * share
    return {
        "requests": requests,
        "maintenance": requests + multicast / costs.subscriptions,
        "fired": costs.fired * share,
        "latency": costs.latency,
    }


@lru_cache(maxsize=4)
def _values(data: str | None, sources: int, seed: int) -> Ticks:
    """Return values with one column per source and one row per minute; sources have ten volatilities in turn."""
    cents = list(bars(data, sources, seed).values())
    length = min(map(len, cents))
    columns = [scaled(bar[:length], float(VOLATILITIES[k % len(VOLATILITIES)])) for k, bar in enumerate(cents)]
    return np.stack(columns, axis=1)


def _layout(nodes: int, sources: int, seed: int) -> _Layout:
    ring = Ring.random(nodes, seed, DEFAULT_MODEL.bits)
    firsts = np.array([ring.successor(key_of(f"source {k}", ring.bits)) for k in range(sources)])
    segments = (firsts[:, None] + np.arange(min(DEFAULT_MODEL.processors, nodes))) % nodes
    publishers = np.random.default_rng([seed, nodes]).integers(0, nodes, sources)
    pairs = zip(publishers.tolist(), segments.tolist(), strict=True)
    multicast = sum(len(np.unique(routes(ring, [start], segment).nodes)) for start, segment in pairs)
    return _Layout(ring, segments, publishers, multicast)


def _segment_hops(layout: _Layout, rng: np.random.Generator) -> Ticks:
    """Return hops from a node of each segment to a node of each other one."""
    count, width = layout.segments.shape
    senders = layout.segments[np.arange(count)[:, None], rng.integers(0, width, (count, count))]
    receivers = layout.segments[np.arange(count)[None, :], rng.integers(0, width, (count, count))]
    return np.maximum(hops(layout.ring, senders, receivers), 1)
