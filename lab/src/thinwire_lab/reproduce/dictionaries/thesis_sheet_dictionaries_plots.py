"""Pictures of the sheets: lines, heat maps, boxes; PNG to look at, SVG to print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from thinwire_lab.reproduce.figure_plots import save, sheet

COLOURS = ("#1f6f8b", "#d1495b", "#edae49", "#5c6b73", "#4fb0ae", "#8d6a9f", "#b8c4ce", "#2f4858", "#90a955", "#bc6c25")

Points = tuple[Sequence[float], Sequence[float]]
"""places and values of a line"""


def lines(
    stem: Path, title: str, series: Mapping[str, Points], axes: tuple[str, str], log: bool = False, dots: bool = False
) -> list[Path]:
    """One line a series; `axes`: what lies along them; `log`: places on a logarithmic scale."""
    figure, panel = _panel(title, axes)
    for place, (label, (at, values)) in enumerate(series.items()):
        style = "o" if dots else "-"
        panel.plot(at, values, style, label=label, color=COLOURS[place % len(COLOURS)], markersize=3, linewidth=1.4)
    if log:
        panel.set_xscale("log")
    figure.legend(frameon=False, ncols=4, loc="outside lower center", fontsize=8)
    return save(figure, stem)


def heat(stem: Path, title: str, cells: Mapping[tuple[float, float], float], axes: tuple[str, str]) -> list[Path]:
    """A square for every (column, row), its value written in it."""
    figure, panel = _panel(title, axes)
    columns, rows = (sorted({key[side] for key in cells}) for side in (0, 1))
    values = [[cells.get((column, row), float("nan")) for column in columns] for row in rows]
    panel.imshow(values, aspect="auto", origin="lower", cmap="viridis")
    for (column, row), value in cells.items():
        at = (columns.index(column), rows.index(row))
        panel.text(*at, f"{value:.1f}", ha="center", va="center", fontsize=7, color="white")
    panel.set_xticks(range(len(columns)), [f"{column:g}" for column in columns])
    panel.set_yticks(range(len(rows)), [f"{row:g}" for row in rows])
    panel.grid(False)
    return save(figure, stem)


def boxes(stem: Path, title: str, groups: Mapping[str, Sequence[float]], axis: str) -> list[Path]:
    """The spread of every group."""
    figure, panel = _panel(title, ("", axis))
    panel.boxplot(list(groups.values()), widths=0.5, showfliers=False)
    panel.set_xticks(range(1, len(groups) + 1), list(groups), rotation=20, fontsize=8)
    return save(figure, stem)


def bars(stem: Path, title: str, names: Sequence[str], series: Mapping[str, Sequence[float]], axis: str) -> list[Path]:
    """Groups of bars, one group a name."""
    figure, panel = _panel(title, ("", axis))
    width = 0.84 / max(len(series), 1)
    for place, (label, values) in enumerate(series.items()):
        left = [at + (place - (len(series) - 1) / 2) * width for at in range(len(names))]
        panel.bar(left, values, width * 0.94, label=label, color=COLOURS[place % len(COLOURS)])
    panel.set_xticks(range(len(names)), list(names), rotation=20, fontsize=8)
    figure.legend(frameon=False, ncols=4, loc="outside lower center", fontsize=8)
    return save(figure, stem)


def _panel(title: str, axes: tuple[str, str]) -> tuple[Any, Any]:
    """An empty figure with one panel, and what lies along its axes written there."""
    figure, panel = sheet(title, width=9.0, height=4.6)
    panel.set_xlabel(axes[0])
    panel.set_ylabel(axes[1])
    return figure, panel
