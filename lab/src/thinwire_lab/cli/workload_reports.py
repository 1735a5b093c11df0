"""`thinwire workload assign` and the reports of a workload folder.

`assign` gives subscribers a broker by place, by interest or by both, and reports the costs of each policy. All reports
are computed from the rows of the folder, a batch at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import typer

from thinwire.cli.output import JsonOption, Output
from thinwire.cli.spark_options import MasterOption, progress_bar, spark_session
from thinwire.errors import ConfigError
from thinwire_lab.cli.pictures import draw_pictures
from thinwire_lab.cli.summary_files import read_tables
from thinwire_lab.errors import SummaryError
from thinwire_lab.workload.assignment.assignment_costs import AssignmentCosts
from thinwire_lab.workload.assignment.broker_assignment import LIMITS, Policy, policies
from thinwire_lab.workload.interests.interests import Interests
from thinwire_lab.workload.random_rows import Floats
from thinwire_lab.workload.recipe import Recipe, Stage
from thinwire_lab.workload.spark.workload_folder import check_new, new_folder
from thinwire_lab.workload.subscription_sample import find_missed
from thinwire_lab.workload.summary import Summary

FolderArgument = Annotated[Path, typer.Argument(help="A folder written by `workload generate`.", file_okay=False)]
PolicyOption = Annotated[str, typer.Option("--policy", help="proximity, interest, joint or all.")]
LimitsOption = Annotated[
    str,
    typer.Option(
        "--limits", help="joint: distance limits in p90 latencies to the nearest broker; `none` for no limit."
    ),
]
EventsOption = Annotated[
    int, typer.Option("--events", help="Number of events that super-interests are evaluated with.", min=1, max=20_000)
]
OutOption = Annotated[
    Path | None, typer.Option("--out", help="New folder for the broker of every subscription and a picture.")
]
DEFAULT_LIMITS = ",".join("none" if limit == inf else f"{limit:g}" for limit in LIMITS)
COLUMNS = ("policy", "delivered", "wasted", "p50 ms", "p90 ms", "p99 ms", "heaviest load", "unbeaten")


def assign(
    folder: FolderArgument,
    policy: PolicyOption = "all",
    limits: LimitsOption = DEFAULT_LIMITS,
    events: EventsOption = 2_000,
    out: OutOption = None,
    master: MasterOption = "local[*]",
    json: JsonOption = False,
) -> None:
    """Assign every subscriber to a broker, on Spark, and report the costs of each policy.

    Deliveries are to brokers, for each published event: a broker receives
    the events in the box around all of its rectangles; those in none of
    the rectangles are wasted. The load is relative to the mean load.

    \b
    thinwire workload assign wide
    thinwire workload assign wide --policy joint --limits 1.1,2,none --out assigned
    """
    wanted = policies(policy, read_limits(limits))
    if out is not None:
        check_new(out)
    costs = _assign(folder, wanted, events, out, master)
    _show(Output(json), costs, out)


def read_limits(text: str) -> list[float]:
    """Parse distance limits.

    >>> read_limits("1.1, none")
    [1.1, inf]
    """
    try:
        return [inf if part.strip() == "none" else float(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError("limits are numbers above 0, or none, separated by commas", limits=text) from None


def _assign(
    folder: Path, wanted: list[Policy], events: int, out: Path | None, master: str
) -> dict[str, AssignmentCosts]:
    from thinwire_lab.workload.spark import assignment_job as job
    from thinwire_lab.workload.spark.workload_folder import read_manifest, spark_errors

    columns = job.WorkloadColumns.of(read_manifest(folder))
    with spark_session(master, "thinwire workload assign") as spark:
        with progress_bar("assign") as progress:
            assigned, costs = job.assign(spark, folder, wanted, sample=events, progress=progress)
        if out is not None:
            rows = spark.read.parquet(str((folder / "subscriptions").resolve()))
            with new_folder(out) as unfinished, spark_errors(out):
                job.assignments(rows, columns, assigned).write.parquet(str((unfinished / "assignments").resolve()))
    return {policy.name: cost for policy, cost in zip(wanted, costs, strict=True)}


def _show(output: Output, costs: dict[str, AssignmentCosts], out: Path | None) -> None:
    from thinwire_lab.workload.workload_pictures import pareto_optimal, plot_pareto

    best = pareto_optimal(costs)
    output.table("costs", COLUMNS, [(name, *own, "yes" if name in best else "") for name, own in costs.items()])
    pictures = draw_pictures(output, plot_pareto, costs, out / "costs") if out is not None else []
    rows = [{"policy": name, **own._asdict(), "unbeaten": name in best} for name, own in costs.items()]
    output.document({"policies": rows, "out": out, "pictures": pictures})


PLOTTED = 20_000
"""subscribers in a picture of places"""


def describe_folder(folder: Path) -> dict[str, Any]:
    """Return the manifest of a workload, its sizes, and the interests counted from its subscriptions."""
    from thinwire_lab.workload.spark.workload_folder import read_manifest

    manifest = read_manifest(folder)
    tables = {name: _sizes(folder / name) for name in ("subscriptions", "events", "brokers")}
    drawn = drawn_interests(folder, manifest)
    found = {"tables": tables, "drawn": Stage("drawn", drawn).facts(), "missed": _missed(folder, manifest, drawn)}
    return {**manifest, **found}


def drawn_interests(folder: Path, manifest: Mapping[str, Any]) -> Interests:
    """Count the interests of the subscriptions of a workload."""
    return _count_interests(folder / "subscriptions", _members(folder, manifest))


def plot_folder(folder: Path, found: Mapping[str, Any], out: Path) -> list[Path]:
    """Plot interests, locations and their correlation.

    found: the result of `describe_folder`
    """
    from thinwire_lab.workload import workload_pictures as pictures

    drawn = drawn_interests(folder, found)
    steps = {stage["step"]: stage["bits_about_region"] for stage in (*found["stages"], found["drawn"])}
    lanes = [f"at_{lane}" for lane in range(found["dimensions"])]
    sampled = _read_every(
        folder / "subscriptions", ["region", *lanes], 1 + found["tables"]["subscriptions"][0] // PLOTTED
    )
    brokers = _points(ds.dataset(folder / "brokers", format="parquet").to_table(columns=lanes), lanes)
    files = pictures.plot_heat_maps(drawn, "Interests of subscribers", out / "interests")
    files += pictures.plot_axes(drawn, "Regions of subscribers, by interest", out / "regions")
    files += pictures.plot_information(steps, out / "correlation")
    if sampled.num_rows:
        region = sampled["region"].to_numpy().astype(np.int64)
        files += pictures.plot_locations(_points(sampled, lanes), region, found["regions"], brokers, out / "places")
    return files


def _members(folder: Path, manifest: Mapping[str, Any]) -> Interests:
    return Summary.read(read_tables(folder / "summary"), manifest["axes"]).members


def _missed(folder: Path, manifest: Mapping[str, Any], drawn: Interests) -> dict[str, Any]:
    """Return the interests without a subscription: number, most popular names, and number with plain sampling."""
    *_, last = Recipe(**manifest["recipe"]).stages(_members(folder, manifest))
    found = find_missed(last.interests, drawn)
    cells = zip(*np.unravel_index(found.popular, last.interests.popularity.shape), strict=True)
    named = [[axis.labels[node] for axis, node in zip(drawn.axes, cell, strict=True)] for cell in cells]
    return {"interests": found.interests, "most_popular": named, "plain_sampling": found.plain}


def _read_every(path: Path, names: list[str], step: int) -> pa.Table:
    """Read every n-th row of a table, because the first rows all have popular interests."""
    rows = ds.dataset(path, format="parquet")
    batches = [b.take(pa.array(np.arange(0, b.num_rows, step))) for b in rows.to_batches(columns=names)]
    return pa.Table.from_batches(batches, rows.schema.empty_table().select(names).schema)


def _points(table: pa.Table, lanes: list[str]) -> Floats:
    return np.stack([table[lane].to_numpy() for lane in lanes], axis=1)


def _count_interests(path: Path, members: Interests) -> Interests:
    names = [*(axis.name for axis in members.axes), "region"]
    counts = np.zeros(members.counts.size)
    for batch in ds.dataset(path, format="parquet").to_batches(columns=names):
        columns = [batch.column(name).to_numpy().astype(np.int64) for name in names]
        try:
            flat = np.ravel_multi_index(tuple(columns), members.counts.shape)
        except ValueError:
            raise SummaryError("a subscription has a node outside of the hierarchies", table="subscriptions") from None
        counts += np.bincount(flat, minlength=counts.size)
    return members.with_counts(counts.reshape(members.counts.shape))


def _sizes(path: Path) -> tuple[int, int]:
    """Return the rows and bytes of a table."""
    table = ds.dataset(path, format="parquet")
    return table.count_rows(), sum(Path(file).stat().st_size for file in table.files)
