"""What verbs that run on Spark share: where to run, a bar while it runs, and cells that can do without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from thinwire.cli.output import Output
from thinwire.errors import JobFailed, MissingExtra, SparkUnavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from thinwire.analysis.analysis_cells import Cell, Run

MasterOption = Annotated[
    str, typer.Option("--master", help="Where Spark runs: local[*], spark://HOST:PORT, or sc://HOST:PORT (Connect).")
]
"""the type of a verb's `master` parameter"""


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """A bar of tasks on stderr; what it gives is told how many are done, and of how many."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)

        def show(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total or None)

        yield show


@contextmanager
def running(master: str, output: Output, app: str) -> Iterator[Run]:
    """Who runs the cells of an experiment: Spark, under the name `app`, or this process where Spark cannot run."""
    try:
        from thinwire.spark.session import check, session

        check(remote=master.startswith("sc://"))
    except (MissingExtra, SparkUnavailable) as problem:
        output.note(f"in one process, one cell after the other: {problem}")
        yield alone
        return
    spark = session(master, app=app)
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
    from thinwire.spark.parameter_sweep import sweep

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
