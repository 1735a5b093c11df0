"""`thinwire pub TOPIC [FILE]`: publish events from JSON lines."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
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
    option,
    read_names,
    read_schema,
    with_options,
)
from thinwire.cli.main import INTERRUPTED
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
    """Options of `thinwire pub`."""

    schema: SchemaFileOption = None
    infer: bool = option(False, "Infer the schema from the first lines and register it, if there is none.")
    sample: int = option(100, "With --infer: lines to read.", metavar="N", min=1)
    dimensions: str | None = option(None, "With --infer: properties that identify a source.", metavar="A,B")
    time: str | None = option(None, "With --infer: the event time.", metavar="NAME")
    name: str = option("", "Name of the publisher; keep it across restarts.")
    plan: Path | None = option(None, "Take schema, settings and linger from this plan.", metavar="FILE")
    linger: float | None = option(
        None, "Seconds to collect frames for one message; default: the plan's, or 0.005.", min=0
    )
    retain: bool = option(False, "Store events even while there is no subscriber.")
    rate: float | None = option(None, "Events per second; default: no limit.", min=0)

    def check(self) -> None:
        """Raise `ConfigError` if more than one option gives the schema."""
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
    publication = _Publication(
        topic,
        options,
        schema=read_schema(options.schema),
        plan=load_plan(options.plan).topic(topic) if options.plan is not None else None,
        tolerances=options.tolerances(),
    )
    with _open_descriptor(file) as descriptor:
        events = EventInput(descriptor, on_rejected=_print_rejected)
        interrupted, summary = run(_publish(publication, events, broker))
    _show(output, topic, summary)
    if interrupted:
        raise typer.Exit(INTERRUPTED)
    if events.rejected:
        raise typer.Exit(1)


@dataclass(frozen=True)
class _Publication:
    """The topic, and the options with the content of their files."""

    topic: str
    options: PublishOptions
    schema: Schema | None
    plan: TopicPlan | None
    tolerances: dict[str, Any]

    def publisher_settings(self) -> dict[str, Any]:
        """Return the settings of the plan and the tolerances; an explicit linger overrides the planned one."""
        planned = {} if self.plan is None else self.plan.publishing
        linger = {} if self.options.linger is None else {"linger": self.options.linger}
        return {"name": self.options.name, **self.tolerances, **planned, **linger}

    @property
    def has_tolerances(self) -> bool:
        """Whether a tolerance was given."""
        return any(self.tolerances.values())


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


async def _publish(publication: _Publication, events: EventInput, broker: BrokerAccess) -> tuple[bool, dict[str, Any]]:
    """Publish all events. Return whether it was interrupted, and the summary."""
    async with broker.bus(publication.options.name) as bus:
        schema = await _resolve_schema(bus, publication, events)
        settings = publication.publisher_settings() | {"schema": schema}
        async with bus.publisher(publication.topic, **settings) as out:
            line = status_line(
                lambda: f"{events.accepted:,} events, {events.rejected:,} rejected", "waiting for events"
            )
            with interruptible() as interrupted, line:
                await _publish_events(events, out, publication.options.rate)
            await out.flush()
            return interrupted.is_set(), _summarize(events, out)


async def _publish_events(events: EventInput, out: Publisher, rate: float | None) -> None:
    loop = asyncio.get_running_loop()
    start = loop.time()
    async for number, event, size in events:
        if rate:
            await asyncio.sleep(start + events.accepted / rate - loop.time())
        await events.offer(out, number, event, size)


async def _resolve_schema(bus: Bus, publication: _Publication, events: EventInput) -> Schema:
    """Return the schema to publish under; register it if it is planned, inferred or to be retained."""
    topic, options, plan, schema = publication.topic, publication.options, publication.plan, publication.schema
    registry = await open_registry(bus.broker)
    if plan is not None:
        if publication.has_tolerances:
            print_status("--tolerance is ignored: the plan contains the tolerances")
        settings = replace(plan.settings, retain=plan.settings.retain or options.retain)
        await register_schema(registry, plan.schema, settings)
        return plan.schema
    registered = await topic_document(registry, topic)
    if schema is not None and schema.name != topic:
        raise ConfigError("the schema must have the name of the topic", topic=topic, schema=schema.name)
    if options.infer and registered is not None:
        print_status(f"{topic} is registered: its schema is used, nothing is inferred")
    elif options.infer:
        schema = await _infer_schema(publication, events)
        await bus.register(schema, retain=options.retain)
    schema = schema or await fetch_schema(bus, topic)
    if options.retain:
        settings = registered.settings if registered is not None else Settings()
        await register_schema(registry, schema, replace(settings, retain=True))
    if publication.has_tolerances and await bus.served():
        print_status("--tolerance is ignored: a registry is running, and subscribers request tolerances")
    return schema


async def _infer_schema(publication: _Publication, events: EventInput) -> Schema:
    options = publication.options
    sample = await events.sample(options.sample)
    if not sample:
        raise SchemaError("there is no event to infer a schema from", topic=publication.topic)
    return infer(sample, publication.topic, dimensions=read_names(options.dimensions), time=options.time)


def _summarize(events: EventInput, out: Publisher) -> dict[str, Any]:
    """Return the counters of a run. With `unheard`, nothing was sent: no subscriber, and events are not retained."""
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
