"""`thinwire place`: topics on hosts under a latency promise, and why; verbs that run or teach have their own files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from thinwire.analysis.placement_files import named, read_hosts, read_model, read_topics
from thinwire.cli.ingest import read_duration
from thinwire.cli.output import JsonOption, Output
from thinwire.cli.place_place_apply import apply_, run_
from thinwire.cli.place_place_learn import calibrate_, train_
from thinwire.cli.place_place_teach import teach_
from thinwire.errors import ConfigError
from thinwire.placement import Host, Plan, Rising, Seat, Topic, propose, tightened
from thinwire.placement.explanation import explain

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
PromiseOption = Annotated[str, typer.Option("--promise", help="For topics that state none, such as p90=1s.")]
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
    output.table("placement", COLUMNS, [row for seat in plan.seats for row in _rows(seat, by_name)])
    _tell(output, plan, judge, harder)
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
) -> tuple[list[Topic], list[Host], Rising]:
    wanted = read_topics(topics, read_promise(promise))
    return wanted, named(read_hosts(hosts), host or []), read_model(model)


def _rows(seat: Seat, topics: dict[str, Topic]) -> list[tuple[Any, ...]]:
    rows = []
    for name, p90, bound in zip(seat.topics, seat.p90, seat.bounds, strict=True):
        topic = topics[name]
        times = [round(1000 * seconds, 1) for seconds in (p90, bound, topic.promise)]
        rows.append((seat.host, name, topic.rate, 1000 * topic.interval, *times))
    return rows


def _tell(output: Output, plan: Plan, model: Rising, harder: dict[float, int | None]) -> None:
    proof = "the fewest that the model allows" if plan.gap == 0 else f"{plan.gap} more than the lower bound"
    output.note(f"{len(plan.seats)} hosts, lower bound {plan.lower_bound}: {proof}.")
    for share, count in harder.items():
        told = "some topic could not keep it alone" if count is None else f"{count} hosts"
        output.note(f"promises {share:g} times as long: {told}.")
    origin = "; ".join(f"{name}: {value}" for name, value in model.origin.items() if not isinstance(value, dict))
    output.note(f"margin: {100 * model.margin.kept:g} % of runs stay below. Model: {origin or 'of unknown origin'}.")


def _document(plan: Plan, model: Rising, harder: dict[float, int | None]) -> dict[str, Any]:
    seats = [
        {"host": seat.host, "kind": seat.kind.name, "topics": seat.topics, "p90": seat.p90, "bounds": seat.bounds}
        for seat in plan.seats
    ]
    facts = {"hosts": len(plan.seats), "lower_bound": plan.lower_bound, "gap": plan.gap, "complete": plan.complete}
    return {**facts, "k": plan.k, "tightened": harder, "seats": seats, "model": dict(model.origin)}
