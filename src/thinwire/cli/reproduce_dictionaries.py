"""`thinwire reproduce dictionaries`: the tables and figures of the thesis on shared dictionaries.

Their cells run side by side on Spark where it can run, else one after the other in this process: the figures are the
same, but for processor times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thinwire.cli.output import Output
from thinwire.cli.sparks import progress_bar
from thinwire.errors import JobFailed, MissingExtra, SparkUnavailable
from thinwire.evaluation.reproduce import dictionaries
from thinwire.evaluation.reproduce.dictionaries_published import PAPER
from thinwire.evaluation.reproduce.dictionaries_sheet import Scale, Sheet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from thinwire.evaluation.analysis.cells import Cell, Run

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
    with running(master, output) as run:
        for name, item in chosen:
            sheet = dictionaries.reproduce(name, item, scale, run, out)
            _show(output, sheet)
            document[name] = sheet.document
    return document


@contextmanager
def running(master: str, output: Output) -> Iterator[Run]:
    """Who runs the cells: Spark, or this process where Spark cannot run."""
    try:
        from thinwire.spark.session import check, session

        check(remote=master.startswith("sc://"))
    except (MissingExtra, SparkUnavailable) as problem:
        output.note(f"in one process, one cell after the other: {problem}")
        yield alone
        return
    spark = session(master, app="thinwire reproduce dictionaries")
    try:
        yield on_spark(spark)
    finally:
        spark.stop()


def alone(
    function: Callable[..., Mapping[str, Any]], cells: Sequence[Cell], weight: Callable[[Cell], float]
) -> list[Mapping[str, Any]]:
    """The cells here, with a bar."""
    found = []
    with progress_bar(f"{len(cells):,} cells") as progress:
        for done, cell in enumerate(cells):
            progress(done, len(cells))
            found.append(function(**cell))
    return found


def on_spark(spark: SparkSession) -> Run:
    """The cells as a sweep."""
    from thinwire.spark.sweep import sweep

    def run(
        function: Callable[..., Mapping[str, Any]], cells: Sequence[Cell], weight: Callable[[Cell], float]
    ) -> list[Mapping[str, Any]]:
        with progress_bar(f"{len(cells):,} cells") as progress:
            results = sweep(spark, function, cells, weight=weight, progress=progress)
        for result in results:
            if result.figures is None:
                raise JobFailed(f"a cell failed: {result.error}", **result.cell)
        return [result.figures for result in results if result.figures is not None]

    return run


def _show(output: Output, sheet: Sheet) -> None:
    output.table(sheet.title, sheet.columns, sheet.rows)
    for note in sheet.notes:
        output.note(note)
    if sheet.pictures:
        output.note("pictures: " + ", ".join(map(str, sheet.pictures)))
