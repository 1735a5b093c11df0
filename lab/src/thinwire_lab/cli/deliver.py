"""`thinwire deliver PATH --property price --thresholds 1..1000`: count what thresholds deliver, on Spark."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from thinwire.cli.connection_options import read_names
from thinwire.cli.output import JsonOption, Output
from thinwire.cli.spark_options import MasterOption, progress_bar, spark_session

SHOWN = 20
"""thresholds in the printed table; the JSON document has all"""

PathArgument = Annotated[
    str, typer.Argument(metavar="PATH", help="JSON lines, CSV or Parquet, also gzipped; a folder of Parquet files.")
]
PropertyOption = Annotated[str, typer.Option("--property", metavar="NAME", help="The property to filter, a number.")]
ThresholdsOption = Annotated[
    str, typer.Option("--thresholds", metavar="A..B,C", help="In the property's unit; A..B is every step from A to B.")
]
StepOption = Annotated[float, typer.Option("--step", metavar="X", help="The size of a tick; values are rounded to it.")]
SourceOption = Annotated[str | None, typer.Option("--source", metavar="A,B", help="Columns that identify a source.")]
TimeOption = Annotated[
    str | None, typer.Option("--time", metavar="A,B", help="Columns that sort events, if the table has none of ingest.")
]
CountsOption = Annotated[
    str | None, typer.Option("--to", metavar="FOLDER", help="Write the counts by source to this folder, as Parquet.")
]
RowsOption = Annotated[
    str | None, typer.Option("--rows", metavar="FOLDER", help="Write the delivered rows to this folder, as Parquet.")
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
    """Count the events that subscribers with these thresholds receive.

    A value is delivered if it differs by more than the threshold from the
    last delivered one. The table has a row for each threshold: delivered
    events of all sources, the largest difference between a value and the
    last delivered one, and the longest run of events that were not
    delivered.

    \b
    thinwire deliver trades.parquet --property price --thresholds 0.01..10 --step 0.01 --source symbol --time ts
    thinwire deliver lake/rooms --property temperature --thresholds 0.5,1,2 --step 0.1 --rows delivered
    """
    from thinwire_lab.overlay_sim.filters.thresholds import ranged

    output = Output(json)
    ranged(thresholds, step)  # errors before Spark starts
    columns = {"source": read_names(source), "order": read_names(time)}
    request = {"property": property, "thresholds": thresholds, "step": step, **columns}
    with spark_session(master, "thinwire deliver") as spark, progress_bar(f"filtering {path}") as progress:
        found = _run(spark, path, request, to, rows, progress)
    _show(output, path, property, found)


def _run(
    spark: Any, path: str, request: dict[str, Any], to: str | None, rows: str | None, progress: Any
) -> list[dict[str, Any]]:
    from thinwire.spark.action_progress import run_action
    from thinwire_lab.spark.threshold_delivery import deliver as filtered
    from thinwire_lab.spark.threshold_delivery import table_at, totals

    frame = table_at(spark, path)
    counts = filtered(frame, **request)
    if to is not None:
        run_action(spark, lambda: counts.write.mode("overwrite").parquet(to), progress)
        counts = spark.read.parquet(to)
    if rows is not None:
        delivered = filtered(frame, rows=True, **request)
        run_action(spark, lambda: delivered.write.mode("overwrite").parquet(rows), progress)
    return [row.asDict() for row in run_action(spark, totals(counts).collect, progress)]


def _show(output: Output, path: str, property: str, found: list[dict[str, Any]]) -> None:
    columns = ("threshold", "sources", "events", "delivered", "share", "largest gap", "longest silence")
    cells = [[row[column.replace(" ", "_")] for column in columns] for row in _some(found)]
    output.table(f"{property} of {path}", columns, cells)
    if len(found) > SHOWN:
        output.note(f"{SHOWN} of {len(found):,} thresholds are shown; --json has all.")
    output.document({"path": path, "property": property, "thresholds": found})


def _some(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return at most SHOWN rows at equal distances, with the first and the last.

    >>> [row["n"] for row in _some([{"n": n} for n in range(1000)])][:3]
    [0, 52, 105]
    """
    if len(found) <= SHOWN:
        return found
    return [found[at * (len(found) - 1) // (SHOWN - 1)] for at in range(SHOWN)]
