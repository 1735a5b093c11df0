"""`thinwire place propose | explain | apply | run`: topics on edge hosts within a latency limit."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from thinwire.brokers.broker_url import open_broker, read_url
from thinwire.brokers.protocol import Broker
from thinwire.cli.connection_options import (
    DEFAULT_URL,
    NO_CREDENTIALS,
    BrokerAccess,
    Credentials,
    UrlOption,
    with_credentials,
)
from thinwire.cli.ingest import read_duration
from thinwire.cli.output import JsonOption, Output
from thinwire.cli.terminal import Interruptible, run
from thinwire.edge import Controller, EdgeTopic, apply
from thinwire.edge.assignment import HostOfTopic, find_running_hosts, propose_hosts, read_assignment
from thinwire.edge.edge_host import TERM
from thinwire.edge.placement_files import read_edge_topics, read_hosts, read_model, read_topics, select_hosts
from thinwire.errors import ConfigError
from thinwire.placement import Host, HostAssignment, MonotoneModel, PlacementPlan, TopicLoad, propose, tightened
from thinwire.placement.explanation import explain

APPLY_COLUMNS = ("topic", "host", "before", "function", "messages/s", "limit ms")

FileOption = Annotated[
    Path, typer.Option("--topics", help="TOML file: [[topic]] name, function, rate, interval, promise...")
]
PromiseOption = Annotated[str, typer.Option("--promise", help="Default latency limit of topics, such as p90=1s.")]
ApplyTogetherOption = Annotated[int, typer.Option("-k", help="Largest number of topics per host.", min=1)]
ApplyModelOption = Annotated[
    Path | None, typer.Option("--model", help="Latency model file; default: the model of simulated hosts.")
]
DryOption = Annotated[bool, typer.Option("--dry-run", help="Print the assignment without applying it.")]
SaveOption = Annotated[bool, typer.Option("--save", help="Also release hosts that are not needed.")]


@with_credentials
def apply_(
    topics: FileOption,
    to: UrlOption = DEFAULT_URL,
    promise: PromiseOption = "p90=1s",
    k: ApplyTogetherOption = 6,
    model: ApplyModelOption = None,
    dry_run: DryOption = False,
    credentials: Credentials = NO_CREDENTIALS,
    json: JsonOption = False,
) -> None:
    """Assign topics to the running hosts. Topics continue from their last position.

    \b
    thinwire place apply --topics topics.toml --to nats://hub:4222 -k 6
    """

    output, access = Output(json), BrokerAccess(to, credentials)
    wanted, judge = read_edge_topics(topics, read_promise(promise)), read_model(model)
    where, before, plan = run(_apply(access, wanted, judge, k, dry_run))
    rows = [(t.topic, where[t.topic], before.get(t.topic), t.function, t.rate, 1000 * t.promise) for t in wanted]
    output.table("would be assigned" if dry_run else "assigned", APPLY_COLUMNS, rows)
    moved = sum(host != before.get(topic) for topic, host in where.items())
    output.note(f"{len(set(where.values()))} hosts, {moved} topics {'would move' if dry_run else 'move'}.")
    output.document({"hosts": where, "before": before, "applied": not dry_run, **_facts(plan)})


@with_credentials
def run_(
    to: UrlOption = DEFAULT_URL,
    k: ApplyTogetherOption = 6,
    model: ApplyModelOption = None,
    save: SaveOption = False,
    credentials: Credentials = NO_CREDENTIALS,
) -> None:
    """Monitor latency limits and move topics, until Ctrl-C or SIGTERM. One of several controllers is active.

    \b
    thinwire place run --to nats://hub:4222
    """
    access, judge = BrokerAccess(to, credentials), read_model(model)
    run(_run_controller(Output(False), access, judge, k, save))


async def open_hub(access: BrokerAccess, stack: AsyncExitStack) -> Broker:
    """Connect to the hub; the stack closes the connection."""
    broker, _ = await open_broker(read_url(access.url), {"name": "placement", **access.options()}, stack)
    return broker


async def _apply(
    access: BrokerAccess, topics: list[EdgeTopic], model: MonotoneModel, k: int, dry_run: bool
) -> tuple[HostOfTopic, HostOfTopic, PlacementPlan | None]:
    async with AsyncExitStack() as stack:
        hub = await open_hub(access, stack)
        hosts, before = await find_running_hosts(hub, TERM), dict((await read_assignment(hub)).hosts)
        where, plan = propose_hosts(topics, hosts, before, model, k)
        if not dry_run:
            await apply(hub, topics, where)
        return where, before, plan


async def _run_controller(output: Output, access: BrokerAccess, model: MonotoneModel, k: int, save: bool) -> None:
    async with AsyncExitStack() as stack:
        controller = Controller(await open_hub(access, stack), model, k=k, save=save)
        output.note(f"{access.redacted_url}  controller {controller.name} is running. Ctrl-C stops it.")
        with Interruptible():
            await asyncio.create_task(controller.run())


def _facts(plan: PlacementPlan | None) -> dict[str, Any]:
    return {} if plan is None else {"lower_bound": plan.lower_bound, "gap": plan.gap, "complete": plan.complete}


COLUMNS = ("host", "topic", "messages/s", "ms a message", "expected p90 ms", "with margin ms", "limit ms")

place = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Place topics on edge hosts within a latency limit."
)

place.command("apply")(apply_)
place.command("run")(run_)

TopicsOption = Annotated[Path, typer.Option("--topics", help="TOML file: [[topic]] name, rate, interval, promise.")]
HostsOption = Annotated[
    Path, typer.Option("--hosts", help="TOML file: [[host]] name, cores, speed, contention, count.")
]
HostOption = Annotated[list[str] | None, typer.Option("--host", help="Use only this kind of host; may be repeated.")]
TogetherOption = Annotated[int, typer.Option("-k", help="Largest number of topics per host.")]
ModelOption = Annotated[
    Path | None, typer.Option("--model", help="Latency model file; default: the model of simulated hosts.")
]
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
    """Propose a placement with few hosts: expected p90 with margin, lower bound, hosts needed for tighter limits.

    \b
    thinwire place propose --topics topics.toml --hosts hosts.toml --promise p90=1s -k 6
    """
    output = Output(json)
    wanted, kinds, judge = _read(topics, hosts, host, promise, model)
    plan = propose(wanted, kinds, judge, k)
    harder = tightened(wanted, kinds, judge, k)
    by_name = {topic.name: topic for topic in wanted}
    output.table(
        "placement", COLUMNS, [row for assignment in plan.assignments for row in _assignment_rows(assignment, by_name)]
    )
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
    """Explain the host that the proposal chooses for a topic.

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
    """Parse a latency limit and return seconds.

    >>> read_promise("p90=1s"), read_promise("p90=250ms")
    (1.0, 0.25)
    """
    name, _, duration = text.partition("=")
    if name.strip() != "p90":
        raise ConfigError("write it as p90=1s or p90=250ms", field="promise", value=text)
    return read_duration(duration)


