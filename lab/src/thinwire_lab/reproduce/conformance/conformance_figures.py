"""Figures of the conformance thesis: the varied parameter, the measures, and the statement of the thesis on each.

The scheme of the thesis, MCF, shares upper filters among thresholds and then misses deliveries. Here it has a filter
for every threshold, which is exact and costs more. Our own schemes are SRT and SRI, and the watched predicate for
composite subscriptions.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from textwrap import fill
from typing import Any

from thinwire.analysis.analysis_run import Cell
from thinwire_lab.overlay_sim.dissemination.cost_model import DEFAULT_MODEL
from thinwire_lab.overlay_sim.dissemination.schemes import SCHEMES
from thinwire_lab.overlay_sim.filters.conjunction_costs import SCHEMES as COMPOSITE_SCHEMES
from thinwire_lab.reproduce.conformance import conformance_cells as cells
from thinwire_lab.reproduce.conformance.conformance_cells import ConformanceFigure, ConformanceScale, Rows, composite
from thinwire_lab.reproduce.experiment import select
from thinwire_lab.reproduce.figure_plots import make_figure, save

NAME = "conformance"
PAPER = "L. Chen: Conformance Preserving Data Dissemination for Large-Scale Peer to Peer Systems, dissertation, 2011"

DENSITY = 62.5
"""subscriptions per node if they grow with the network: 100,000 on 1,600 nodes"""
SHARES = (0.0, 0.1, 0.2, 0.3, 0.4)
MODERATE = 0.2
DIMENSIONS = (2, 3, 4, 5)


def select_figures(figure: str | None) -> list[ConformanceFigure]:
    """Return one figure, or all."""
    return list(select({}, FIGURES, None, figure).values())


def _thresholds(scale: ConformanceScale) -> list[Cell]:
    return [{"threshold": c, **scale.common} for c in range(1, DEFAULT_MODEL.largest + 1)]


def _networks(scale: ConformanceScale) -> list[Cell]:
    return [{"nodes": n, "subscriptions": scale.subscriptions, **scale.common} for n in scale.sizes]


def _attacked(scale: ConformanceScale) -> list[Cell]:
    fixed = {"nodes": min(400, scale.nodes), "subscriptions": scale.subscriptions, **scale.common}
    return [{"synthetic": share, **fixed} for share in SHARES]


def _growing(scale: ConformanceScale) -> list[Cell]:
    sizes = [(n, max(round(DENSITY * n), scale.sources)) for n in scale.sizes]
    return [{"nodes": n, "subscriptions": s, "synthetic": MODERATE, **scale.common} for n, s in sizes]


def _composite(scale: ConformanceScale) -> list[Cell]:
    return [{"dimension": 2, **cell} for cell in _networks(scale)]


def _dimensions(scale: ConformanceScale) -> list[Cell]:
    fixed = {"nodes": min(400, scale.nodes), "subscriptions": scale.subscriptions, **scale.common}
    return [{"dimension": dimension, **fixed} for dimension in DIMENSIONS if dimension <= scale.sources]


_COSTS = {
    "maintenance, messages per event": "maintenance",
    "delivery, messages per event": "delivery",
    "dissemination, messages per event": "total",
}
_LATENCY = {"latency, hops": "latency"}
_ALL = tuple(SCHEMES)

_by_network = partial(ConformanceFigure, axis="nodes", series=_ALL, function=cells.dissemination, cells=_networks)
_by_growing_network = partial(_by_network, cells=_growing)
_composite_by_network = partial(
    ConformanceFigure, axis="nodes", series=tuple(COMPOSITE_SCHEMES), function=composite, cells=_composite
)
_composite_by_sources = partial(_composite_by_network, axis="dimension", cells=_dimensions)

_FIGURES = [
    ConformanceFigure(
        "4.2",
        "deliveries of OnlineGreedy relative to the offline optimum, by threshold",
        "about 1.5 for most thresholds from 1 to 63, average over all stocks",
        {"deliveries relative to the optimum": "ratio"},
        axis="threshold",
        series=("all", "aig", "bac", "ibm", "spy", "sample"),
        function=cells.ratio,
        cells=_thresholds,
    ),
    _by_network(
        "4.6",
        "messages to register a subscription, by network size",
        "logarithmic; almost no difference between the schemes",
        {"messages per subscription": "subscription"},
    ),
    _by_network(
        "4.7",
        "messages per event, by network size",
        "logarithmic; maintenance SF highest, MCF below MFD; delivery SF lowest, MFD highest; in total MCF 70 % below "
        "SF and 30 % below MFD",
        _COSTS,
    ),
    _by_network(
        "4.8",
        "hops from publisher to subscriber, by network size",
        "logarithmic; MFD highest, MCF lowest",
        _LATENCY,
    ),
    _by_network(
        "4.9",
        "deliveries of thresholds per event, by the share of sources with attack streams",
        "SF lowest, MCF close to it, MFD diverges",
        {"deliveries per event": "fired_thresholds"},
        axis="synthetic",
        cells=_attacked,
    ),
    _by_growing_network(
        "4.10",
        "messages per event, by network size; subscriptions grow with it, a fifth of the sources are attack streams",
        "linear in subscriptions; maintenance SF highest, MCF lowest; delivery MFD highest; in total MFD reaches "
        "SF at 1,600 nodes and 100,000 subscriptions",
        _COSTS,
    ),
    _by_growing_network(
        "4.11",
        "hops from publisher to subscriber, by network size; subscriptions grow with it",
        "SF highest from 50,000 subscriptions on, MCF lowest",
        _LATENCY,
    ),
    _composite_by_network(
        "5.7",
        "messages to register a composite subscription, by network size",
        "logarithmic",
        {"messages per subscription": "subscription"},
        series=("any",),
    ),
    _composite_by_network(
        "5.8",
        "messages per subscription and minute, by network size; two sources each",
        "maintenance, delivery and their sum are logarithmic",
        {name.replace("per event", "per subscription and minute"): of for name, of in _COSTS.items()},
    ),
    _composite_by_network(
        "5.9",
        "hops from publisher to subscriber, by network size; two sources each",
        "logarithmic",
        _LATENCY,
    ),
    _composite_by_sources(
        "5.10",
        "messages per subscription and minute, by the number of its sources",
        "chaining lowest, fanning highest, hybrid close to chaining",
        {"maintenance, messages": "maintenance", "requests only, messages": "requests"},
    ),
    _composite_by_sources(
        "5.11",
        "hops from publisher to subscriber, by the number of sources",
        "fanning lowest, chaining highest, hybrid close to fanning",
        _LATENCY,
    ),
]

FIGURES: dict[str, ConformanceFigure] = {figure.number: figure for figure in _FIGURES}
"""by number, in the order of the thesis"""


COLOURS = {"SF": "#5c6b73", "MFD": "#b08a3e", "MCF": "#a4564f", "SRT": "#4fb0ae", "SRI": "#1f6f8b"}
OTHERS = ("#1f6f8b", "#5c6b73", "#b08a3e", "#a4564f", "#4fb0ae", "#8a76a8")


def draw(figure: ConformanceFigure, rows: Rows, folder: Path) -> list[Path]:
    """Plot a figure as PNG and SVG."""
    panels = len(figure.measures)
    title = fill(f"{figure.what} (figure {figure.number})", 70)
    plot, axes = make_figure(title, width=4.6 * panels + 1.0, panels=panels)
    panes = [axes] if panels == 1 else axes
    for panel, (label, measure) in zip(panes, figure.measures.items(), strict=True):
        _curves(panel, figure, rows, measure)
        panel.set_ylabel(label)
        panel.set_xlabel(figure.axis)
        panel.set_ylim(bottom=0)
    panes[0].legend(frameon=False, fontsize=9)
    return save(plot, folder / f"figure-{figure.number}")


def _curves(axes: Any, figure: ConformanceFigure, rows: Rows, measure: str) -> None:
    for index, name in enumerate(figure.series):
        points = [(row[figure.axis], row[f"{name} {measure}"]) for row in rows if f"{name} {measure}" in row]
        if points:
            colour = COLOURS.get(name, OTHERS[index % len(OTHERS)])
            axes.plot(*zip(*points, strict=True), label=name, color=colour, marker="o", markersize=3)
    if figure.axis == "nodes":
        # On this axis a straight line is logarithmic growth.
        axes.set_xscale("log", base=2)
        sizes = [row["nodes"] for row in rows]
        axes.set_xticks(sizes, [str(size) for size in sizes])
