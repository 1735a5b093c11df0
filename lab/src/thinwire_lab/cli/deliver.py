"""`thinwire deliver PATH --property price --thresholds 1..1000`: what thresholds would deliver; on Spark."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from thinwire.cli.connection_options import names
from thinwire.cli.output import JsonOption, Output
from thinwire.cli.spark_options import MasterOption, progress_bar

SHOWN = 20
"""thresholds in the table for people; the JSON document has all"""

PathArgument = Annotated[
    str, typer.Argument(metavar="PATH", help="JSON lines, CSV or Parquet, also gzipped; a folder holds Parquet.")
]
PropertyOption = Annotated[str, typer.Option("--property", metavar="NAME", help="The number that is filtered.")]
ThresholdsOption = Annotated[
    str, typer.Option("--thresholds", metavar="A..B,C", help="In the property's unit; A..B is every step between.")
]
StepOption = Annotated[float, typer.Option("--step", metavar="X", help="The size of a tick; values are rounded to it.")]
SourceOption = Annotated[str | None, typer.Option("--source", metavar="A,B", help="What identifies a source.")]
TimeOption = Annotated[
    str | None, typer.Option("--time", metavar="A,B", help="What puts events in order, where the table does not say.")
]
CountsOption = Annotated[
    str | None, typer.Option("--to", metavar="FOLDER", help="Write the counts of each source here, as Parquet.")
]
RowsOption = Annotated[
    str | None, typer.Option("--rows", metavar="FOLDER", help="Write the rows that are delivered here, as Parquet.")
]


def deliver(
    path: PathArgument,
    property: PropertyOption,
    thresholds: ThresholdsOption,
    step: StepOption = 1.0,
    source: SourceOption = None,
    time: TimeOption = None,
    to: CountsOption = None,
    rows: RowsOption = None,
    master: MasterOption = "local[*]",
    json: JsonOption = False,
) -> None:
    """Say what subscribers with these thresholds would have been given.

    A value is delivered as soon as it lies further than the threshold from
    the one delivered last. For each threshold: how many events of all
    sources that are, how far a subscriber's copy was off at worst, and the
    most events in a row of which it heard nothing.

    \b
    thinwire deliver trades.parquet --property price --thresholds 0.01..10 --step 0.01 --source symbol --time ts
    thinwire deliver lake/rooms --property temperature --thresholds 0.5,1,2 --step 0.1 --rows told
    """
    from thinwire.filters.thresholds import ranged
    from thinwire.spark.session import session

    output = Output(json)
    ranged(thresholds, step)  # complains before Spark starts
    spark = session(master, app="thinwire deliver")
    try:
        with progress_bar(f"filtering {path}") as progress:
            asked = {"step": step, "source": names(source), "order": names(time)}
            found = _run(spark, path, (property, thresholds), asked, to, rows, progress)
    finally:
        spark.stop()
    _show(output, path, property, found)


def _run(
    spark: Any, path: str, what: tuple[str, str], asked: dict[str, Any], to: str | None, rows: str | None, progress: Any
) -> list[dict[str, Any]]:
    from thinwire.spark.action_progress import watched
    from thinwire.spark.jobs.deliver import deliver as filtered
    from thinwire.spark.jobs.deliver import table_at, totals

    frame = table_at(spark, path)
    counts = filtered(frame, *what, **asked)
    if to is not None:
        watched(spark, lambda: counts.write.mode("overwrite").parquet(to), progress)
        counts = spark.read.parquet(to)
    if rows is not None:
        told = filtered(frame, *what, rows=True, **asked)
        watched(spark, lambda: told.write.mode("overwrite").parquet(rows), progress)
    return [row.asDict() for row in watched(spark, totals(counts).collect, progress)]


def _show(output: Output, path: str, property: str, found: list[dict[str, Any]]) -> None:
    columns = ("threshold", "sources", "events", "delivered", "share", "largest gap", "longest silence")
    cells = [[row[column.replace(" ", "_")] for column in columns] for row in _some(found)]
    output.table(f"{property} of {path}", columns, cells)
    if len(found) > SHOWN:
        output.note(f"{SHOWN} of {len(found):,} thresholds are shown; --json has all.")
    output.document({"path": path, "property": property, "thresholds": found})


def _some(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As many as are shown, spread evenly, the first and the last among them.

    >>> [row["n"] for row in _some([{"n": n} for n in range(1000)])][:3]
    [0, 52, 105]
    """
    if len(found) <= SHOWN:
        return found
    return [found[at * (len(found) - 1) // (SHOWN - 1)] for at in range(SHOWN)]
