"""A sheet: one table or figure as it is printed, and how much is measured for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from thinwire.analysis.analysis_cells import Cell, Run
from thinwire_lab.reproduce.dictionaries.policy_cells_cells import run_cell, weight
from thinwire_lab.reproduce.dictionaries.policy_cells_opening import available
from thinwire_lab.reproduce.dictionaries.policy_run_policies import PUBLISHED, permutations
from thinwire_lab.reproduce.dictionaries.thesis_numbers_dictionaries_published import STANDS_FOR

SAVED = "bytes saved, %"
QUICK_STREAMS = ("debs-csv", "debs-json", "taxi-csv", "taxi-json")
"""of these, the first two that are there"""


@dataclass(frozen=True)
class Scale:
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
    scale: Scale, run: Run, streams: Sequence[str], policies: Sequence[str], batch: int = 1
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
