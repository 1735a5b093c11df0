"""`thinwire sub TOPIC`: print the events of a topic as JSON lines."""

from __future__ import annotations

import asyncio
import json as json_text
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from enum import StrEnum
from typing import Annotated, Any

import typer

from thinwire.cli.audit_report import AuditReport
from thinwire.cli.connection_options import (
    DEFAULT_URL,
    NO_CREDENTIALS,
    BrokerAccess,
    Credentials,
    DefaultToleranceOption,
    SchemaFileOption,
    TolerancesOption,
    UrlOption,
    fetch_schema,
    read_names,
    read_pairs,
    read_schema,
    read_sources,
    read_start,
    read_tolerances,
    with_credentials,
)
from thinwire.cli.main import INTERRUPTED
from thinwire.cli.notice_text import print_notice
from thinwire.cli.terminal import Interruptible, run
from thinwire.client.notices import Notice
from thinwire.client.subscription import Subscription
from thinwire.codec import Audit
from thinwire.errors import ConfigError
from thinwire.schema import Event, Schema

BOUND_EXCEEDED = 1
"""exit code of --audit if a value had an error above its bound"""


class Emit(StrEnum):
    """Which events are printed."""

    ALL = "all"
    CHANGES = "changes"


class PrintCadence(StrEnum):
    """When events are printed."""

    EVENT = "event"
    TICK = "tick"


TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="For example building.rooms.")]
PropertiesOption = Annotated[
    str | None, typer.Option("--properties", metavar="A,B", help="Only these, besides dimensions and time.")
]
SourcesOption = Annotated[
    list[str] | None, typer.Option("--sources", metavar="NAME=A,B", help="Only sources with these dimension values.")
]
WhereOption = Annotated[
    str | None,
    typer.Option("--where", metavar="PREDICATE", help="Only events that match: \"price > 10 and region = 'EU'\"."),
]
EmitOption = Annotated[Emit, typer.Option("--emit", help="All events, or those in which a value left its tolerance.")]
CadenceOption = Annotated[
    PrintCadence, typer.Option("--cadence", help="On arrival, or every second with predictions for quiet sources.")
]
DurableOption = Annotated[
    str | None, typer.Option("--durable", metavar="NAME", help="Resume under this name after the last printed event.")
]
StartOption = Annotated[
    str, typer.Option("--start", metavar="POSITION", help="latest, earliest, an offset of the log, or an ISO time.")
]
ExactOption = Annotated[
    str | None, typer.Option("--exact", metavar="A,B", help="Properties with tolerance 0; 'all' for all.")
]
CountOption = Annotated[int | None, typer.Option("--count", "-n", help="Exit after this many events.", min=1)]
SecondsOption = Annotated[float | None, typer.Option("--seconds", help="Exit after this many seconds.", min=0)]
BoundsOption = Annotated[
    bool, typer.Option("--bounds", help="Add _bound, _virtual, _source, _ordinal and _publisher to every event.")
]
AuditOption = Annotated[bool, typer.Option("--audit", help="At the end, compare bounds with measured errors.")]
AuditJsonOption = Annotated[
    bool, typer.Option("--json", help="With --audit: print the result as one JSON document, and no events.")
]


