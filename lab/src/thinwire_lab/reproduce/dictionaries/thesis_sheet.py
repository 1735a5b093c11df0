"""Fixed configurations: history, life and size of dictionaries as equations 4.3.1 and 4.3.2 of the thesis vary them.

Lives of dictionaries: what Predict expected when it made one, and what came of it.

Pictures of the sheets: lines, heat maps, boxes; PNG to look at, SVG to print.

A sheet: one table or figure as it is printed, and how much is measured for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

from thinwire.analysis.analysis_cells import Cell, Run
from thinwire_lab.reproduce.dictionaries.policies.fixed_rate import HISTORIES, MULTIPLIERS
from thinwire_lab.reproduce.dictionaries.policy_cells import available, run_cell, weight
from thinwire_lab.reproduce.dictionaries.policy_run import PUBLISHED, permutations
from thinwire_lab.reproduce.dictionaries.thesis_numbers import STANDS_FOR
from thinwire_lab.reproduce.figure_plots import save, sheet

Lives = list[tuple[float, float]]


def expected_and_seen(decisions: Sequence[Mapping[str, Any]]) -> Lives:
    """Of every dictionary that was replaced: the messages it was expected to live for, and those it lived for.

    >>> replaced = [{"seen": at, "decision": "replace", "life": life} for at, life in ((500, 1000), (2500, 800))]
    >>> expected_and_seen([*replaced, {"seen": 3300, "decision": "prolong", "life": 800}])
    [(1000, 2000)]
    """
    made = [decision for decision in decisions if decision["decision"] == "replace"]
    return [(one["life"], later["seen"] - one["seen"]) for one, later in pairwise(made)]


def still_expected(decisions: Sequence[Mapping[str, Any]]) -> list[float]:
    """The life that was expected of the dictionary still in use; empty where there is none.

    >>> still_expected([{"seen": 500, "decision": "replace", "life": 1000}])
    [1000]
    """
    return [decision["life"] for decision in decisions if decision["decision"] == "replace"][-1:]


def error(lives: Lives) -> float | None:
    """The mean error in per cent of what was seen; None where no dictionary was replaced.

    >>> error([(1000, 2000), (900, 1000)])
    30.0
    """
    return 100 * fmean(abs(expected - seen) / seen for expected, seen in lives) if lives else None


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


SAVED = "bytes saved, %"
QUICK_STREAMS = ("debs-csv", "debs-json", "taxi-csv", "taxi-json")
"""of these, the first two that are there"""


@dataclass(frozen=True)
class ThesisScale:
    """How much is measured.

    quick: few streams, few messages, few settings: does everything work?
    data: folder of real streams; without it the generated ones are used
    messages: of a stream, at most; shorter ones are as long as they are
    """

    quick: bool = False
    data: str | None = None
    messages: int = 1_000_000

    @property
    def most(self) -> int:
        return min(self.messages, 3_000) if self.quick else self.messages

    def streams(self, only: Sequence[str] = ()) -> list[str]:
        """Names of the streams to measure on; `only` those of which the thesis has a number, where given."""
        every = [stream.name for stream in available(self.data)]
        wanted = [name for name in every if not only or STANDS_FOR.get(name) in only]
        quick = [name for name in QUICK_STREAMS if name in wanted][:2] or wanted[:2]
        return quick if self.quick else wanted


@dataclass(frozen=True)
class Sheet:
    """A table to print, with notes below it and the pictures that were drawn."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    notes: tuple[str, ...] = ()
    pictures: list[Path] = field(default_factory=list)

    @property
    def document(self) -> dict[str, Any]:
        rows = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        return {"title": self.title, "rows": rows, "notes": list(self.notes), "pictures": list(map(str, self.pictures))}


def swept(function: Callable[..., Mapping[str, Any]], cells: Sequence[Cell], run: Run) -> list[Mapping[str, Any]]:
    """The figures of the cells, in their order."""
    return run(function, cells, weight) if cells else []


def policy_rows(
    scale: ThesisScale, run: Run, streams: Sequence[str], policies: Sequence[str], batch: int = 1
) -> list[dict[str, Any]]:
    """The rows of policies on streams, with all their settings."""
    cells = [
        {"stream": stream, "policy": policy, "data": scale.data, "settings": settings, "messages": scale.most,
         "batch": batch}
        for stream in streams
        for policy in policies
        for settings in permutations(policy, scale.quick)
    ]  # fmt: skip
    return [row for figures in swept(run_cell, cells, run) for row in figures["rows"]]


def best_of(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str, str], Mapping[str, Any]]:
    """By stream, policy and topology, the row that the thesis would show.

    Settings are chosen by what they save with one publisher and kept for the other topologies, as the thesis does.
    """
    chosen: dict[tuple[str, str], Any] = {}
    for row in rows:
        key = (row["stream"], row["policy"])
        if row["topology"] == "1:1" and (key not in chosen or row["reduction"] > chosen[key][0]):
            chosen[key] = (row["reduction"], row["settings"])
    shown = [row for row in rows if row["settings"] == chosen[row["stream"], row["policy"]][1]]
    return {(row["stream"], row["policy"], row["topology"]): row for row in shown}


def best_published(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], Mapping[str, Any]]:
    """By stream and topology, the best of all published policies with any settings: a judge that knows the outcome."""
    best: dict[tuple[str, str], Mapping[str, Any]] = {}
    for row in rows:
        key = (row["stream"], row["topology"])
        if row["policy"] in PUBLISHED and (key not in best or row["reduction"] > best[key]["reduction"]):
            best[key] = row
    return best


LIFE = 5500
MOST = 20_000
"""messages; the thesis takes at least as many"""


def configured_rows(scale: ThesisScale, run: Run, streams: Sequence[str]) -> list[dict[str, Any]]:
    """Every history and size, replaced every 5500 messages, with one publisher."""
    histories, multipliers = (values[1::4] if scale.quick else values for values in (HISTORIES, MULTIPLIERS))
    cells = [
        {"stream": stream, "policy": "fixed rate", "data": scale.data, "messages": min(scale.most, MOST),
         "publishers": [1], "settings": {"every": LIFE, "histories": [history], "multipliers": [times]}}
        for stream in streams
        for history in histories
        for times in multipliers
    ]  # fmt: skip
    return [row for figures in swept(run_cell, cells, run) for row in figures["rows"]]


def settings_of(row: Mapping[str, Any]) -> str:
    """History/life/multiplier as the thesis writes them.

    >>> settings_of({"settings": {"every": 5500, "histories": [500], "multipliers": [21]}})
    '500/5500/21'
    """
    settings = row["settings"]
    return f"{settings['histories'][0]}/{settings['every']}/{settings['multipliers'][0]:g}"
