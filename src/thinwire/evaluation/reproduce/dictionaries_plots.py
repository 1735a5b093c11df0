"""Pictures of the sheets: lines, heat maps, boxes; PNG to look at, SVG to print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

COLOURS = ("#1f6f8b", "#d1495b", "#edae49", "#5c6b73", "#4fb0ae", "#8d6a9f", "#b8c4ce", "#2f4858", "#90a955", "#bc6c25")

Points = tuple[Sequence[float], Sequence[float]]
"""places and values of a line"""


def lines(
    stem: Path, title: str, series: Mapping[str, Points], axes: tuple[str, str], log: bool = False, dots: bool = False
) -> list[Path]:
    """One line a series; `axes`: what lies along them; `log`: places on a logarithmic scale."""
    figure, sheet = _sheet(title, axes)
    for place, (label, (at, values)) in enumerate(series.items()):
        style = "o" if dots else "-"
        sheet.plot(at, values, style, label=label, color=COLOURS[place % len(COLOURS)], markersize=3, linewidth=1.4)
    if log:
        sheet.set_xscale("log")
    figure.legend(frameon=False, ncols=4, loc="outside lower center", fontsize=8)
    return _save(figure, stem)


def heat(stem: Path, title: str, cells: Mapping[tuple[float, float], float], axes: tuple[str, str]) -> list[Path]:
    """A square for every (column, row), its value written in it."""
    figure, sheet = _sheet(title, axes)
    columns, rows = (sorted({key[side] for key in cells}) for side in (0, 1))
    values = [[cells.get((column, row), float("nan")) for column in columns] for row in rows]
    sheet.imshow(values, aspect="auto", origin="lower", cmap="viridis")
    for (column, row), value in cells.items():
        at = (columns.index(column), rows.index(row))
        sheet.text(*at, f"{value:.1f}", ha="center", va="center", fontsize=7, color="white")
    sheet.set_xticks(range(len(columns)), [f"{column:g}" for column in columns])
    sheet.set_yticks(range(len(rows)), [f"{row:g}" for row in rows])
    sheet.grid(False)
    return _save(figure, stem)


def boxes(stem: Path, title: str, groups: Mapping[str, Sequence[float]], axis: str) -> list[Path]:
    """The spread of every group."""
    figure, sheet = _sheet(title, ("", axis))
    sheet.boxplot(list(groups.values()), widths=0.5, showfliers=False)
    sheet.set_xticks(range(1, len(groups) + 1), list(groups), rotation=20, fontsize=8)
    return _save(figure, stem)


def bars(stem: Path, title: str, names: Sequence[str], series: Mapping[str, Sequence[float]], axis: str) -> list[Path]:
    """Groups of bars, one group a name."""
    figure, sheet = _sheet(title, ("", axis))
    width = 0.84 / max(len(series), 1)
    for place, (label, values) in enumerate(series.items()):
        left = [at + (place - (len(series) - 1) / 2) * width for at in range(len(names))]
        sheet.bar(left, values, width * 0.94, label=label, color=COLOURS[place % len(COLOURS)])
    sheet.set_xticks(range(len(names)), list(names), rotation=20, fontsize=8)
    figure.legend(frameon=False, ncols=4, loc="outside lower center", fontsize=8)
    return _save(figure, stem)


def _sheet(title: str, axes: tuple[str, str]) -> tuple[Any, Any]:
    # A figure of its own, never pyplot's: nothing global, and no window system is asked for.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    sheet = figure.add_subplot(1, 1, 1)
    sheet.set_title(title, loc="left", fontsize=11)
    sheet.set_xlabel(axes[0])
    sheet.set_ylabel(axes[1])
    sheet.spines[["top", "right"]].set_visible(False)
    sheet.grid(axis="y", color="#e6e9ec")
    sheet.set_axisbelow(True)
    return figure, sheet


def _save(figure: Any, stem: Path) -> list[Path]:
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.parent / f"{stem.name}.{form}" for form in ("png", "svg")]
    for path in paths:
        figure.savefig(path, dpi=150)
    return paths
