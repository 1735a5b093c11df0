"""`thinwire pub TOPIC [FILE]`: publish events from JSON lines."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from thinwire.cli.connection_options import (
    DEFAULT_URL,
    NO_CREDENTIALS,
    BrokerAccess,
    Credentials,
    DefaultToleranceOption,
    SchemaFileOption,
    TolerancesOption,
    UrlOption,
    read_names,
    read_schema,
    read_tolerances,
    with_credentials,
)
from thinwire.cli.main import INTERRUPTED
from thinwire.cli.output import JsonOption, Output, print_status
from thinwire.cli.pub_input import EventInput, PublishOptions, PublishSummary, resolve_input_schema
from thinwire.cli.terminal import Interruptible, run, status_line
from thinwire.client.publisher import Publisher
from thinwire.errors import ConfigError
from thinwire.topics.topic_plan import load_plan

TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="For example building.rooms.")]
FileArgument = Annotated[str, typer.Argument(metavar="FILE", help="Events, one JSON object per line; - for stdin.")]
InferOption = Annotated[
    bool, typer.Option("--infer", help="Infer the schema from the first lines and register it, if there is none.")
]
SampleOption = Annotated[int, typer.Option("--sample", metavar="N", help="With --infer: lines to read.", min=1)]
DimensionsOption = Annotated[
    str | None, typer.Option("--dimensions", metavar="A,B", help="With --infer: properties that identify a source.")
]
TimeOption = Annotated[str | None, typer.Option("--time", metavar="NAME", help="With --infer: the event time.")]
NameOption = Annotated[str, typer.Option("--name", help="Name of the publisher; keep it across restarts.")]
LingerOption = Annotated[
    float | None,
    typer.Option("--linger", help="Seconds to collect frames for one message; default: the plan's, or 0.005.", min=0),
]
PlanOption = Annotated[
    Path | None, typer.Option("--plan", metavar="FILE", help="Take schema, settings and linger from this plan.")
]
RetainOption = Annotated[bool, typer.Option("--retain", help="Store events even while there is no subscriber.")]
RateOption = Annotated[float | None, typer.Option("--rate", help="Events per second; default: no limit.", min=0)]


@with_credentials
def pub(
    topic: TopicArgument,
    file: FileArgument = "-",
    to: UrlOption = DEFAULT_URL,
    schema: SchemaFileOption = None,
    infer: InferOption = False,
    sample: SampleOption = 100,
    dimensions: DimensionsOption = None,
    time: TimeOption = None,
    name: NameOption = "",
    plan: PlanOption = None,
    linger: LingerOption = None,
    tolerance: TolerancesOption = None,
    default_tolerance: DefaultToleranceOption = 0,
    retain: RetainOption = False,
    rate: RateOption = None,
    credentials: Credentials = NO_CREDENTIALS,
    json: JsonOption = False,
) -> None:
    """Publish events, one JSON object per line, from a file or standard input.

    The schema is the registered one, or is given by --schema or --infer.
    Subscribers request tolerances; --tolerance applies only without a
    registry. A bad line is reported with its number and skipped; the exit
    code is then 1. Ctrl-C stores the events read so far and exits with 130.

    \b
    thinwire samples building -n 1000 | thinwire pub plant --infer --retain
    thinwire pub building.rooms events.jsonl --schema rooms.ttl --name rooms-1
    thinwire pub building.rooms events.jsonl --plan plan.toml
    """
    if infer and schema is not None:
        raise ConfigError("give --schema or --infer, not both", schema=str(schema))
    if plan is not None and (infer or schema is not None):
        raise ConfigError("the plan contains the schema: omit --schema and --infer, or omit --plan", plan=str(plan))
    options = PublishOptions(
        topic=topic,
        schema=read_schema(schema),
        plan=load_plan(plan).topic(topic) if plan is not None else None,
        infer=sample if infer else 0,
        dimensions=read_names(dimensions),
        time=time,
        retain=retain,
        name=name,
        linger=linger,
        tolerance=read_tolerances(tolerance),
        default_tolerance=default_tolerance,
        rate=rate,
    )
    output = Output(json)
    with _open_descriptor(file) as descriptor:
        events = EventInput(descriptor, on_rejected=_print_rejected)
        interrupted, summary = run(_publish(options, events, BrokerAccess(to, credentials)))
    _show(output, summary)
    if interrupted:
        raise typer.Exit(INTERRUPTED)
    if summary.rejected:
        raise typer.Exit(1)


@contextmanager
def _open_descriptor(file: str) -> Iterator[int]:
    """Open the input before connecting, so that a missing file is reported first."""
    if file == "-":
        yield sys.stdin.fileno()
        return
    descriptor = os.open(file, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


async def _publish(options: PublishOptions, events: EventInput, access: BrokerAccess) -> tuple[bool, PublishSummary]:
    """Publish all events. Return whether it was interrupted, and the summary."""
    async with access.bus(options.name) as bus:
        schema = await resolve_input_schema(bus, options, events, print_status)
        publisher = bus.publisher(
            options.topic,
            name=options.name,
            schema=schema,
            tolerance=options.tolerance,
            default_tolerance=options.default_tolerance,
            **options.batching,
        )
        async with publisher as out:
            line = status_line(lambda: f"{events.taken:,} events, {events.rejected:,} rejected", "waiting for events")
            with Interruptible() as block, line:
                await _publish_events(events, out, options.rate)
            await out.flush()
            summary = PublishSummary.of(events, out, options.topic)
    return block.interrupted, summary


async def _publish_events(events: EventInput, out: Publisher, rate: float | None) -> None:
    loop = asyncio.get_running_loop()
    start = loop.time()
    async for number, event, size in events:
        if rate:
            await asyncio.sleep(start + events.taken / rate - loop.time())
        await events.offer(out, number, event, size)


def _show(output: Output, summary: PublishSummary) -> None:
    facts = summary.facts()
    output.facts(f"published to {summary.topic}", facts)
    if summary.unheard:
        output.note("The topic has no subscriber, so no event was stored; --retain stores events anyway.")
    output.document({"topic": summary.topic, **facts, "unheard": summary.unheard})


def _print_rejected(number: int, reason: str) -> None:
    print(f"line {number}: {reason}", file=sys.stderr)