@with_credentials
def sub(
    topic: TopicArgument,
    to: UrlOption = DEFAULT_URL,
    tolerance: TolerancesOption = None,
    default_tolerance: DefaultToleranceOption = 0,
    properties: PropertiesOption = None,
    sources: SourcesOption = None,
    where: WhereOption = None,
    emit: EmitOption = Emit.ALL,
    cadence: CadenceOption = PrintCadence.EVENT,
    durable: DurableOption = None,
    start: StartOption = "latest",
    exact: ExactOption = None,
    count: CountOption = None,
    seconds: SecondsOption = None,
    schema: SchemaFileOption = None,
    bounds: BoundsOption = False,
    audit: AuditOption = False,
    json: AuditJsonOption = False,
    credentials: Credentials = NO_CREDENTIALS,
) -> None:
    """Print the events of a topic as they arrive, one JSON object per line.

    Missed events are reported on standard error. With --durable an event is
    acknowledged once it is printed. Exits with 0 after --count or --seconds,
    with 130 after Ctrl-C, and with --audit with 1 if a value had an error
    above its bound.

    \b
    thinwire sub building.rooms --tolerance temperature=0.5 --bounds
    thinwire sub building.rooms --where "temperature > 30 and room in ('11.1', '11.2')"
    thinwire sub building.rooms --durable archive --start earliest > archive.jsonl
    """
    request: dict[str, Any] = {
        "tolerance": read_tolerances(tolerance),
        "default_tolerance": default_tolerance,
        "properties": read_names(properties),
        "where": where,
        "emit": emit.value,
        "cadence": cadence.value,
        "durable": durable,
        "start": read_start(start),
        "exact": exact == "all" or read_names(exact) or False,
        "schema": read_schema(schema),
    }
    if json and not audit:
        raise ConfigError("--json requires --audit: events are printed as JSON already")
    access = BrokerAccess(to, credentials)
    auditor = _Auditor(json) if audit else None
    printer = _Printer(with_bounds if bounds else dict, count, quiet=json)
    interrupted = run(_subscribe(topic, request, read_pairs(sources, "--sources"), access, printer, seconds, auditor))
    if auditor is not None and auditor.report.broken:
        raise typer.Exit(BOUND_EXCEEDED)
    if interrupted:
        raise typer.Exit(INTERRUPTED)


async def _subscribe(
    topic: str,
    request: dict[str, Any],
    sources: dict[str, str],
    access: BrokerAccess,
    printer: _Printer,
    seconds: float | None,
    auditor: _Auditor | None,
) -> bool:
    """Print events until the count or the time is reached. Return whether it was interrupted."""
    async with access.bus() as bus:
        schema = request["schema"] or await fetch_schema(bus, topic)
        request["sources"] = read_sources(schema, sources)
        on_notice = auditor.on_notice if auditor is not None else print_notice
        async with bus.subscribe(topic, **request, on_notice=on_notice) as events:
            with Interruptible() as block:
                try:
                    async with asyncio.timeout(seconds):
                        await printer.print_all(events)
                except TimeoutError:
                    pass
            if auditor is not None:
                auditor.show(events, schema)
    return block.interrupted


class _Auditor:
    """Prints notices, collects audits, and prints their report at the end."""

    def __init__(self, json: bool) -> None:
        self.report = AuditReport()
        self._json = json

    def on_notice(self, notice: Notice) -> None:
        print_notice(notice)
        if isinstance(notice, Audit):
            self.report.add(notice)

    def show(self, events: Subscription, schema: Schema) -> None:
        self.report.show(events.topic, events.feed, events.request.tolerances(schema), json=self._json)


class _Printer:
    """Writes events to standard output. A batch is flushed before the next is requested, which acknowledges it.

    quiet: count events without writing them
    """

    def __init__(self, shape: Callable[[Event], dict[str, Any]], count: int | None, *, quiet: bool = False) -> None:
        self.shape = shape
        self.count = count
        self.quiet = quiet

    async def print_all(self, events: Subscription) -> None:
        printed = 0
        async with aclosing(_single_event_batches(events) if self.count else events.batches()) as batches:
            async for batch in batches:
                if not self.quiet:
                    sys.stdout.write("".join(map(self._line, batch)))
                    sys.stdout.flush()
                printed += len(batch)
                if printed == self.count:
                    return

    def _line(self, event: Event) -> str:
        return json_text.dumps(self.shape(event), ensure_ascii=False, default=str) + "\n"


async def _single_event_batches(events: Subscription) -> AsyncGenerator[list[Event], None]:
    """Yield one event at a time, so that events after the last printed one are not acknowledged."""
    async for event in events:
        yield [event]


def with_bounds(event: Event) -> dict[str, Any]:
    """Return an event with its metadata.

    >>> with_bounds(Event({"t": 20.5}, bound={"t": 0.5}, source=("T1",), ordinal=3, publisher="p1", virtual=True))
    {'t': 20.5, '_bound': {'t': 0.5}, '_virtual': True, '_source': ['T1'], '_ordinal': 3, '_publisher': 'p1'}
    """
    metadata = {
        "_bound": dict(event.bound),
        "_virtual": event.virtual,
        "_source": list(event.source),
        "_ordinal": event.ordinal,
        "_publisher": event.publisher,
    }
    return {**event, **metadata, **({"_provisional": True} if event.provisional else {})}
