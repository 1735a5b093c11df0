"""The conformance figures as pictures: curves over what is varied, a panel a measure."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill
from typing import Any

from thinwire_lab.reproduce.conformance.conformance_cells_conformance_figure import Figure, Rows
from thinwire_lab.reproduce.figure_plots import save, sheet

COLOURS = {"SF": "#5c6b73", "MFD": "#b08a3e", "MCF": "#a4564f", "SRT": "#4fb0ae", "SRI": "#1f6f8b"}
OTHERS = ("#1f6f8b", "#5c6b73", "#b08a3e", "#a4564f", "#4fb0ae", "#8a76a8")


def draw(figure: Figure, rows: Rows, folder: Path) -> list[Path]:
    """One figure: PNG to look at, SVG to print."""
    panels = len(figure.measures)
    title = fill(f"{figure.what} (figure {figure.number})", 70)
    sheet_, axes = sheet(title, width=4.6 * panels + 1.0, panels=panels)
    every = [axes] if panels == 1 else axes
    for panel, (label, measure) in zip(every, figure.measures.items(), strict=True):
        _curves(panel, figure, rows, measure)
        panel.set_ylabel(label)
        panel.set_xlabel(figure.axis)
        panel.set_ylim(bottom=0)
    every[0].legend(frameon=False, fontsize=9)
    return save(sheet_, folder / f"figure-{figure.number}")


def _curves(axes: Any, figure: Figure, rows: Rows, measure: str) -> None:
    for place, name in enumerate(figure.series):
        points = [(row[figure.axis], row[f"{name} {measure}"]) for row in rows if f"{name} {measure}" in row]
        if points:
            colour = COLOURS.get(name, OTHERS[place % len(OTHERS)])
            axes.plot(*zip(*points, strict=True), label=name, color=colour, marker="o", markersize=3)
    if figure.axis == "nodes":
        # On this axis a straight line is logarithmic growth.
        axes.set_xscale("log", base=2)
        sizes = [row["nodes"] for row in rows]
        axes.set_xticks(sizes, [str(size) for size in sizes])