def _read(
    topics: Path, hosts: Path, host: list[str] | None, promise: str, model: Path | None
) -> tuple[list[TopicLoad], list[Host], MonotoneModel]:
    wanted = read_topics(topics, read_promise(promise))
    return wanted, select_hosts(read_hosts(hosts), host or []), read_model(model)


def _assignment_rows(assignment: HostAssignment, topics: dict[str, TopicLoad]) -> list[tuple[Any, ...]]:
    rows = []
    for name, p90, bound in zip(assignment.topics, assignment.p90, assignment.bounds, strict=True):
        topic = topics[name]
        times = [round(1000 * seconds, 1) for seconds in (p90, bound, topic.promise)]
        rows.append((assignment.host, name, topic.rate, 1000 * topic.interval, *times))
    return rows


def _print_plan(output: Output, plan: PlacementPlan, model: MonotoneModel, harder: dict[float, int | None]) -> None:
    proof = "the minimum under this model" if plan.gap == 0 else f"{plan.gap} more than the lower bound"
    output.note(f"{len(plan.assignments)} hosts, lower bound {plan.lower_bound}: {proof}.")
    for share, count in harder.items():
        needed = "not feasible: a topic exceeds it even alone" if count is None else f"{count} hosts"
        output.note(f"limits multiplied by {share:g}: {needed}.")
    origin = "; ".join(f"{name}: {value}" for name, value in model.origin.items() if not isinstance(value, dict))
    output.note(f"margin: {100 * model.margin.kept:g} % of runs are below it. Model: {origin or 'unknown origin'}.")


def _document(plan: PlacementPlan, model: MonotoneModel, harder: dict[float, int | None]) -> dict[str, Any]:
    assignments = [
        {
            "host": assignment.host,
            "kind": assignment.kind.name,
            "topics": assignment.topics,
            "p90": assignment.p90,
            "bounds": assignment.bounds,
        }
        for assignment in plan.assignments
    ]
    facts = {
        "hosts": len(plan.assignments),
        "lower_bound": plan.lower_bound,
        "gap": plan.gap,
        "complete": plan.complete,
    }
    return {**facts, "k": plan.k, "tightened": harder, "assignments": assignments, "model": dict(model.origin)}
