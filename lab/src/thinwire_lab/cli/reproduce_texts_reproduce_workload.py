"""`thinwire reproduce workload`: the figures of the workload generator's paper, its words beside our numbers."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from thinwire.cli.output import Output
from thinwire_lab.cli.reproduce_texts_reproduce_dictionaries import show
from thinwire_lab.cli.summary_files_workload_tables import read_summary
from thinwire_lab.reproduce.workload.workload_figures import FIGURES, NAME, PAPER, chosen


def listing() -> list[tuple[str, str, str, str]]:
    """Everything that can be made again, each with its command."""
    return [(NAME, f"figure {n}", f.what, f"thinwire reproduce {NAME} --figure {n}") for n, f in FIGURES.items()]


def reproduce_figures(output: Output, figure: str | None, data: Path | None, out: Path) -> dict[str, Any]:
    """Make figures of the built-in summary, or of the one in a folder."""
    numbers = chosen(figure)
    members = read_summary(data).members
    output.note(PAPER)
    document: dict[str, Any] = {"experiment": NAME, "paper": PAPER, "summary": str(data or "built-in")}
    plots = find_spec("matplotlib") is not None
    if not plots:
        output.note("no pictures: that needs the extra plots.")
    for number in numbers:
        pictures: list[Path] = []
        if plots:
            from thinwire_lab.reproduce.workload.workload_figures_workload_plots import draw

            pictures = draw(number, members, out)
        sheet = FIGURES[number].sheet(number, members, pictures)
        show(output, sheet)
        document[f"figure {number}"] = sheet.document
    return document
