"""`thinwire workload generate | describe | match | assign | run | summary build`: wide-area workloads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from thinwire.brokers.broker_url import read_url
from thinwire.cli.connection_options import BrokerAccess
from thinwire.cli.option_groups import with_options
from thinwire.cli.output import JsonOption, Output
from thinwire.cli.spark_options import MasterOption, progress_bar, spark_session
from thinwire.cli.terminal import run
from thinwire.errors import ConfigError
from thinwire_lab.cli.summary_files import has_public_records, read_records, read_summary, read_tables, write_tables
from thinwire_lab.cli.workload_reports import FolderArgument, assign, describe_folder, plot_folder
from thinwire_lab.errors import ScenarioError
from thinwire_lab.workload.places.network_nodes import LocationMethod
from thinwire_lab.workload.recipe import Generalisation, Recipe
from thinwire_lab.workload.scenarios.scenario import MAX_LENGTH, read_scenario
from thinwire_lab.workload.scenarios.scenario_outcome import AudienceOutcome, TopicOutcome
from thinwire_lab.workload.spark.workload_folder import check_new
from thinwire_lab.workload.subscription_sample import Sampling
from thinwire_lab.workload.summary import Summary, compose, from_groups

if TYPE_CHECKING:
    from thinwire_lab.workload.spark.rectangle_match import MatchMethod


OutOption = Annotated[Path, typer.Option("--out", help="The folder to write, which must not exist.")]
WayOption = Annotated[str, typer.Option("--way", help="auto, grid, or index if the rectangles fit into one process.")]


def match(
    folder: FolderArgument,
    out: OutOption,
    way: WayOption = "auto",
    master: MasterOption = "local[*]",
    json: JsonOption = False,
) -> None:
    """Find all pairs of an event and a rectangle that contains it, on Spark.

    `pairs` has a row for each: the `event`, the `rectangle` (the smallest
    id of its subscriptions) and the number of its subscriptions
    (`multiplicity`).

    \b
    thinwire workload match wide --out matched
    """
    from thinwire_lab.workload.spark.rectangle_match import match_folder

    check_new(out)
    with spark_session(master, "thinwire workload match") as spark, progress_bar("match") as progress:
        found = match_folder(spark, folder, out, method=cast("MatchMethod", way), progress=progress)
    output = Output(json)
    output.table("matched", ["pairs", "notifications", "events matched"], [tuple(found.values())])
    output.document({"out": str(out), **found})


ScenarioArgument = Annotated[
    Path, typer.Argument(metavar="SCENARIO", help="A TOML file.", exists=True, dir_okay=False, readable=True)
]
LedgerOption = Annotated[Path | None, typer.Option("--ledger", metavar="FILE", help="Append rows to this ledger.")]

_TOPICS = ("topic", "publishers", "events", "frames", "suppressed", "frame bytes", "late p99 ms", "late max ms")
_DELIVERED = ("topic", "demand", "subscribers", "on channels", "events", "virtual", "frame bytes", "missed")
_AUDIENCES = (*_DELIVERED, "p50 ms", "p90 ms", "p99 ms", "max ms")


@with_options
def run_verb(
    scenario: ScenarioArgument,
    *,
    access: BrokerAccess,
    ledger: LedgerOption = None,
    json: JsonOption = False,
) -> None:
    """Run a scenario on a broker and report deliveries and latencies.

    Events are due by the clock, independent of earlier ones; latency
    counts from the instant at which an event is due.

    \b
    thinwire workload run morning.toml --to nats://127.0.0.1:4222 --ledger runs.jsonl
    thinwire workload run morning.toml --to embedded://
    """
    from thinwire.analysis.ledger_files import append
    from thinwire_lab.workload.scenarios.scenario_run import run_scenario

    parsed = read_scenario(_read_text(scenario))
    outcome = run(run_scenario(parsed, access.bus, shared=read_url(access.url).scheme == "embedded"))
    output = Output(json)
    if ledger is not None:
        append(ledger, outcome.rows)
    output.table("published", _TOPICS, [_in_milliseconds(topic, 2) for topic in outcome.topics])
    output.table("delivered", _AUDIENCES, [_in_milliseconds(audience, 4) for audience in outcome.audiences])
    output.note(f"{outcome.scenario}: {outcome.seconds:.1f} s, seed {outcome.seed}")
    summary = {"scenario": outcome.scenario, "seed": outcome.seed, "seconds": outcome.seconds}
    lists = {"topics": list(outcome.topics), "audiences": list(outcome.audiences)}
    output.document({**summary, "to": access.redacted_url, **lists})


def _read_text(path: Path) -> str:
    if path.stat().st_size > MAX_LENGTH:
        raise ScenarioError("the file is above the limit", file=str(path), limit=MAX_LENGTH)
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ScenarioError("not UTF-8 text", file=str(path)) from None


def _in_milliseconds(outcome: TopicOutcome | AudienceOutcome, last: int) -> list[Any]:
    """Return the fields of an outcome, of which the last ones are seconds, in milliseconds."""
    fields = astuple(outcome)
    return [*fields[:-last], *(None if seconds is None else 1000 * seconds for seconds in fields[-last:])]


workload = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Wide-area workloads: generate, describe, match, assign, run."
)
summaries = typer.Typer(add_completion=False, no_args_is_help=True, help="Summaries, from which workloads are drawn.")
workload.add_typer(summaries, name="summary")
workload.command("run")(run_verb)
workload.command()(assign)
workload.command()(match)

CountOption = Annotated[float, typer.Option(help="Number, such as 1e7 for ten million.")]
SeedOption = Annotated[int, typer.Option("--seed", help="Random seed.", min=0)]
SummaryOption = Annotated[
    Path | None,
    typer.Option("--summary", help="Folder of tables, CSV or Parquet; default: the built-in summary.", file_okay=False),
]
HotOption = Annotated[int, typer.Option("--remove-hot", help="Leave out this many of the most popular interests.")]
DiffusionOption = Annotated[
    float, typer.Option("--diffusion", help="From 1 for unchanged interests to 0 for uniform ones.")
]
GeneraliseOption = Annotated[str, typer.Option("--generalise", help="none, share or shared.")]
FractionOption = Annotated[float, typer.Option("--fraction", help="Share of an interest that moves to broader ones.")]
NoiseOption = Annotated[float, typer.Option("--noise", help="Distance by which corners of rectangles move, 0 to 1.")]
LocationOption = Annotated[str, typer.Option("--location", help="near, box or hull.")]
SpreadOption = Annotated[float, typer.Option("--spread", help="near: distance from a node in milliseconds.")]
SamplingOption = Annotated[str, typer.Option("--sampling", help="stratified or plain.")]
StrataOption = Annotated[int, typer.Option("--strata", help="Classes of popularity.", min=1)]
BandwidthOption = Annotated[float, typer.Option("--bandwidth", help="How far events reach into the gaps.")]
PartitionsOption = Annotated[int | None, typer.Option("--partitions", help="Tasks; rows do not depend on it.")]
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
    """Generate subscriptions, events and brokers as Parquet tables, on Spark.

    \b
    thinwire workload generate --subscriptions 1e7 --events 1e7 --brokers 100 --seed 7 --out wide
    """
    recipe = Recipe(
        subscriptions=_integer("subscriptions", subscriptions),
        events=_integer("events", events),
        brokers=_integer("brokers", brokers),
        seed=seed,
        remove_hot=remove_hot,
        diffusion=diffusion,
        generalise=cast(Generalisation, generalise),
        fraction=fraction,
        noise=noise,
        location=cast(LocationMethod, location),
        spread=spread,
        sampling=cast(Sampling, sampling),
        strata=strata,
        bandwidth=bandwidth,
    )
    manifest = _generate(read_summary(summary), recipe, out, partitions, master)
    output = Output(json)
    _show_stages(output, manifest["stages"])
    output.note(f"{recipe.subscriptions:,} subscriptions, {recipe.events:,} events, {recipe.brokers:,} brokers: {out}")
    output.document({"out": str(out), **manifest})


@workload.command()
def describe(folder: FolderArgument, pictures: PicturesOption = None, json: JsonOption = False) -> None:
    """Describe a workload: regions, interests, and the information of interests about regions.

    \b
    thinwire workload describe wide
    thinwire workload describe wide --pictures figures
    """
    output = Output(json)
    found = describe_folder(folder)
    if pictures is not None:
        found["pictures"] = plot_folder(folder, found, pictures)
        output.note("pictures: " + ", ".join(map(str, found["pictures"])))
    _show_stages(output, [*found["stages"], found["drawn"]])
    _show_missed(output, found["missed"])
    output.table("tables", ["table", "rows", "bytes"], [(name, *sizes) for name, sizes in found["tables"].items()])
    output.document(found)


@summaries.command()
def build(from_: FromOption, out: OutOption, groups: GroupsOption = False, json: JsonOption = False) -> None:
    """Check the tables of a summary, or count them from groups, and write them as Parquet.

    Public records (taxonomy, subreddits, countries, pings) are composed
    into groups first.

    \b
    thinwire workload summary build --from mine --out checked
    thinwire workload summary build --from mine --groups --out counted
    """
    check_new(out)
    rules: dict[str, int] = {}
    if is_public := has_public_records(from_):
        tables, rules = compose(read_records(from_))
    else:
        tables = read_tables(from_)
    summary, tally = from_groups(tables) if groups or is_public else (Summary.read(tables), None)
    write_tables(summary.tables(), out)
    rows = {name: table.num_rows for name, table in summary.tables().items()}
    output = Output(json)
    output.table("tables", ["table", "rows"], list(rows.items()))
    if tally is not None:
        output.table("groups", ["what", "number"], [*rules.items(), *_flat(vars(tally))])
    output.document({"out": str(out), "rows": rows, "groups": tally, "rules": rules})


def _generate(summary: Summary, recipe: Recipe, out: Path, partitions: int | None, master: str) -> dict[str, Any]:
    from thinwire_lab.workload.spark.workload_folder import generate as run

    with spark_session(master, "thinwire workload generate") as spark, progress_bar("workload") as progress:
        return run(spark, summary, recipe, out, partitions=partitions, progress=progress)


def _show_stages(output: Output, stages: list[Mapping[str, Any]]) -> None:
    """Print a row for each step: subscribers, regions, and the information of interests about regions."""
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
    rows = []
    for name, value in counts.items():
        rows += [(f"no {part}", count) for part, count in value.items()] if isinstance(value, dict) else [(name, value)]
    return rows


def _integer(name: str, value: float) -> int:
    """Return a count that may be written as 1e7.

    >>> _integer("events", 1e7)
    10000000
    """
    if not 0 <= value < 1e15 or value != int(value):
        raise ConfigError("not a whole number, 0 or more", field=name, value=value)
    return int(value)
