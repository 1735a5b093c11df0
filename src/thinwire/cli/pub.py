"""`thinwire pub TOPIC [FILE]`: publish events from JSON lines."""

from __future__ import annotations

import asyncio
import sys
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from thinwire.cli.connection_options import (
    BrokerAccess,
    SchemaFileOption,
    ToleranceOptions,
    TopicArgument,
    fetch_schema,
    read_names,
    read_schema,
)
from thinwire.cli.main import INTERRUPTED
from thinwire.cli.option_groups import option, with_options
from thinwire.cli.output import Output, print_status
from thinwire.cli.pub_input import EventInput
from thinwire.cli.terminal import interruptible, run, status_line
from thinwire.client.bus import Bus
from thinwire.client.publisher import Publisher
from thinwire.errors import ConfigError, SchemaError
from thinwire.schema import Schema, infer
from thinwire.topics.registry_client import open_registry, register_schema, topic_document
from thinwire.topics.topic_plan import TopicPlan, load_plan
from thinwire.topics.topic_settings import Settings

FileArgument = Annotated[str, typer.Argument(metavar="FILE", help="Events, one JSON object per line; - for stdin.")]


@dataclass(frozen=True)
class PublishOptions(ToleranceOptions):
    schema: SchemaFileOption = None
    infer: bool = option(False, "Infer the schema from the first lines and register it, if there is none.")
    sample: int = option(100, "With --infer: lines to read.", metavar="N", min=1)
    dimensions: str | None = option(None, "With --infer: properties that identify a source.", metavar="A,B")
    time: str | None = option(None, "With --infer: the event time.", metavar="NAME")
    name: str = option("", "Name of the publisher; use the same one after a restart.")
    plan: Path | None = option(None, "Take schema, settings and linger from this plan.", metavar="FILE")
    linger: float | None = option(
        None, "Seconds to collect frames for one message; default: the plan's, or 0.005.", min=0
    )
    retain: bool = option(False, "Store events even while there is no subscriber.")
    rate: float | None = option(None, "Events per second; default: no limit.", min=0)

    def check(self) -> None:
        """Raise `ConfigError` for an invalid tolerance, and if more than one option gives the schema."""
        self.tolerances()
        if self.infer and self.schema is not None:
            raise ConfigError("give --schema or --infer, not both", schema=str(self.schema))
        if self.plan is not None and (self.infer or self.schema is not None):
            detail = "the plan contains the schema: omit --schema and --infer, or omit --plan"
            raise ConfigError(detail, plan=str(self.plan))


@with_options
def pub(
    topic: TopicArgument,
    file: FileArgument = "-",
    *,
    options: PublishOptions,
    broker: BrokerAccess,
    output: Output,
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
    options.check()
    schema = read_schema(options.schema)
    plan = None if options.plan is None else load_plan(options.plan).topic(topic)
    # Opened before connecting, so that a missing file is reported first.
    with nullcontext(sys.stdin) if file == "-" else open(file, "rb") as stream:
        events = EventInput(stream.fileno(), on_rejected=_print_rejected)
        interrupted, summary = run(_publish(topic, options, schema, plan, events, broker))
    _show(output, topic, summary)
    if interrupted:
        raise typer.Exit(INTERRUPTED)
    if events.rejected:
        raise typer.Exit(1)


async def _publish(
    topic: str,
    options: PublishOptions,
    schema: Schema | None,
    plan: TopicPlan | None,
    events: EventInput,
    broker: BrokerAccess,
) -> tuple[bool, dict[str, Any]]:
    """Publish all events. Return whether it was interrupted, and the summary."""
    async with broker.bus(options.name) as bus:
        if plan is not None:
            settings = plan.publishing
            await _register_plan(bus, plan, options)
        else:
            settings = {"schema": await _resolve_schema(bus, topic, options, schema, events)}
        if options.linger is not None:
            settings["linger"] = options.linger
        async with bus.publisher(topic, name=options.name, **options.tolerances(), **settings) as out:
            line = status_line(
                lambda: f"{events.accepted:,} events, {events.rejected:,} rejected", "waiting for events"
            )
            with interruptible() as interrupted, line:
                await _publish_events(events, out, options.rate)
            await out.flush()
            return interrupted.is_set(), _summarize(events, out)


async def _publish_events(events: EventInput, out: Publisher, rate: float | None) -> None:
    loop = asyncio.get_running_loop()
    start = loop.time()
    async for item in events:
        if rate:
            await asyncio.sleep(start + events.accepted / rate - loop.time())
        await events.publish(out, item)


async def _register_plan(bus: Bus, plan: TopicPlan, options: PublishOptions) -> None:
    if options.has_tolerances:
        print_status("--tolerance is ignored: the plan contains the tolerances")
    settings = replace(plan.settings, retain=plan.settings.retain or options.retain)
    await register_schema(await open_registry(bus.broker), plan.schema, settings)


async def _resolve_schema(
    bus: Bus, topic: str, options: PublishOptions, schema: Schema | None, events: EventInput
) -> Schema:
    """Return the given, inferred or registered schema; register it if it is inferred or to be retained."""
    registry = await open_registry(bus.broker)
    registered = await topic_document(registry, topic)
    if schema is not None and schema.name != topic:
        raise ConfigError("the schema must have the name of the topic", topic=topic, schema=schema.name)
    if options.infer and registered is not None:
        print_status(f"{topic} is registered: its schema is used, nothing is inferred")
    elif options.infer:
        schema = await _infer_schema(topic, options, events)
        await bus.register(schema, retain=options.retain)
    schema = schema or await fetch_schema(bus, topic)
    if options.retain:
        settings = registered.settings if registered is not None else Settings()
        await register_schema(registry, schema, replace(settings, retain=True))
    if options.has_tolerances and await bus.served():
        print_status("--tolerance is ignored: a registry is running, and subscribers request tolerances")
    return schema


async def _infer_schema(topic: str, options: PublishOptions, events: EventInput) -> Schema:
    sample = await events.sample(options.sample)
    if not sample:
        raise SchemaError("there is no event to infer a schema from", topic=topic)
    return infer(sample, topic, dimensions=read_names(options.dimensions), time=options.time)


def _summarize(events: EventInput, out: Publisher) -> dict[str, Any]:
    """Return the counters of a run. `unheard`: the topic has no subscriber and no retention, so nothing was sent."""
    frame_bytes, raw_bytes = out.counts.frame_bytes, events.raw_bytes
    return {
        "publisher": out.name,
        "events": events.accepted,
        "rejected": events.rejected,
        "messages": out.messages,
        "frames": out.counts.frames,
        "raw_bytes": raw_bytes,
        "frame_bytes": frame_bytes,
        "saved": 1 - frame_bytes / raw_bytes if raw_bytes else None,
        "unheard": not out.wanted,
    }


def _show(output: Output, topic: str, summary: dict[str, Any]) -> None:
    output.facts(f"published to {topic}", {name: value for name, value in summary.items() if name != "unheard"})
    if summary["unheard"]:
        output.note("The topic has no subscriber, so no event was stored; --retain stores events anyway.")
    output.document({"topic": topic, **summary})


def _print_rejected(number: int, reason: str) -> None:
    print(f"line {number}: {reason}", file=sys.stderr)
