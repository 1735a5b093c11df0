"""Plots of workloads: interests, regions and locations, and the costs of assignment policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from thinwire_lab.reproduce.figure_plots import OURS, THEIRS, make_figure, save
from thinwire_lab.workload.assignment.assignment_costs import AssignmentCosts
from thinwire_lab.workload.interests.hierarchy import Hierarchy
from thinwire_lab.workload.interests.interests import Interests
from thinwire_lab.workload.interests.transformations import intervals
from thinwire_lab.workload.random_rows import Floats, Ints


def pareto_optimal(costs: Mapping[str, AssignmentCosts]) -> list[str]:
    """Return the policies that no other policy dominates in wasted deliveries and p90 latency (Pareto).

    >>> near, far, bad = (AssignmentCosts(0, wasted, 0, p90, 0, 1) for wasted, p90 in ((9, 1), (2, 5), (9, 6)))
    >>> pareto_optimal({"near": near, "far": far, "bad": bad})
    ['near', 'far']
    """
    return [name for name, own in costs.items() if not any(_dominates(other, own) for other in costs.values())]


def _dominates(first: AssignmentCosts, second: AssignmentCosts) -> bool:
    ours, theirs = (first.wasted, first.p90), (second.wasted, second.p90)
    return ours != theirs and ours[0] <= theirs[0] and ours[1] <= theirs[1]


def plot_pareto(costs: Mapping[str, AssignmentCosts], stem: Path) -> list[Path]:
    """Plot wasted deliveries against p90 latency, with a line through the Pareto-optimal policies."""
    figure, axes = make_figure("Assignment: wasted deliveries against latency", width=7.0)
    axes.set_xlabel("p90 latency to the broker, ms")
    axes.set_ylabel("wasted deliveries per event")
    best = sorted((costs[name].p90, costs[name].wasted) for name in pareto_optimal(costs))
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
"""number of regions with a panel of their own, by subscribers"""


def plot_heat_maps(interests: Interests, title: str, stem: Path) -> list[Path]:
    """Plot subscribers by interest, for all regions and for each.

    The last axis is horizontal; all others are combined on the vertical axis.
    """
    shown = largest_regions(interests)
    figure, panels = _panels("", 1 + len(shown), 3.4)
    counts = interests.counts[interests.base()]
    grid = counts.reshape(-1, *counts.shape[-2:])
    maps = [("all regions", grid.sum(axis=-1)), *((interests.regions[n], grid[..., n]) for n in shown)]
    for panel, (name, counts) in zip(panels, maps, strict=True):
        # On a linear scale only the largest counts are visible.
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
    """Plot the shares of the regions for each atomic node, along each axis."""
    figure, panels = _panels(title, len(interests.axes), 5.4)
    for panel, axis in zip(panels, interests.axes, strict=True):
        shares = region_shares(interests, axis)
        ends = np.cumsum(shares, axis=1)
        positions = np.arange(axis.leaves.size)
        for region, name in enumerate(interests.regions):
            bottom = ends[:, region] - shares[:, region]
            colour = COLOURS[region % len(COLOURS)]
            panel.bar(positions, shares[:, region], 1.0, bottom, label=name, color=colour, linewidth=0)
        panel.set_xlabel(f"{axis.name}s, in the order of the hierarchy")
        panel.set_ylabel("share of the subscribers")
        panel.margins(x=0)
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, frameon=False, ncols=len(names), loc="outside lower center", fontsize=9)
    return save(figure, stem)


def plot_information(steps: Mapping[str, Mapping[str, float]], stem: Path) -> list[Path]:
    """Plot the information of each axis about the region in bits, by step."""
    figure, [panel] = _panels("Information of interests about regions", 1, 7.0)
    names = list(next(iter(steps.values())))
    for index, name in enumerate(names):
        left = np.arange(len(steps)) + (index - (len(names) - 1) / 2) * 0.8 / len(names)
        values = [step[name] for step in steps.values()]
        panel.bar(left, values, 0.76 / len(names), label=name, color=COLOURS[index % len(COLOURS)])
    panel.set_xticks(range(len(steps)), list(steps))
    panel.set_ylabel("bits about the region")
    panel.legend(frameon=False, fontsize=9)
    return save(figure, stem)


def plot_locations(points: Floats, region: Ints, regions: Sequence[str], brokers: Floats, stem: Path) -> list[Path]:
    """Plot subscribers and brokers on their two principal axes."""
    figure, [panel] = _panels("Locations of subscribers and brokers", 1, 7.0)
    middle = points.mean(axis=0)
    _, _, directions = np.linalg.svd(points - middle, full_matrices=False)
    axes = directions[:2].T
    for number, name in enumerate(regions):
        projected = (points[region == number] - middle) @ axes
        colour = COLOURS[number % len(COLOURS)]
        panel.scatter(projected[:, 0], _second(projected), s=3, alpha=0.4, label=name, color=colour, linewidth=0)
    if len(brokers):
        projected = (brokers - middle) @ axes
        panel.scatter(projected[:, 0], _second(projected), s=18, marker="^", color="#22272b", label="brokers")
    panel.set_xlabel("ms along the first direction")
    panel.set_ylabel("ms along the second")
    panel.legend(frameon=False, fontsize=9, markerscale=2)
    return save(figure, stem)


def region_shares(interests: Interests, axis: Hierarchy) -> Floats:
    """Return the shares of the regions for each atomic node of an axis, one row each; zeros without subscribers."""
    others = tuple(index for index, other in enumerate(interests.axes) if other is not axis)
    counts = interests.counts.sum(axis=others)[axis.leaves]
    return np.asarray(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1e-300))


def region_centres(interests: Interests, axis: Hierarchy) -> Floats:
    """Return the mean position of the subscribers of each region along an axis, from 0 to 1."""
    others = tuple(index for index, other in enumerate(interests.axes) if other is not axis)
    counts = interests.counts.sum(axis=others)
    middles = intervals(axis).mean(axis=1)
    return np.asarray(middles @ counts / np.maximum(counts.sum(axis=0), 1e-300))


def largest_regions(interests: Interests) -> list[int]:
    """Return the regions with the most subscribers, in ascending order."""
    return sorted(np.argsort(-interests.mix, kind="stable")[:MOST_REGIONS].tolist())


def _second(projected: Floats) -> Floats:
    return projected[:, 1] if projected.shape[1] > 1 else np.zeros(len(projected))


def _panels(title: str, count: int, width: float) -> tuple[Any, list[Any]]:
    figure, axes = make_figure(title, width=width * count, panels=count)
    return figure, [axes] if count == 1 else list(axes)
