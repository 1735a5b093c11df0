"""`thinwire place propose | explain | apply | run`: topics on edge hosts within a latency limit."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from thinwire.cli.connection_options import BrokerAccess
from thinwire.cli.ingest import read_duration
from thinwire.cli.option_groups import option, with_options
from thinwire.cli.output import Output
from thinwire.cli.terminal import interruptible, run
from thinwire.edge import Controller, EdgeTopic, apply
from thinwire.edge.assignment import HostOfTopic, find_running_hosts, propose_hosts, read_assignment
from thinwire.edge.edge_host import TERM
from thinwire.edge.placement_files import read_edge_topics, read_hosts, read_model, read_topics, select_hosts
from thinwire.errors import ConfigError
from thinwire.placement import Host, HostAssignment, MonotoneModel, PlacementPlan, TopicLoad, propose, tightened
from thinwire.placement.explanation import explain

APPLY_COLUMNS = ("topic", "host", "before", "function", "messages/s", "limit ms")
_PROMISE = "Default latency limit of topics, such as p90=1s."
COLUMNS = ("host", "topic", "messages/s", "ms per message", "expected p90 ms", "with margin ms", "limit ms")

place = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Place topics on edge hosts within a latency limit."
)

TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic to explain.")]


@dataclass(frozen=True)
class HostOptions:
    """What a host can process."""

    k: int = option(6, "Largest number of topics per host.", "-k", min=1)
    model: Path | None = option(None, "Latency model file; default: the model of simulated hosts.")


@dataclass(frozen=True)
class PlacementOptions(HostOptions):
    topics: Path = option(..., r"TOML file: [\[topic]] name, rate, interval, promise.")
    hosts: Path = option(..., r"TOML file: [\[host]] name, cores, speed, contention, count.")
    host: list[str] | None = option(None, "Use only hosts of this kind; may be repeated.")
    promise: str = option("p90=1s", _PROMISE)

    def read(self) -> tuple[list[TopicLoad], list[Host], MonotoneModel]:
        """Return the topics, the kinds of hosts and the latency model."""
        topics = read_topics(self.topics, read_promise(self.promise))
        return topics, select_hosts(read_hosts(self.hosts), self.host or []), read_model(self.model)


@dataclass(frozen=True)
class ApplyOptions(HostOptions):
    topics: Path = option(..., r"TOML file: [\[topic]] name, function, rate, interval, promise...")
    promise: str = option("p90=1s", _PROMISE)
    dry_run: bool = option(False, "Print the new assignment without applying it.")


@dataclass(frozen=True)
class ControllerOptions(HostOptions):
    save: bool = option(False, "Also release hosts that are not needed.")


@place.command("apply")
@with_options
def apply_(*, options: ApplyOptions, broker: BrokerAccess, output: Output) -> None:
    """Assign topics to the running hosts. Topics continue from their last position.

    \b
    thinwire place apply --topics topics.toml --to nats://hub:4222 -k 6
    """
    topics, dry_run = read_edge_topics(options.topics, read_promise(options.promise)), options.dry_run
    hosts, before, plan = run(_apply(broker, topics, options))
    rows = [(t.topic, hosts[t.topic], before.get(t.topic), t.function, t.rate, 1000 * t.promise) for t in topics]
    output.table("would be assigned" if dry_run else "assigned", APPLY_COLUMNS, rows)
    moved = sum(host != before.get(topic) for topic, host in hosts.items())
    output.note(f"{len(set(hosts.values()))} hosts, {moved} topics {'would move' if dry_run else 'move'}.")
    output.document({"hosts": hosts, "before": before, "applied": not dry_run, **_optimality(plan)})


@place.command("run")
@with_options
def run_(*, options: ControllerOptions, broker: BrokerAccess) -> None:
    """Monitor latency limits and move topics, until Ctrl-C or SIGTERM. If several controllers run, only one is active.

    \b
    thinwire place run --to nats://hub:4222
    """
    run(_run_controller(Output(), broker, options))


@place.command("propose")
@with_options
def propose_(*, options: PlacementOptions, output: Output) -> None:
    """Propose a placement with few hosts: expected p90 with margin, lower bound, hosts needed for tighter limits.

    \b
    thinwire place propose --topics topics.toml --hosts hosts.toml --promise p90=1s -k 6
    """
    topics, hosts, model = options.read()
    plan = propose(topics, hosts, model, options.k)
    tighter = tightened(topics, hosts, model, options.k)
    loads = {topic.name: topic for topic in topics}
    rows = [row for assignment in plan.assignments for row in _assignment_rows(assignment, loads)]
    output.table("placement", COLUMNS, rows)
    _print_plan(output, plan, model, tighter)
    output.document(_document(plan, model, tighter))


@place.command("explain")
@with_options
def explain_(topic: TopicArgument, *, options: PlacementOptions, output: Output) -> None:
    """Explain the host that the proposal chooses for a topic.

    \b
    thinwire place explain region-7.gps --topics topics.toml --hosts hosts.toml
    """
    topics, hosts, model = options.read()
    if topic not in {known.name for known in topics}:
        raise ConfigError("no such topic in the file of --topics", field="TOPIC", value=topic, file=str(options.topics))
    found = explain(topic, propose(topics, hosts, model, options.k), topics, model)
    for sentence in found.sentences:
        output.note(sentence)
    output.document({"explanation": found, "sentences": found.sentences})


def read_promise(text: str) -> float:
    """Parse a latency limit and return seconds.

    >>> read_promise("p90=1s"), read_promise("p90=250ms")
    (1.0, 0.25)
    """
    quantile, _, duration = text.partition("=")
    if quantile.strip() != "p90":
        raise ConfigError("write it as p90=1s or p90=250ms", field="promise", value=text)
    return read_duration(duration)


async def _apply(
    broker: BrokerAccess, topics: list[EdgeTopic], options: ApplyOptions
) -> tuple[HostOfTopic, HostOfTopic, PlacementPlan | None]:
    model = read_model(options.model)
    async with AsyncExitStack() as stack:
        hub = await broker.open("placement", stack)
        hosts, before = await find_running_hosts(hub, TERM), dict((await read_assignment(hub)).hosts)
        where, plan = propose_hosts(topics, hosts, before, model, options.k)
        if not options.dry_run:
            await apply(hub, topics, where)
        return where, before, plan


async def _run_controller(output: Output, broker: BrokerAccess, options: ControllerOptions) -> None:
    model = read_model(options.model)
    async with AsyncExitStack() as stack:
        controller = Controller(await broker.open("placement", stack), model, k=options.k, empty_hosts=options.save)
        output.note(f"{broker.redacted_url}  controller {controller.name} is running. Ctrl-C ends the command.")
        with interruptible():
            await asyncio.create_task(controller.run())


def _optimality(plan: PlacementPlan | None) -> dict[str, Any]:
    return {} if plan is None else {"lower_bound": plan.lower_bound, "gap": plan.gap, "complete": plan.complete}


def _assignment_rows(assignment: HostAssignment, topics: dict[str, TopicLoad]) -> list[tuple[Any, ...]]:
    rows = []
    for name, p90, bound in zip(assignment.topics, assignment.p90, assignment.bounds, strict=True):
        topic = topics[name]
        times = [round(1000 * seconds, 1) for seconds in (p90, bound, topic.promise)]
        rows.append((assignment.host, name, topic.rate, 1000 * topic.interval, *times))
    return rows


def _print_plan(output: Output, plan: PlacementPlan, model: MonotoneModel, tighter: dict[float, int | None]) -> None:
    proof = "the minimum under this model" if plan.gap == 0 else f"{plan.gap} more than the lower bound"
    output.note(f"{len(plan.assignments)} hosts, lower bound {plan.lower_bound}: {proof}.")
    for share, count in tighter.items():
        needed = "not feasible: a topic exceeds it even alone" if count is None else f"{count} hosts"
        output.note(f"limits multiplied by {share:g}: {needed}.")
    origin = "; ".join(f"{name}: {value}" for name, value in model.origin.items() if not isinstance(value, dict))
    output.note(f"margin: {100 * model.margin.kept:g} % of runs are below it. Model: {origin or 'unknown origin'}.")


def _document(plan: PlacementPlan, model: MonotoneModel, tighter: dict[float, int | None]) -> dict[str, Any]:
    assignments = [
        {"host": host.host, "kind": host.kind.name, "topics": host.topics, "p90": host.p90, "bounds": host.bounds}
        for host in plan.assignments
    ]
    facts = {"hosts": len(plan.assignments), **_optimality(plan), "k": plan.k, "tightened": tighter}
    return {**facts, "assignments": assignments, "model": dict(model.origin)}
