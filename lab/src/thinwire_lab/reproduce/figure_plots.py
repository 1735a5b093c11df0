"""Plots of figures as PNG and SVG files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from thinwire_lab.reproduce.virtual_events.virtual_event_figures import KINDS, PUBLISHED, STAGES, ChainFigure, Stages

THEIRS, OURS = "#b8c4ce", "#1f6f8b"
STAGE_COLOURS = ("#5c6b73", "#1f6f8b", "#4fb0ae", "#b8c4ce")
AXIS = "MB per million events"
LINES = {"json": "#5c6b73", "thinwire": "#1f6f8b"}


def figure_5(sizes: Mapping[str, float], folder: Path) -> list[Path]:
    """Plot published and measured sizes of the formats."""
    figure, axes = make_figure("Baseline without reduction (figure 5)", width=7.0)
    names = list(sizes)
    published = [float(PUBLISHED[name]) for name in names]
    series = {"published": published, "generated building": list(sizes.values())}
    _groups(axes, names, series, (THEIRS, OURS))
    return save(figure, folder / "figure-5")


def figure_6(stages: Sequence[Stages], folder: Path) -> list[Path]:
    """Plot four bars per format: raw, the two hops, reconstructed. For frames, events are counted as JSON."""
    figure, axes = make_figure("Publisher exact, subscriber within 1.0 (figure 6)", width=11.0)
    names = [stage.format.replace(", ", "\npredictor ") for stage in stages]
    columns = zip(*(stage.per_event for stage in stages), strict=True)
    _groups(axes, names, dict(zip(STAGES, map(list, columns), strict=True)), STAGE_COLOURS)
    return save(figure, folder / "figure-6")


def figure_7(chains: Sequence[ChainFigure], folder: Path) -> list[Path]:
    """Plot processor time and memory of all processes over time; the band is the spread between runs."""
    figure, axes = make_figure("All processes over time (figure 7)", width=11.0, panels=2)
    for axis, label, place in zip(axes, ("cores", "resident memory, MB"), (0, 2), strict=True):
        axis.set_ylabel(label)
        axis.set_xlabel("seconds")
        for chain in chains:
            mean = [point[place] for point in chain.over_time]
            spread = [point[place + 1] for point in chain.over_time]
            _band(axis, mean, spread, KINDS[chain.kind], LINES[chain.kind])
        axis.set_ylim(bottom=0)
    axes[0].legend(frameon=False, fontsize=9)
    return save(figure, folder / "figure-7")


def _band(axes: Any, mean: list[float], spread: list[float], label: str, colour: str) -> None:
    seconds = range(1, len(mean) + 1)
    low, high = ([m + sign * s for m, s in zip(mean, spread, strict=True)] for sign in (-1, 1))
    axes.plot(seconds, mean, label=label, color=colour)
    axes.fill_between(seconds, low, high, color=colour, alpha=0.2, linewidth=0)


def make_figure(title: str, width: float, panels: int = 1, height: float = 4.2) -> tuple[Any, Any]:
    """Return an empty figure and its axes; a list if it has several panels."""
    # Without pyplot there is no global state, and no window system is needed.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    panes = [figure.add_subplot(1, panels, index + 1) for index in range(panels)]
    panes[0].set_title(title, loc="left", fontsize=11)
    for axes in panes:
        axes.set_ylabel(AXIS)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="#e6e9ec")
        axes.set_axisbelow(True)
    return figure, panes[0] if panels == 1 else panes


def _groups(axes: Any, names: list[str], series: Mapping[str, list[float]], colours: Sequence[str]) -> None:
    width = 0.84 / len(series)
    for place, (label, values) in enumerate(series.items()):
        left = [at + (place - (len(series) - 1) / 2) * width for at in range(len(names))]
        bars = axes.bar(left, values, width * 0.94, label=label, color=colours[place])
        axes.bar_label(bars, [_short(value) for value in values], fontsize=8, padding=2)
    axes.set_xticks(range(len(names)), names)
    axes.margins(x=0.02, y=0.06)
    axes.figure.legend(frameon=False, ncols=len(series), loc="outside lower center", fontsize=9)


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def save(figure: Any, stem: Path) -> list[Path]:
    """Write a figure as PNG and SVG."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.with_name(f"{stem.name}.{kind}") for kind in ("png", "svg")]
    for path in paths:
        figure.savefig(path, dpi=150)
    return paths
