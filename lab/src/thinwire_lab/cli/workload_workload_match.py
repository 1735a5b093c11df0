"""`thinwire workload match`: which of the events of a workload lie in which of its rectangles."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from thinwire.cli.output import JsonOption, Output
from thinwire.cli.spark_options import MasterOption, progress_bar
from thinwire_lab.workload.spark.workload_folder_folders import check_new

if TYPE_CHECKING:
    from thinwire_lab.workload.spark.rectangle_match import Way

FolderArgument = Annotated[Path, typer.Argument(help="A folder that `workload generate` wrote.", file_okay=False)]
OutOption = Annotated[Path, typer.Option("--out", help="The folder to write; it must not be there yet.")]
WayOption = Annotated[str, typer.Option("--way", help="auto; index, where rectangles fit into one process; or grid.")]


def match(
    folder: FolderArgument,
    out: OutOption,
    way: WayOption = "auto",
    master: MasterOption = "local[*]",
    json: JsonOption = False,
) -> None:
    """Find all pairs of an event and a rectangle that holds it, on Spark.

    `pairs` has a row for each: the `event`, the `rectangle` (the smallest
    id of the subscriptions that have it) and how many subscriptions these
    are (`multiplicity`).

    \b
    thinwire workload match wide --out matched
    """
    from thinwire.spark.session import session
    from thinwire_lab.workload.spark.rectangle_match_workload_match import match_folder

    check_new(out)
    spark = session(master)
    try:
        with progress_bar("match") as progress:
            found = match_folder(spark, folder, out, way=cast("Way", way), progress=progress)
    finally:
        spark.stop()
    output = Output(json)
    output.table("matched", ["pairs", "notifications", "events matched"], [tuple(found.values())])
    output.document({"out": str(out), **found})
