"""Runs the cells of an experiment on Spark, or in this process without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from thinwire.cli.output import Output
from thinwire.cli.spark_options import progress_bar
from thinwire.errors import MissingExtra, SparkUnavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from thinwire.analysis.analysis_run import Cell, CellRunner


@contextmanager
def cell_runner(master: str, output: Output, app: str) -> Iterator[CellRunner]:
    """Yield a function that runs the cells of an experiment on Spark, or in this process if Spark is not available."""
    try:
        from thinwire.spark.session import check, session

        check(remote=master.startswith("sc://"))
    except (MissingExtra, SparkUnavailable) as problem:
        output.note(f"running the cells one by one in this process: {problem}")
        yield run_in_process
        return
    spark = session(master, app=app)
    try:
        yield run_on_spark(spark)
    finally:
        spark.stop()


def run_in_process(
    function: Callable[..., Mapping[str, Any]], cells: Sequence[Cell], weight: Callable[[Cell], float]
) -> list[Mapping[str, Any]]:
    """Run the cells one by one in this process."""
    results = []
    with progress_bar(f"{len(cells):,} cells") as progress:
        for done, cell in enumerate(cells):
            progress(done, len(cells))
            results.append(function(**cell))
    return results


def run_on_spark(spark: SparkSession) -> CellRunner:
    """Return a function that runs cells as a sweep on Spark."""
    from thinwire.spark.parameter_sweep import run_cells

    def run(
        function: Callable[..., Mapping[str, Any]], cells: Sequence[Cell], weight: Callable[[Cell], float]
    ) -> list[Mapping[str, Any]]:
        with progress_bar(f"{len(cells):,} cells") as progress:
            return run_cells(spark, function, cells, weight, progress)

    return run
