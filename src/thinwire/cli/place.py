"""`thinwire place`: topics on hosts under a latency promise, and why; verbs that run or teach have their own files.

`thinwire place apply | run`: topics onto the hosts that are there, and a controller that keeps promises.

`thinwire place train | calibrate`: a latency model from simulated runs, and a simulated host from measured ones.

`thinwire place teach`: Spark makes a model of what a topic says, and the function of a topic goes by it.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from thinwire.analysis.model_training import store, store_published
from thinwire.analysis.placement_files import (
    host_text,
    named,
    read_edge_topics,
    read_hosts,
    read_model,
    read_runs,
    read_topics,
)
from thinwire.brokers.broker_url import read_url
from thinwire.brokers.protocol import Broker
from thinwire.cli.connection_options import DEFAULT_URL, NOBODY, Access, Identity, UrlOption, identified
from thinwire.cli.ingest import read_duration
from thinwire.cli.output import JsonOption, Output
from thinwire.cli.spark_options import MasterOption, running
from thinwire.cli.sweep import find
from thinwire.cli.terminal import Interruptible, run
from thinwire.client.local_services import open_broker
from thinwire.clock import WallClock
from thinwire.edge import Controller, EdgeTopic, apply, teach
from thinwire.edge.assignment import Where, current, present, proposed
from thinwire.edge.edge_host import TERM
from thinwire.errors import ConfigError
from thinwire.placement import Host, HostAssignment, PlacementPlan, Rising, TopicLoad, propose, tightened
from thinwire.placement.calibration import Calibration, calibrate
from thinwire.placement.explanation import explain

APPLY_COLUMNS = ("topic", "host", "before", "function", "messages/s", "promised ms")

FileOption = Annotated[
    Path, typer.Option("--topics", help="TOML: [[topic]] name, function, rate, interval, promise...")
]
PromiseOption = Annotated[str, typer.Option("--promise", help="For topics that state none, such as p90=1s.")]
ApplyTogetherOption = Annotated[int, typer.Option("-k", help="Topics on one host, at most.", min=1)]
ApplyModelOption = Annotated[Path | None, typer.Option("--model", help="A latency model; else the simulated one.")]
DryOption = Annotated[bool, typer.Option("--dry-run", help="Show where topics would go; change nothing.")]
SaveOption = Annotated[bool, typer.Option("--save", help="Also empty hosts that are not needed.")]


@identified
def apply_(
    topics: FileOption,
    to: UrlOption = DEFAULT_URL,
    promise: PromiseOption = "p90=1s",
    k: ApplyTogetherOption = 6,
    model: ApplyModelOption = None,
    dry_run: DryOption = False,
    who: Identity = NOBODY,
    json: JsonOption = False,
) -> None:
    """Assign topics to the hosts that are there; each goes on where it was.

    \b
    thinwire place apply --topics topics.toml --to nats://hub:4222 -k 6
    """

    output, access = Output(json), Access(to, who)
    wanted, judge = read_edge_topics(topics, read_promise(promise)), read_model(model)
    where, before, plan = run(_applied(access, wanted, judge, k, dry_run))
    rows = [(t.topic, where[t.topic], before.get(t.topic), t.function, t.rate, 1000 * t.promise) for t in wanted]
    output.table("would be assigned" if dry_run else "assigned", APPLY_COLUMNS, rows)
    moved = sum(host != before.get(topic) for topic, host in where.items())
    output.note(f"{len(set(where.values()))} hosts, {moved} topics {'would move' if dry_run else 'move'}.")
    output.document({"hosts": where, "before": before, "applied": not dry_run, **_facts(plan)})


@identified
def run_(
    to: UrlOption = DEFAULT_URL,
    k: ApplyTogetherOption = 6,
    model: ApplyModelOption = None,
    save: SaveOption = False,
    who: Identity = NOBODY,
) -> None:
    """Watch promises and move topics, until Ctrl-C or SIGTERM. Of several, one leads.

    \b
    thinwire place run --to nats://hub:4222
    """
    access, judge = Access(to, who), read_model(model)
    run(_controlled(Output(False), access, judge, k, save))


async def opened(access: Access, stack: AsyncExitStack) -> Broker:
    """A connection to the hub, closed with the stack."""
    broker, _ = await open_broker(read_url(access.url), {"name": "placement", **access.options()}, stack)
    return broker


async def _applied(
    access: Access, topics: list[EdgeTopic], model: Rising, k: int, dry_run: bool
) -> tuple[Where, Where, PlacementPlan | None]:
    async with AsyncExitStack() as stack:
        hub = await opened(access, stack)
        hosts, before = await present(hub, TERM), dict((await current(hub)).hosts)
        where, plan = proposed(topics, hosts, before, model, k)
        if not dry_run:
            await apply(hub, topics, where)
        return where, before, plan


async def _controlled(output: Output, access: Access, model: Rising, k: int, save: bool) -> None:
    async with AsyncExitStack() as stack:
        controller = Controller(await opened(access, stack), model, k=k, save=save)
        output.note(f"{access.shown}  controller {controller.name} watches. Ctrl-C stops it.")
        with Interruptible():
            await asyncio.create_task(controller.run())


def _facts(plan: PlacementPlan | None) -> dict[str, Any]:
    return {} if plan is None else {"lower_bound": plan.lower_bound, "gap": plan.gap, "complete": plan.complete}


STORES = {"ours": store, "published": store_published}

ToOption = Annotated[Path, typer.Option("--to", help="Write the model here, as JSON.")]
RunsOption = Annotated[int, typer.Option("--runs", help="Runs to train with, for each number of topics.", min=40)]
SeedOption = Annotated[int, typer.Option("--seed", help="Of all chances.", min=0)]
StoredModelOption = Annotated[str, typer.Option("--model", help=f"Which model: {' or '.join(STORES)}.")]
RunsArgument = Annotated[Path, typer.Argument(metavar="RUNS", help="Measured runs, as `thinwire bench edge` writes.")]
HostsToOption = Annotated[Path | None, typer.Option("--to", help="Write the host here, as TOML for --hosts.")]


def train_(
    to: ToOption,
    runs: RunsOption = 1000,
    seed: SeedOption = 1,
    model: StoredModelOption = "ours",
    master: MasterOption = "local[*]",
    json: JsonOption = False,
) -> None:
    """Train a latency model on simulated hosts and keep it with machine, date and error.

    Runs are simulated on Spark where it can run, else one after the other
    in this process.

    \b
    thinwire place train --to model.json --runs 1000
    """
    output = Output(json)
    if model not in STORES:
        raise ConfigError("no such model", field="model", value=model, choose_from=sorted(STORES))
    with running(master, output, app="thinwire place train") as sweep:
        origin = STORES[model](to, WallClock(), runs, seed, sweep)
    for name, value in origin.items():
        output.note(f"{name}: {value}")
    output.document({"model": str(to), **origin})


def calibrate_(runs: RunsArgument, to: HostsToOption = None, json: JsonOption = False) -> None:
    """Fit a simulated host to measured runs, and say how far it is off on runs it was not fitted to.

    \b
    thinwire place calibrate edge-runs.json --to hosts.toml
    """
    output = Output(json)
    found = calibrate(read_runs(runs))
    output.table("simulated against measured p90", CALIBRATION_COLUMNS, _rows(found))
    text = host_text(found.host)
    output.note(text)
    if found.fresh is None:
        output.note("nothing was held back: measure more configurations before you trust this")
    if to is not None:
        to.write_text(text, encoding="utf-8")
    output.document({"host": asdict(found.host), "seen": found.seen, "fresh": found.fresh})


CALIBRATION_COLUMNS = ("runs", "how many", "topics", "R2(log)", "mean off %", "worst off %")


def _rows(found: Calibration) -> list[tuple[Any, ...]]:
    both = (("fitted to", found.seen), ("held back", found.fresh))
    return [
        (name, close.runs, close.topics, round(close.fit, 4), round(100 * close.off, 1), round(100 * close.worst, 1))
        for name, close in both
        if close is not None
    ]


TaughtTopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic whose function shall learn.")]
FromOption = Annotated[str, typer.Option("--from", metavar="TOPIC", help="The topic to learn from.")]
WithOption = Annotated[str, typer.Option("--with", help="module:function that makes a model of a DataFrame.")]
TableOption = Annotated[Path, typer.Option("--table", metavar="DIR", help="Where the stream is landed, as Parquet.")]


@identified
def teach_(
    topic: TaughtTopicArgument,
    source: FromOption,
    learning: WithOption,
    table: TableOption,
    to: UrlOption = DEFAULT_URL,
    master: MasterOption = "local[*]",
    who: Identity = NOBODY,
    json: JsonOption = False,
) -> None:
    """Land a topic, let a function on Spark make a model of it, and give that to the function of a topic.

    The function on Spark gets a DataFrame of offset, due, id and body; the one
    at the edge gets its model through `learned` in the same module.

    \b
    thinwire place teach region-7.gps --from region-7.update --with speeds:usual --table landed/region-7
    """
    output, access = Output(json), Access(to, who)
    called = find(learning)
    from thinwire.spark.jobs.edge_training import land, model_of
    from thinwire.spark.session import session

    async def landing() -> int:
        async with AsyncExitStack() as stack:
            return await land(await opened(access, stack), source, table)

    async def teaching(model: bytes) -> None:
        async with AsyncExitStack() as stack:
            await teach(await opened(access, stack), topic, model)

    fresh = run(landing())
    spark = session(master, app="thinwire place teach")
    try:
        model = model_of(spark, table, called)
    finally:
        spark.stop()
    run(teaching(model))
    output.note(f"{fresh} messages landed in {table}; {topic} goes by a model of {len(model)} bytes from now on.")
    output.document({"topic": topic, "landed": fresh, "bytes": len(model)})


COLUMNS = ("host", "topic", "messages/s", "ms a message", "expected p90 ms", "with margin ms", "promised ms")

place = typer.Typer(add_completion=False, no_args_is_help=True, help="Topics on hosts under a latency promise.")

place.command("apply")(apply_)
place.command("run")(run_)
place.command("teach")(teach_)
place.command("train")(train_)
place.command("calibrate")(calibrate_)

TopicsOption = Annotated[Path, typer.Option("--topics", help="TOML: [[topic]] name, rate, interval, promise.")]
HostsOption = Annotated[Path, typer.Option("--hosts", help="TOML: [[host]] name, cores, speed, contention, count.")]
HostOption = Annotated[list[str] | None, typer.Option("--host", help="Only this kind of host; may be repeated.")]
TogetherOption = Annotated[int, typer.Option("-k", help="Topics on one host, at most.")]
ModelOption = Annotated[Path | None, typer.Option("--model", help="A latency model; else the simulated one.")]
TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic to explain.")]


@place.command("propose")
def propose_(
    topics: TopicsOption,
    hosts: HostsOption,
    host: HostOption = None,
    promise: PromiseOption = "p90=1s",
    k: TogetherOption = 6,
    model: ModelOption = None,
    json: JsonOption = False,
) -> None:
    """Propose a placement: fewest hosts, expected p90 with its margin, the lower bound, the price of a tighter promise.

    \b
    thinwire place propose --topics topics.toml --hosts hosts.toml --promise p90=1s -k 6
    """
    output = Output(json)
    wanted, kinds, judge = _read(topics, hosts, host, promise, model)
    plan = propose(wanted, kinds, judge, k)
    harder = tightened(wanted, kinds, judge, k)
    by_name = {topic.name: topic for topic in wanted}
    output.table("placement", COLUMNS, [row for seat in plan.seats for row in _rows_place(seat, by_name)])
    _print_plan(output, plan, judge, harder)
    output.document(_document(plan, judge, harder))


@place.command("explain")
def explain_(
    topic: TopicArgument,
    topics: TopicsOption,
    hosts: HostsOption,
    host: HostOption = None,
    promise: PromiseOption = "p90=1s",
    k: TogetherOption = 6,
    model: ModelOption = None,
    json: JsonOption = False,
) -> None:
    """Say why a topic is where the proposal puts it.

    \b
    thinwire place explain region-7.gps --topics topics.toml --hosts hosts.toml
    """
    output = Output(json)
    wanted, kinds, judge = _read(topics, hosts, host, promise, model)
    if topic not in {known.name for known in wanted}:
        raise ConfigError("no such topic", field="TOPIC", value=topic, file=str(topics))
    found = explain(topic, propose(wanted, kinds, judge, k), wanted, judge)
    for sentence in found.sentences:
        output.note(sentence)
    output.document({"explanation": found, "sentences": found.sentences})


def read_promise(text: str) -> float:
    """Seconds of a promise.

    >>> read_promise("p90=1s"), read_promise("p90=250ms")
    (1.0, 0.25)
    """
    name, _, duration = text.partition("=")
    if name.strip() != "p90":
        raise ConfigError("write it as p90=1s or p90=250ms", field="promise", value=text)
    return read_duration(duration)


def _read(
    topics: Path, hosts: Path, host: list[str] | None, promise: str, model: Path | None
) -> tuple[list[TopicLoad], list[Host], Rising]:
    wanted = read_topics(topics, read_promise(promise))
    return wanted, named(read_hosts(hosts), host or []), read_model(model)


def _rows_place(seat: HostAssignment, topics: dict[str, TopicLoad]) -> list[tuple[Any, ...]]:
    rows = []
    for name, p90, bound in zip(seat.topics, seat.p90, seat.bounds, strict=True):
        topic = topics[name]
        times = [round(1000 * seconds, 1) for seconds in (p90, bound, topic.promise)]
        rows.append((seat.host, name, topic.rate, 1000 * topic.interval, *times))
    return rows


def _print_plan(output: Output, plan: PlacementPlan, model: Rising, harder: dict[float, int | None]) -> None:
    proof = "the fewest that the model allows" if plan.gap == 0 else f"{plan.gap} more than the lower bound"
    output.note(f"{len(plan.seats)} hosts, lower bound {plan.lower_bound}: {proof}.")
    for share, count in harder.items():
        told = "some topic could not keep it alone" if count is None else f"{count} hosts"
        output.note(f"promises {share:g} times as long: {told}.")
    origin = "; ".join(f"{name}: {value}" for name, value in model.origin.items() if not isinstance(value, dict))
    output.note(f"margin: {100 * model.margin.kept:g} % of runs stay below. Model: {origin or 'of unknown origin'}.")


def _document(plan: PlacementPlan, model: Rising, harder: dict[float, int | None]) -> dict[str, Any]:
    seats = [
        {"host": seat.host, "kind": seat.kind.name, "topics": seat.topics, "p90": seat.p90, "bounds": seat.bounds}
        for seat in plan.seats
    ]
    facts = {"hosts": len(plan.seats), "lower_bound": plan.lower_bound, "gap": plan.gap, "complete": plan.complete}
    return {**facts, "k": plan.k, "tightened": harder, "seats": seats, "model": dict(model.origin)}
