"""`thinwire reproduce dictionaries`: the tables and figures of the thesis on shared dictionaries.

Their cells run side by side on Spark where it can run, else one after the other in this process: the figures are the
same, but for processor times.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from thinwire.cli.output import Output
from thinwire.cli.spark_options import running
from thinwire_lab.reproduce.dictionaries import thesis_items as dictionaries
from thinwire_lab.reproduce.dictionaries.thesis_numbers_dictionaries_published import PAPER
from thinwire_lab.reproduce.dictionaries.thesis_sheet_dictionaries_sheet import Scale, Sheet

NAME = "dictionaries"
COLUMNS = ("name", "figure", "what", "command")


def listing() -> list[tuple[str, str, str, str]]:
    """Everything that can be made again, each with its command."""
    rows = []
    for name, item in dictionaries.chosen():
        kind, number = name.split()
        rows.append((NAME, name, item.what, f"thinwire reproduce {NAME} --{kind} {number}"))
    return rows


def reproduce_sheets(
    output: Output, table: str | None, figure: str | None, scale: Scale, out: Path, master: str
) -> dict[str, Any]:
    """Make sheets, one after the other, and print each as soon as it is there."""
    chosen = dictionaries.chosen(table, figure)
    output.note(PAPER)
    out.mkdir(parents=True, exist_ok=True)
    document: dict[str, Any] = {"experiment": NAME, "paper": PAPER, "quick": scale.quick, "messages": scale.most}
    with running(master, output, app=f"thinwire reproduce {NAME}") as run:
        for name, item in chosen:
            sheet = dictionaries.reproduce(name, item, scale, run, out)
            show(output, sheet)
            document[name] = sheet.document
    return document


def show(output: Output, sheet: Sheet) -> None:
    """Print a sheet."""
    output.table(sheet.title, sheet.columns, sheet.rows)
    for note in sheet.notes:
        output.note(note)
    if sheet.pictures:
        output.note("pictures: " + ", ".join(map(str, sheet.pictures)))
