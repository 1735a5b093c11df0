"""Sheets: printed tables with notes and plots, for the reproduced texts; and cells that several sheets share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

from thinwire.analysis.analysis_run import Cell, CellRunner
from thinwire_lab.reproduce.dictionaries.policies.fixed_rate import HISTORIES, MULTIPLIERS
from thinwire_lab.reproduce.dictionaries.policy_cells import available_streams, run_cell, weight
from thinwire_lab.reproduce.dictionaries.policy_run import PUBLISHED, permutations
from thinwire_lab.reproduce.dictionaries.thesis_numbers import THESIS_STREAMS
from thinwire_lab.reproduce.figure_plots import make_figure, save

Lifetimes = list[tuple[float, float]]
"""expected and actual lifetime of each dictionary, in messages"""


def replaced_lifetimes(decisions: Sequence[Mapping[str, Any]]) -> Lifetimes:
    """Return expected and actual lifetime in messages of every dictionary that was replaced.

    >>> replaced = [{"seen": at, "decision": "replace", "life": life} for at, life in ((500, 1000), (2500, 800))]
    >>> replaced_lifetimes([*replaced, {"seen": 3300, "decision": "prolong", "life": 800}])
    [(1000, 2000)]
    """
    replaced = [decision for decision in decisions if decision["decision"] == "replace"]
    return [(one["life"], later["seen"] - one["seen"]) for one, later in pairwise(replaced)]


def current_lifetime(decisions: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return the expected lifetime of the dictionary in use; empty if there is none.

    >>> current_lifetime([{"seen": 500, "decision": "replace", "life": 1000}])
    [1000]
    """
    return [decision["life"] for decision in decisions if decision["decision"] == "replace"][-1:]


def lifetime_error(lifetimes: Lifetimes) -> float | None:
    """Return the mean error of expected lifetimes in per cent of the actual ones; None if no dictionary was replaced.

    >>> lifetime_error([(1000, 2000), (900, 1000)])
    30.0
    """
    return 100 * fmean(abs(expected - seen) / seen for expected, seen in lifetimes) if lifetimes else None


COLOURS = ("#1f6f8b", "#d1495b", "#edae49", "#5c6b73", "#4fb0ae", "#8d6a9f", "#b8c4ce", "#2f4858", "#90a955", "#bc6c25")

Points = tuple[Sequence[float], Sequence[float]]
"""x and y values of a line"""


def lines(
    stem: Path, title: str, series: Mapping[str, Points], axes: tuple[str, str], log: bool = False, dots: bool = False
) -> list[Path]:
    """Plot one line per series; `axes`: labels of the axes; `log`: logarithmic x axis."""
    figure, panel = _panel(title, axes)
    for index, (label, (at, values)) in enumerate(series.items()):
        style = "o" if dots else "-"
        panel.plot(at, values, style, label=label, color=COLOURS[index % len(COLOURS)], markersize=3, linewidth=1.4)
    if log:
        panel.set_xscale("log")
    figure.legend(frameon=False, ncols=4, loc="outside lower center", fontsize=8)
    return save(figure, stem)


def heat(stem: Path, title: str, cells: Mapping[tuple[float, float], float], axes: tuple[str, str]) -> list[Path]:
    """Plot a heat map with a value for every (column, row)."""
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
    """Plot the distribution of every group."""
    figure, panel = _panel(title, ("", axis))
    panel.boxplot(list(groups.values()), widths=0.5, showfliers=False)
    panel.set_xticks(range(1, len(groups) + 1), list(groups), rotation=20, fontsize=8)
    return save(figure, stem)


def bars(stem: Path, title: str, names: Sequence[str], series: Mapping[str, Sequence[float]], axis: str) -> list[Path]:
    """Plot groups of bars, one group per name."""
    figure, panel = _panel(title, ("", axis))
    width = 0.84 / max(len(series), 1)
    for index, (label, values) in enumerate(series.items()):
        left = [at + (index - (len(series) - 1) / 2) * width for at in range(len(names))]
        panel.bar(left, values, width * 0.94, label=label, color=COLOURS[index % len(COLOURS)])
    panel.set_xticks(range(len(names)), list(names), rotation=20, fontsize=8)
    figure.legend(frameon=False, ncols=4, loc="outside lower center", fontsize=8)
    return save(figure, stem)


def _panel(title: str, axes: tuple[str, str]) -> tuple[Any, Any]:
    """Return an empty figure with one panel and labelled axes."""
    figure, panel = make_figure(title, width=9.0, height=4.6)
    panel.set_xlabel(axes[0])
    panel.set_ylabel(axes[1])
    return figure, panel


