"""Policies of assignment side by side: which of them no other one beats, and a picture of that.

What is in a workload, as pictures: interests, places, and what the one tells about the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from thinwire_lab.reproduce.figure_plots import OURS, THEIRS, save, sheet
from thinwire_lab.workload.assignment import AssignmentCosts
from thinwire_lab.workload.interests.hierarchy import Hierarchy
from thinwire_lab.workload.interests.interests import Interests
from thinwire_lab.workload.interests.transformations import intervals
from thinwire_lab.workload.random_rows import Floats, Rows


def unbeaten(costs: Mapping[str, AssignmentCosts]) -> list[str]:
    """The policies that none of the others beats in wasted deliveries without a longer p90 (Pareto).

    >>> near, far, bad = (AssignmentCosts(0, wasted, 0, p90, 0, 1) for wasted, p90 in ((9, 1), (2, 5), (9, 6)))
    >>> unbeaten({"near": near, "far": far, "bad": bad})
    ['near', 'far']
    """
    return [name for name, own in costs.items() if not any(_beats(other, own) for other in costs.values())]


def _beats(one: AssignmentCosts, other: AssignmentCosts) -> bool:
    pair = (one.wasted, one.p90), (other.wasted, other.p90)
    return pair[0] != pair[1] and all(ours <= theirs for ours, theirs in zip(*pair, strict=True))


def pareto(costs: Mapping[str, AssignmentCosts], stem: Path) -> list[Path]:
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


COLOURS = ("#b08a3e", "#1f6f8b", "#a4564f", "#4fb0ae", "#8a76a8", "#5c6b73")
MOST_REGIONS = 6
"""that have a panel of their own, those with the most subscribers"""


def heat_maps(interests: Interests, title: str, stem: Path) -> list[Path]:
    """How many subscribers interests have, in all regions and in each: the last axis to the right, the others up."""
    shown = busiest(interests)
    figure, panels = _panels("", 1 + len(shown), 3.4)
    base = interests.counts[interests.base()]
    grid = base.reshape(-1, *base.shape[-2:])
    maps = [("all regions", grid.sum(axis=-1)), *((interests.regions[n], grid[..., n]) for n in shown)]
    for panel, (name, counts) in zip(panels, maps, strict=True):
        # Counts differ by powers of ten: a linear scale would show three dots.
        image = panel.imshow(np.log10(1.0 + counts), aspect="auto", origin="lower", cmap="viridis")
        panel.set_title(name, fontsize=10)
        panel.set_xlabel(f"{interests.axes[-1].name}s")
        panel.set_ylabel("")
        panel.grid(False)
    panels[0].set_ylabel(", ".join(f"{axis.name}s" for axis in interests.axes[:-1]))
    figure.colorbar(image, ax=panels, label="subscribers, log10(1 + n)")
    figure.suptitle(title, fontsize=11, x=0.01, ha="left")
    return save(figure, stem)


def plot_axes(interests: Interests, title: str, stem: Path) -> list[Path]:
    """Of which regions the subscribers of every atomic node are, along each axis."""
    figure, panels = _panels(title, len(interests.axes), 5.4)
    for panel, axis in zip(panels, interests.axes, strict=True):
        shares = region_shares(interests, axis)
        ends = np.cumsum(shares, axis=1)
        places = np.arange(axis.leaves.size)
        for region, name in enumerate(interests.regions):
            bottom = ends[:, region] - shares[:, region]
            colour = COLOURS[region % len(COLOURS)]
            panel.bar(places, shares[:, region], 1.0, bottom, label=name, color=colour, linewidth=0)
        panel.set_xlabel(f"{axis.name}s, in the order of the hierarchy")
        panel.set_ylabel("share of the subscribers")
        panel.margins(x=0)
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, frameon=False, ncols=len(names), loc="outside lower center", fontsize=9)
    return save(figure, stem)


def plot_information(steps: Mapping[str, Mapping[str, float]], stem: Path) -> list[Path]:
    """How many bits each axis tells about the region, step by step."""
    figure, [panel] = _panels("What interests tell about places", 1, 7.0)
    names = list(next(iter(steps.values())))
    for place, name in enumerate(names):
        left = np.arange(len(steps)) + (place - (len(names) - 1) / 2) * 0.8 / len(names)
        values = [step[name] for step in steps.values()]
        panel.bar(left, values, 0.76 / len(names), label=name, color=COLOURS[place % len(COLOURS)])
    panel.set_xticks(range(len(steps)), list(steps))
    panel.set_ylabel("bits about the region")
    panel.legend(frameon=False, fontsize=9)
    return save(figure, stem)


def places(points: Floats, region: Rows, regions: Sequence[str], brokers: Floats, stem: Path) -> list[Path]:
    """Subscribers and brokers on the two directions in which they are furthest apart."""
    figure, [panel] = _panels("Places of subscribers, and brokers", 1, 7.0)
    middle = points.mean(axis=0)
    _, _, turns = np.linalg.svd(points - middle, full_matrices=False)
    main = turns[:2].T
    for number, name in enumerate(regions):
        flat = (points[region == number] - middle) @ main
        colour = COLOURS[number % len(COLOURS)]
        panel.scatter(flat[:, 0], _second(flat), s=3, alpha=0.4, label=name, color=colour, linewidth=0)
    if len(brokers):
        flat = (brokers - middle) @ main
        panel.scatter(flat[:, 0], _second(flat), s=18, marker="^", color="#22272b", label="brokers")
    panel.set_xlabel("ms along the first direction")
    panel.set_ylabel("ms along the second")
    panel.legend(frameon=False, fontsize=9, markerscale=2)
    return save(figure, stem)


def region_shares(interests: Interests, axis: Hierarchy) -> Floats:
    """Of every atomic node of an axis the shares of the regions, a row each; zeros where nobody is."""
    others = tuple(place for place, other in enumerate(interests.axes) if other is not axis)
    counts = interests.counts.sum(axis=others)[axis.leaves]
    return np.asarray(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1e-300))


def middle_of(interests: Interests, axis: Hierarchy) -> Floats:
    """Of every region where its subscribers are along an axis, in the mean: 0 at the left end, 1 at the right."""
    others = tuple(place for place, other in enumerate(interests.axes) if other is not axis)
    counts = interests.counts.sum(axis=others)
    centres = intervals(axis).mean(axis=1)
    return np.asarray(centres @ counts / np.maximum(counts.sum(axis=0), 1e-300))


def busiest(interests: Interests) -> list[int]:
    """The regions with the most subscribers, in their own order."""
    return sorted(np.argsort(-interests.mix, kind="stable")[:MOST_REGIONS].tolist())


def _second(flat: Floats) -> Floats:
    return flat[:, 1] if flat.shape[1] > 1 else np.zeros(len(flat))


def _panels(title: str, count: int, width: float) -> tuple[Any, list[Any]]:
    figure, axes = sheet(title, width=width * count, panels=count)
    return figure, [axes] if count == 1 else list(axes)
