"""`thinwire workload assign`: subscribers to brokers by place, by interest or by both, and what each way costs."""

from __future__ import annotations

from importlib.util import find_spec
from math import inf
from pathlib import Path
from typing import Annotated

import typer

from thinwire.cli.output import JsonOption, Output
from thinwire.cli.spark_options import MasterOption, progress_bar
from thinwire.errors import ConfigError
from thinwire_lab.workload.assignment import LIMITS, Costs, Policy, policies
from thinwire_lab.workload.spark.workload_folder_folders import check_new, new_folder

FolderArgument = Annotated[Path, typer.Argument(help="A folder that `workload generate` wrote.", file_okay=False)]
PolicyOption = Annotated[str, typer.Option("--policy", help="proximity, interest, joint or all.")]
LimitsOption = Annotated[
    str,
    typer.Option("--limits", help="Of joint: how far, in p90 latencies to the nearest broker; `none` for no limit."),
]
EventsOption = Annotated[
    int, typer.Option("--events", help="So many of the events judge super-interests.", min=1, max=20_000)
]
OutOption = Annotated[
    Path | None, typer.Option("--out", help="A new folder: the broker of every subscription, and a picture.")
]
USUAL = ",".join("none" if limit == inf else f"{limit:g}" for limit in LIMITS)
COLUMNS = ("policy", "delivered", "wasted", "p50 ms", "p90 ms", "p99 ms", "heaviest load", "unbeaten")


def assign(
    folder: FolderArgument,
    policy: PolicyOption = "all",
    limits: LimitsOption = USUAL,
    events: EventsOption = 2_000,
    out: OutOption = None,
    master: MasterOption = "local[*]",
    json: JsonOption = False,
) -> None:
    """Give every subscriber a broker, on Spark, and say what each policy costs.

    Deliveries are to brokers, for each event published: a broker gets
    what lies in the box around all of its rectangles, and what none of
    them holds is wasted. The load is in mean loads.

    \b
    thinwire workload assign wide
    thinwire workload assign wide --policy joint --limits 1.1,2,none --out assigned
    """
    wanted = policies(policy, read_limits(limits))
    if out is not None:
        check_new(out)
    costs = _assigned(folder, wanted, events, out, master)
    _show(Output(json), costs, out)


def read_limits(text: str) -> list[float]:
    """Limits as they are written.

    >>> read_limits("1.1, none")
    [1.1, inf]
    """
    try:
        return [inf if part.strip() == "none" else float(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError("limits are numbers above 0, or none, with commas between them", limits=text) from None


def _assigned(folder: Path, wanted: list[Policy], events: int, out: Path | None, master: str) -> dict[str, Costs]:
    from thinwire.spark.session import session
    from thinwire_lab.workload.spark import assignment_job as job
    from thinwire_lab.workload.spark.workload_folder import read_manifest, translated

    columns = job.Columns.of(read_manifest(folder))
    spark = session(master)
    try:
        with progress_bar("assign") as progress:
            assigned, found = job.assign(spark, folder, wanted, sample=events, progress=progress)
        if out is not None:
            rows = spark.read.parquet(str((folder / "subscriptions").resolve()))
            with new_folder(out) as unfinished, translated(out):
                job.assignments(rows, columns, assigned).write.parquet(str((unfinished / "assignments").resolve()))
    finally:
        spark.stop()
    return {policy.name: cost for policy, cost in zip(wanted, found, strict=True)}


def _show(output: Output, costs: dict[str, Costs], out: Path | None) -> None:
    from thinwire_lab.workload.workload_pictures import pareto, unbeaten

    best = unbeaten(costs)
    output.table("costs", COLUMNS, [(name, *own, "yes" if name in best else "") for name, own in costs.items()])
    pictures: list[Path] = []
    if out is not None and find_spec("matplotlib") is None:
        output.note("no picture: that needs the extra plots.")
    elif out is not None:
        pictures = pareto(costs, out / "costs")
        output.note("pictures: " + ", ".join(map(str, pictures)))
    rows = [{"policy": name, **own._asdict(), "unbeaten": name in best} for name, own in costs.items()]
    output.document({"policies": rows, "out": out, "pictures": pictures})
