"""`thinwire place apply | run`: topics onto the hosts that are there, and a controller that keeps promises."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from thinwire.analysis.placement_files import read_edge_topics, read_model
from thinwire.brokers.broker_url import read_url
from thinwire.brokers.protocol_broker import Broker
from thinwire.cli.connection_options import NOBODY, Identity, identified
from thinwire.cli.connection_options_live import DEFAULT_URL, Access, UrlOption
from thinwire.cli.output import JsonOption, Output
from thinwire.cli.terminal import Interruptible, run
from thinwire.client.local_services_opening import open_broker
from thinwire.edge import Controller, EdgeTopic, apply
from thinwire.edge.assignment_proposing import Where, current, present, proposed
from thinwire.edge.edge_host_host import TERM
from thinwire.placement import Plan, Rising

COLUMNS = ("topic", "host", "before", "function", "messages/s", "promised ms")

FileOption = Annotated[
    Path, typer.Option("--topics", help="TOML: [[topic]] name, function, rate, interval, promise...")
]
PromiseOption = Annotated[str, typer.Option("--promise", help="For topics that state none, such as p90=1s.")]
TogetherOption = Annotated[int, typer.Option("-k", help="Topics on one host, at most.", min=1)]
ModelOption = Annotated[Path | None, typer.Option("--model", help="A latency model; else the simulated one.")]
DryOption = Annotated[bool, typer.Option("--dry-run", help="Show where topics would go; change nothing.")]
SaveOption = Annotated[bool, typer.Option("--save", help="Also empty hosts that are not needed.")]


@identified
def apply_(
    topics: FileOption,
    to: UrlOption = DEFAULT_URL,
    promise: PromiseOption = "p90=1s",
    k: TogetherOption = 6,
    model: ModelOption = None,
    dry_run: DryOption = False,
    who: Identity = NOBODY,
    json: JsonOption = False,
) -> None:
    """Assign topics to the hosts that are there; each goes on where it was.

    \b
    thinwire place apply --topics topics.toml --to nats://hub:4222 -k 6
    """
    from thinwire.cli.place import read_promise  # it lists this verb, so it cannot be known before

    output, access = Output(json), Access(to, who)
    wanted, judge = read_edge_topics(topics, read_promise(promise)), read_model(model)
    where, before, plan = run(_applied(access, wanted, judge, k, dry_run))
    rows = [(t.topic, where[t.topic], before.get(t.topic), t.function, t.rate, 1000 * t.promise) for t in wanted]
    output.table("would be assigned" if dry_run else "assigned", COLUMNS, rows)
    moved = sum(host != before.get(topic) for topic, host in where.items())
    output.note(f"{len(set(where.values()))} hosts, {moved} topics {'would move' if dry_run else 'move'}.")
    output.document({"hosts": where, "before": before, "applied": not dry_run, **_facts(plan)})


@identified
def run_(
    to: UrlOption = DEFAULT_URL,
    k: TogetherOption = 6,
    model: ModelOption = None,
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
) -> tuple[Where, Where, Plan | None]:
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


def _facts(plan: Plan | None) -> dict[str, Any]:
    return {} if plan is None else {"lower_bound": plan.lower_bound, "gap": plan.gap, "complete": plan.complete}
