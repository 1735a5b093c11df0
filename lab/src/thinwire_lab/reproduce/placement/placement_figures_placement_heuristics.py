"""Figures 3 and 4: placements by the published heuristics and by ours, six measures. Simulated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from thinwire_lab.reproduce.dictionaries.thesis_sheet_dictionaries_plots import lines
from thinwire_lab.reproduce.dictionaries.thesis_sheet_dictionaries_sheet import Sheet
from thinwire_lab.reproduce.placement.placement_cells_placement_occasion import Occasion

SOLVERS = ("first-fit", "hybrid", "largest-sets", "ours")
MEASURES = {
    "hosts": ("hosts", 1),
    "solver_seconds": ("solver s", 1),
    "busy": ("cores busy %", 100),
    "p90": ("mean p90 ms", 1000),
    "late": ("messages late %", 100),
    "over": ("topics over %", 100),
}
"""a figure of a cell -> what it is called, and its unit"""
SHOWN = (*(name for name, _ in MEASURES.values()), "bound")
NOTES = {
    3: "published, in words: up to 9 % of the messages late, up to 13 % of the topics over their promise, 13 machines",
    4: "published, in words: up to 6 % of the messages late, up to 12 % of the topics over; fewer hosts as k' grows",
}
SIMULATED = "simulated; three runs of every host after placement; times are processor time"


def heuristics(occasion: Occasion) -> Iterator[Sheet]:
    """Figure 3: placements of a growing number of topics; requests of both released generators."""
    for kind in ("uni", "skew"):
        grid = [
            {"kind": kind, "solver": solver, "seed": seed, "n": n}
            for n in occasion.scale.sizes
            for solver in SOLVERS
            for seed in _seeds(occasion)
        ]
        found = occasion.placements(grid)
        rows = [(n, solver, *_mean(found, n=n, solver=solver)) for n in occasion.scale.sizes for solver in SOLVERS]
        title = f"figure 3, requests as released ({kind}), k = 6, mean of {occasion.scale.requests}"
        drawn = _drawn(occasion, f"figure-3-{kind}", title, rows, "topics")
        yield Sheet(title, ("topics", "solver", *SHOWN), rows, (NOTES[3], SIMULATED), drawn)


def hybrids(occasion: Occasion) -> Iterator[Sheet]:
    """Figure 4: the hybrid from first fit to largest sets, 50 topics."""
    n = min(50, max(occasion.scale.sizes))
    grid = [
        {"kind": "uni", "solver": "hybrid", "seed": seed, "n": n, "first": first}
        for first in range(1, 7)
        for seed in _seeds(occasion)
    ]
    found = occasion.placements(grid)
    rows = [(first, *_mean(found, first=first)) for first in range(1, 7)]
    title = f"figure 4, the hybrid, {n} topics, mean of {occasion.scale.requests}"
    drawn = _drawn(occasion, "figure-4", title, [(row[0], "hybrid", *row[1:]) for row in rows], "k'")
    yield Sheet(title, ("k'", *SHOWN), rows, (NOTES[4], SIMULATED), drawn)


def _seeds(occasion: Occasion) -> range:
    return range(1, occasion.scale.requests + 1)


def _mean(found: Sequence[Mapping[str, Any]], **wanted: Any) -> tuple[Any, ...]:
    """The measures of the cells with these parameters; those that gave up are left out."""
    kept = [one for one in found if one["hosts"] is not None and all(one[k] == v for k, v in wanted.items())]
    if not kept:
        return (None,) * len(SHOWN)
    means = tuple(float(np.mean([unit * one[name] for one in kept])) for name, (_, unit) in MEASURES.items())
    bounds = [one["bound"] for one in kept if one["bound"] is not None]
    return (*means, float(np.mean(bounds)) if bounds else None)


def _drawn(occasion: Occasion, stem: str, title: str, rows: list[tuple[Any, ...]], axis: str) -> list[Any]:
    """A picture a measure, a line a solver."""
    pictures = []
    for place, (name, _) in enumerate(MEASURES.values()):
        series = {}
        for solver in dict.fromkeys(row[1] for row in rows):
            points = [(row[0], row[2 + place]) for row in rows if row[1] == solver and row[2 + place] is not None]
            series[solver] = ([at for at, _ in points], [value for _, value in points])
        file = occasion.out / f"{stem}-{name.split()[0]}"
        pictures += lines(file, f"{title}: {name}", series, (axis, name))
    return pictures
