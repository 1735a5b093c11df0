"""`thinwire pub TOPIC [FILE]`: events from JSON lines onto a topic."""

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
    NOBODY,
    Access,
    DefaultToleranceOption,
    Identity,
    SchemaFileOption,
    TolerancesOption,
    UrlOption,
    identified,
    names,
    read_schema,
    tolerances,
)
from thinwire.cli.main import INTERRUPTED
from thinwire.cli.output import JsonOption, Output
from thinwire.cli.pub_input import EventInput, PublishOptions, PublishSummary, resolve_input_schema
from thinwire.cli.terminal import Interruptible, run, status
from thinwire.client.publisher import Publisher
from thinwire.errors import ConfigError
from thinwire.topics.topic_plan import load_plan

TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="Such as building.rooms.")]
FileArgument = Annotated[str, typer.Argument(metavar="FILE", help="Events, one JSON object a line; - for stdin.")]
InferOption = Annotated[
    bool, typer.Option("--infer", help="Find the schema from the first lines and register it, if there is none.")
]
SampleOption = Annotated[int, typer.Option("--sample", metavar="N", help="With --infer: from so many lines.", min=1)]
DimensionsOption = Annotated[
    str | None, typer.Option("--dimensions", metavar="A,B", help="With --infer: what identifies a source.")
]
TimeOption = Annotated[str | None, typer.Option("--time", metavar="NAME", help="With --infer: the time of an event.")]
NameOption = Annotated[str, typer.Option("--name", help="The publisher's own name; one restarted keeps it.")]
LingerOption = Annotated[
    float | None,
    typer.Option("--linger", help="Seconds in which frames gather into a message; else the plan's, or 0.005.", min=0),
]
PlanOption = Annotated[
    Path | None, typer.Option("--plan", metavar="FILE", help="Schema, settings and linger as in this plan.")
]
RetainOption = Annotated[
    bool, typer.Option("--retain", help="Keep the topic's events for later, also while nobody subscribes.")
]
RateOption = Annotated[float | None, typer.Option("--rate", help="Events a second; else as fast as they come.", min=0)]


@identified
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
    who: Identity = NOBODY,
    json: JsonOption = False,
) -> None:
    """Publish events: one JSON object a line, from a file or standard input.

    The schema is the registered one, or comes with --schema or --infer.
    How far values may be off is for subscribers to ask; --tolerance counts
    only where no registry runs. A bad line is reported with its number and
    the rest goes on; then it leaves with 1. Ctrl-C stores what was read so
    far and leaves with 130.

    \b
    thinwire samples building -n 1000 | thinwire pub plant --infer --retain
    thinwire pub building.rooms events.jsonl --schema rooms.ttl --name rooms-1
    thinwire pub building.rooms events.jsonl --plan plan.toml
    """
    if infer and schema is not None:
        raise ConfigError("give --schema or --infer, not both", schema=str(schema))
    if plan is not None and (infer or schema is not None):
        raise ConfigError("the plan has the schema: leave out --schema and --infer, or --plan", plan=str(plan))
    feed = PublishOptions(
        topic=topic,
        schema=read_schema(schema),
        plan=load_plan(plan).topic(topic) if plan is not None else None,
        infer=sample if infer else 0,
        dimensions=names(dimensions),
        time=time,
        retain=retain,
        name=name,
        linger=linger,
        tolerance=tolerances(tolerance),
        default_tolerance=default_tolerance,
        rate=rate,
    )
    output = Output(json)
    with _opened(file) as descriptor:
        intake = EventInput(descriptor, complain=_complain)
        interrupted, summary = run(_publish(feed, intake, Access(to, who)))
    _show(output, summary)
    if interrupted:
        raise typer.Exit(INTERRUPTED)
    if summary.rejected:
        raise typer.Exit(1)


@contextmanager
def _opened(file: str) -> Iterator[int]:
    """The file's descriptor; opened before anything else, for it may not be there."""
    if file == "-":
        yield sys.stdin.fileno()
        return
    descriptor = os.open(file, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


async def _publish(feed: PublishOptions, intake: EventInput, access: Access) -> tuple[bool, PublishSummary]:
    """Publish it all. Was it interrupted, and what came of it?"""
    async with access.bus(feed.name) as bus:
        settled = await resolve_input_schema(bus, feed, intake, _print_line)
        publisher = bus.publisher(
            feed.topic,
            name=feed.name,
            schema=settled,
            tolerance=feed.tolerance,
            default_tolerance=feed.default_tolerance,
            **feed.batching,
        )
        async with publisher as out:
            shown = status(lambda: f"{intake.taken:,} events, {intake.rejected:,} rejected", "waiting for events")
            with Interruptible() as ending, shown:
                await _pour(intake, out, feed.rate)
            await out.flush()
            summary = PublishSummary.of(intake, out, feed.topic)
    return ending.interrupted, summary


async def _pour(intake: EventInput, out: Publisher, rate: float | None) -> None:
    loop = asyncio.get_running_loop()
    begin = loop.time()
    async for number, event, size in intake:
        if rate:
            await asyncio.sleep(begin + intake.taken / rate - loop.time())
        await intake.offer(out, number, event, size)


def _show(output: Output, summary: PublishSummary) -> None:
    facts = summary.facts()
    output.table(f"published to {summary.topic}", ("what", "value"), facts.items())
    if summary.unheard:
        output.note("Nobody subscribes to this topic, so nothing was stored: --retain keeps events for later.")
    output.document({"topic": summary.topic, **facts, "unheard": summary.unheard})


def _complain(number: int, reason: str) -> None:
    print(f"line {number}: {reason}", file=sys.stderr)


def _print_line(sentence: str) -> None:
    print(f"thinwire: {sentence}", file=sys.stderr)
