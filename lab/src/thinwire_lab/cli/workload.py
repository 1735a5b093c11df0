"""`thinwire workload generate | describe | match | assign | run | summary build`: wide-area workloads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from thinwire.cli.output import JsonOption, Output
from thinwire.cli.spark_options import MasterOption, progress_bar
from thinwire.errors import ConfigError
from thinwire_lab.cli.summary_files import is_real, read_records
from thinwire_lab.cli.summary_files_workload_tables import read_summary, read_tables, write_tables
from thinwire_lab.cli.workload_reports import assign
from thinwire_lab.cli.workload_reports_workload_describing import describe_folder, draw_pictures
from thinwire_lab.cli.workload_workload_match import match
from thinwire_lab.cli.workload_workload_run import run_verb
from thinwire_lab.workload.places.network_nodes_locations import Way
from thinwire_lab.workload.recipe import Generalisation, Recipe
from thinwire_lab.workload.spark.workload_folder_folders import check_new
from thinwire_lab.workload.subscription_sample import Sampling
from thinwire_lab.workload.summary import Summary
from thinwire_lab.workload.summary_composing import compose
from thinwire_lab.workload.summary_groups import from_groups

workload = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Wide-area workloads: generate, describe, match, assign, run."
)
summaries = typer.Typer(add_completion=False, no_args_is_help=True, help="What workloads are drawn from.")
workload.add_typer(summaries, name="summary")
workload.command("run")(run_verb)
workload.command()(assign)
workload.command()(match)

CountOption = Annotated[float, typer.Option(help="How many; 1e7 will do for ten million.")]
SeedOption = Annotated[int, typer.Option("--seed", help="The same seed gives the same rows.", min=0)]
OutOption = Annotated[Path, typer.Option("--out", help="The folder to write; it must not be there yet.")]
SummaryOption = Annotated[
    Path | None,
    typer.Option("--summary", help="A folder of tables, CSV or Parquet; else the built-in summary.", file_okay=False),
]
HotOption = Annotated[int, typer.Option("--remove-hot", help="Leave out so many of the most popular interests.")]
DiffusionOption = Annotated[float, typer.Option("--diffusion", help="From 1, interests as they are, to 0, all alike.")]
GeneraliseOption = Annotated[str, typer.Option("--generalise", help="none, share or shared.")]
FractionOption = Annotated[float, typer.Option("--fraction", help="How much of an interest rises to broader ones.")]
NoiseOption = Annotated[float, typer.Option("--noise", help="How far corners of rectangles are moved, 0 to 1.")]
LocationOption = Annotated[str, typer.Option("--location", help="near, box or hull.")]
SpreadOption = Annotated[float, typer.Option("--spread", help="For near: how far from a node, in milliseconds.")]
SamplingOption = Annotated[str, typer.Option("--sampling", help="stratified or plain.")]
StrataOption = Annotated[int, typer.Option("--strata", help="Classes of popularity.", min=1)]
BandwidthOption = Annotated[float, typer.Option("--bandwidth", help="How far events reach into the gaps.")]
PartitionsOption = Annotated[int | None, typer.Option("--partitions", help="Tasks; rows do not depend on it.")]
FolderArgument = Annotated[Path, typer.Argument(help="A folder that `workload generate` wrote.", file_okay=False)]
PicturesOption = Annotated[
    Path | None, typer.Option("--pictures", help="A folder for pictures of interests and places (extra plots).")
]
FromOption = Annotated[
    Path, typer.Option("--from", help="A folder of tables, CSV or Parquet.", exists=True, file_okay=False)
]
GroupsOption = Annotated[bool, typer.Option("--groups", help="Count members from the table groups.")]


@workload.command()
def generate(
    out: OutOption,
    subscriptions: CountOption = 1e5,
    events: CountOption = 1e5,
    brokers: CountOption = 100,
    seed: SeedOption = 0,
    summary: SummaryOption = None,
    remove_hot: HotOption = Recipe.remove_hot,
    diffusion: DiffusionOption = Recipe.diffusion,
    generalise: GeneraliseOption = Recipe.generalise,
    fraction: FractionOption = Recipe.fraction,
    noise: NoiseOption = Recipe.noise,
    location: LocationOption = Recipe.location,
    spread: SpreadOption = Recipe.spread,
    sampling: SamplingOption = Recipe.sampling,
    strata: StrataOption = Recipe.strata,
    bandwidth: BandwidthOption = Recipe.bandwidth,
    partitions: PartitionsOption = None,
    master: MasterOption = "local[*]",
    json: JsonOption = False,
) -> None:
    """Draw subscriptions, events and brokers, on Spark, into Parquet tables.

    \b
    thinwire workload generate --subscriptions 1e7 --events 1e7 --brokers 100 --seed 7 --out wide
    """
    recipe = Recipe(
        subscriptions=_whole("subscriptions", subscriptions),
        events=_whole("events", events),
        brokers=_whole("brokers", brokers),
        seed=seed,
        remove_hot=remove_hot,
        diffusion=diffusion,
        generalise=cast(Generalisation, generalise),
        fraction=fraction,
        noise=noise,
        location=cast(Way, location),
        spread=spread,
        sampling=cast(Sampling, sampling),
        strata=strata,
        bandwidth=bandwidth,
    )
    manifest = _generated(read_summary(summary), recipe, out, partitions, master)
    output = Output(json)
    _show_stages(output, manifest["stages"])
    output.note(f"{recipe.subscriptions:,} subscriptions, {recipe.events:,} events, {recipe.brokers:,} brokers: {out}")
    output.document({"out": str(out), **manifest})


@workload.command()
def describe(folder: FolderArgument, pictures: PicturesOption = None, json: JsonOption = False) -> None:
    """Say what is in a workload: regions, interests, and what these tell about places.

    \b
    thinwire workload describe wide
    thinwire workload describe wide --pictures shown
    """
    output = Output(json)
    found = describe_folder(folder)
    if pictures is not None:
        found["pictures"] = draw_pictures(folder, found, pictures)
        output.note("pictures: " + ", ".join(map(str, found["pictures"])))
    _show_stages(output, [*found["stages"], found["drawn"]])
    _show_missed(output, found["missed"])
    output.table("tables", ["table", "rows", "bytes"], [(name, *sizes) for name, sizes in found["tables"].items()])
    output.document(found)


@summaries.command()
def build(from_: FromOption, out: OutOption, groups: GroupsOption = False, json: JsonOption = False) -> None:
    """Check the tables of a summary, or count them from records of groups, and write them as Parquet.

    A folder of public records (taxonomy, subreddits, countries, pings) is
    composed into groups first.

    \b
    thinwire workload summary build --from mine --out checked
    thinwire workload summary build --from mine --groups --out counted
    """
    check_new(out)
    rules: dict[str, int] = {}
    if real := is_real(from_):
        tables, rules = compose(read_records(from_))
    else:
        tables = read_tables(from_)
    made, tally = from_groups(tables) if groups or real else (Summary.read(tables), None)
    write_tables(made.tables(), out)
    rows = {name: table.num_rows for name, table in made.tables().items()}
    output = Output(json)
    output.table("tables", ["table", "rows"], list(rows.items()))
    if tally is not None:
        output.table("groups", ["what", "how many"], [*rules.items(), *_flat(vars(tally))])
    output.document({"out": str(out), "rows": rows, "groups": tally, "rules": rules})


def _generated(made: Summary, recipe: Recipe, out: Path, partitions: int | None, master: str) -> dict[str, Any]:
    from thinwire.spark.session import session
    from thinwire_lab.workload.spark.workload_folder import generate as run

    spark = session(master)
    try:
        with progress_bar("workload") as progress:
            return run(spark, made, recipe, out, partitions=partitions, progress=progress)
    finally:
        spark.stop()


def _show_stages(output: Output, stages: list[Mapping[str, Any]]) -> None:
    """A row a step: how many subscribers, where they are, and what interests tell about that."""
    regions, axes = stages[0]["regions"], stages[0]["bits_about_region"]
    columns = ["step", "subscribers", "interests", *regions, *(f"{axis}: bits about region" for axis in axes)]
    rows = [
        (s["step"], s["subscribers"], s["interests"], *s["regions"].values(), *s["bits_about_region"].values())
        for s in stages
    ]
    output.table("steps", columns, rows)


def _show_missed(output: Output, missed: Mapping[str, Any]) -> None:
    named = "; ".join(" / ".join(nodes) for nodes in missed["most_popular"][:3])
    output.note(
        f"interests without a subscription: {missed['interests']:,}{f', such as {named}' if named else ''}; plain "
        f"sampling would miss {missed['plain_sampling']:,.0f}"
    )


def _flat(counts: Mapping[str, Any]) -> list[tuple[str, int]]:
    found = []
    for name, value in counts.items():
        found += [(f"no {part}", many) for part, many in value.items()] if isinstance(value, dict) else [(name, value)]
    return found


def _whole(name: str, value: float) -> int:
    """A number of things, however it is written.

    >>> _whole("events", 1e7)
    10000000
    """
    if not 0 <= value < 1e15 or value != int(value):
        raise ConfigError("not a whole number, 0 or more", field=name, value=value)
    return int(value)
