"""`thinwire reproduce placement`: the published figures on placement, theirs beside ours, measured and simulated apart.

Cells run side by side on Spark where it can run, else one after the other in this process.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from thinwire.analysis.placement_files import RUNS
from thinwire.cli.output import Output
from thinwire.cli.spark_options import running
from thinwire_lab.cli.reproduce_texts_reproduce_dictionaries import show
from thinwire_lab.reproduce import find
from thinwire_lab.reproduce.placement import placement_figures as placement
from thinwire_lab.reproduce.placement.placement_cells_placement_occasion import QUICK, Occasion, Scale

SIMULATED = "simulated, where nothing else is said: queues that share four cores; the published runs are not public."


def reproduce_placement(
    output: Output, table: str | None, figure: str | None, quick: bool, data: Path | None, out: Path, master: str
) -> dict[str, Any]:
    """Print the figures, and answer with the document of the run."""
    wanted, paper = placement.chosen(table, figure), find("placement").paper
    output.note(paper)
    output.note(SIMULATED)
    if data is None or not (data / RUNS).exists():
        output.note(
            f"nothing measured here is shown: that needs --data with {RUNS}, which `thinwire bench edge` writes."
        )
    document: dict[str, Any] = {"experiment": "placement", "paper": paper, "quick": quick}
    out.mkdir(parents=True, exist_ok=True)
    with running(master, output, app="thinwire reproduce placement") as sweep:
        occasion = Occasion(QUICK if quick else Scale(), out, sweep, data)
        for name, makers in wanted.items():
            document[name] = []
            for sheet in (sheet for make in makers for sheet in make(occasion)):
                show(output, sheet)
                document[name].append(sheet.document)
    return document
