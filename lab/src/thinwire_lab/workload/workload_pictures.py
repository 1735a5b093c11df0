"""Policies of assignment side by side: which of them no other one beats, and a picture of that."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from thinwire_lab.reproduce.figure_plots import OURS, THEIRS, save, sheet
from thinwire_lab.workload.assignment import Costs


def unbeaten(costs: Mapping[str, Costs]) -> list[str]:
    """The policies that none of the others beats in wasted deliveries without a longer p90 (Pareto).

    >>> near, far, bad = (Costs(0, wasted, 0, p90, 0, 1) for wasted, p90 in ((9, 1), (2, 5), (9, 6)))
    >>> unbeaten({"near": near, "far": far, "bad": bad})
    ['near', 'far']
    """
    return [name for name, own in costs.items() if not any(_beats(other, own) for other in costs.values())]


def _beats(one: Costs, other: Costs) -> bool:
    pair = (one.wasted, one.p90), (other.wasted, other.p90)
    return pair[0] != pair[1] and all(ours <= theirs for ours, theirs in zip(*pair, strict=True))


def pareto(costs: Mapping[str, Costs], stem: Path) -> list[Path]:
    """Wasted deliveries over p90 latency, a point a policy; a line joins those that none beats."""
    figure, axes = sheet("Assignment: wasted deliveries against latency", width=7.0)
    axes.set_xlabel("p90 latency to the broker, ms")
    axes.set_ylabel("wasted deliveries an event")
    best = sorted((costs[name].p90, costs[name].wasted) for name in unbeaten(costs))
    axes.plot(*zip(*best, strict=True), color=THEIRS, zorder=1)
    for name, own in costs.items():
        axes.scatter([own.p90], [own.wasted], color=OURS if name.startswith("joint") else "#5c6b73", zorder=2)
        axes.annotate(name, (own.p90, own.wasted), xytext=(5, 4), textcoords="offset points", fontsize=8)
    axes.set_xscale("log")
    if min(own.wasted for own in costs.values()) > 0:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("{x:g}")
    return save(figure, stem)