SAVED = "bytes saved, %"
"""label of columns and axes"""
QUICK_STREAMS = ("debs-csv", "debs-json", "taxi-csv", "taxi-json")
"""streams of a quick run: the first two that are available"""


@dataclass(frozen=True)
class ThesisScale:
    """Streams and messages of the measurements.

    quick: few streams, messages and settings, to check that everything works
    data: folder of recorded streams, in addition to the generated ones
    messages: maximum number of messages of a stream
    """

    quick: bool = False
    data: str | None = None
    messages: int = 1_000_000

    @property
    def most(self) -> int:
        """Maximum number of messages of a stream, lower in a quick run."""
        return min(self.messages, 3_000) if self.quick else self.messages

    def streams(self, only: Sequence[str] = ()) -> list[str]:
        """Return the names of the available streams. With `only`, they are similar to these streams of the thesis."""
        names = [stream.name for stream in available_streams(self.data)]
        selected = [name for name in names if not only or THESIS_STREAMS.get(name) in only]
        quick = [name for name in QUICK_STREAMS if name in selected][:2] or selected[:2]
        return quick if self.quick else selected


@dataclass(frozen=True)
class Sheet:
    """A table with notes and plots."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    notes: tuple[str, ...] = ()
    pictures: list[Path] = field(default_factory=list)

    @property
    def document(self) -> dict[str, Any]:
        rows = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        return {"title": self.title, "rows": rows, "notes": list(self.notes), "pictures": list(map(str, self.pictures))}


def run_cells(
    function: Callable[..., Mapping[str, Any]], cells: Sequence[Cell], run: CellRunner
) -> list[Mapping[str, Any]]:
    """Return the results of the cells in order."""
    return run(function, cells, weight) if cells else []


def policy_rows(
    scale: ThesisScale, run: CellRunner, streams: Sequence[str], policies: Sequence[str], batch: int = 1
) -> list[dict[str, Any]]:
    """Return the rows of policies on streams with all their settings."""
    cells = [
        {"stream": stream, "policy": policy, "data": scale.data, "settings": settings, "messages": scale.most,
         "batch": batch}
        for stream in streams
        for policy in policies
        for settings in permutations(policy, scale.quick)
    ]  # fmt: skip
    return [row for figures in run_cells(run_cell, cells, run) for row in figures["rows"]]


def best_of(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str, str], Mapping[str, Any]]:
    """Return the row with the best settings by stream, policy and topology.

    As in the thesis, settings are selected with one publisher and used for the other topologies.
    """
    chosen: dict[tuple[str, str], Any] = {}
    for row in rows:
        key = (row["stream"], row["policy"])
        if row["topology"] == "1:1" and (key not in chosen or row["reduction"] > chosen[key][0]):
            chosen[key] = (row["reduction"], row["settings"])
    shown = [row for row in rows if row["settings"] == chosen[row["stream"], row["policy"]][1]]
    return {(row["stream"], row["policy"], row["topology"]): row for row in shown}


def best_published(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], Mapping[str, Any]]:
    """Return the best row of all published policies and settings by stream and topology, selected in hindsight."""
    best: dict[tuple[str, str], Mapping[str, Any]] = {}
    for row in rows:
        key = (row["stream"], row["topology"])
        if row["policy"] in PUBLISHED and (key not in best or row["reduction"] > best[key]["reduction"]):
            best[key] = row
    return best


LIFE = 5500
"""messages after which a fixed configuration replaces its dictionary"""
MAX_MESSAGES = 20_000
"""messages of a fixed configuration; the thesis uses at least as many"""


def configured_rows(scale: ThesisScale, run: CellRunner, streams: Sequence[str]) -> list[dict[str, Any]]:
    """Return rows for every history and size (equations 4.3.1 and 4.3.2), with one publisher."""
    histories, multipliers = (values[1::4] if scale.quick else values for values in (HISTORIES, MULTIPLIERS))
    cells = [
        {"stream": stream, "policy": "fixed rate", "data": scale.data, "messages": min(scale.most, MAX_MESSAGES),
         "publishers": [1], "settings": {"every": LIFE, "histories": [history], "multipliers": [times]}}
        for stream in streams
        for history in histories
        for times in multipliers
    ]  # fmt: skip
    return [row for figures in run_cells(run_cell, cells, run) for row in figures["rows"]]


def settings_of(row: Mapping[str, Any]) -> str:
    """Format history/life/multiplier as the thesis does.

    >>> settings_of({"settings": {"every": 5500, "histories": [500], "multipliers": [21]}})
    '500/5500/21'
    """
    settings = row["settings"]
    return f"{settings['histories'][0]}/{settings['every']}/{settings['multipliers'][0]:g}"
