"""`thinwire sub TOPIC`: the events of a topic as JSON lines, each within the tolerance asked for."""

from __future__ import annotations

import asyncio
import json as json_text
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from enum import StrEnum
from typing import Annotated, Any

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
    chosen_sources,
    identified,
    names,
    pairs,
    read_schema,
    read_start,
    schema_of,
    tolerances,
)
from thinwire.cli.main import INTERRUPTED
from thinwire.cli.sub_report import Promises, describe_notice
from thinwire.cli.terminal import Interruptible, run
from thinwire.client.notices import Notice
from thinwire.client.subscription import Subscription
from thinwire.codec import Audit
from thinwire.errors import ConfigError
from thinwire.schema import Event, Schema


class Emit(StrEnum):
    """Which events are printed."""

    ALL = "all"
    CHANGES = "changes"


class PrintMode(StrEnum):
    """When events are printed."""

    EVENT = "event"
    TICK = "tick"


TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="Such as building.rooms.")]
PropertiesOption = Annotated[
    str | None, typer.Option("--properties", metavar="A,B", help="Only these; dimensions and time always come.")
]
SourcesOption = Annotated[
    list[str] | None, typer.Option("--sources", metavar="NAME=A,B", help="Only sources with these in a dimension.")
]
WhereOption = Annotated[
    str | None,
    typer.Option("--where", metavar="PREDICATE", help="Only events that match: \"price > 10 and region = 'EU'\"."),
]
EmitOption = Annotated[Emit, typer.Option("--emit", help="All events, or those in which a value left its tolerance.")]
CadenceOption = Annotated[
    PrintMode, typer.Option("--cadence", help="As they come, or every second also what is expected of silent sources.")
]
DurableOption = Annotated[
    str | None, typer.Option("--durable", metavar="NAME", help="Go on under this name where it stopped the last time.")
]
StartOption = Annotated[
    str, typer.Option("--start", metavar="PLACE", help="latest, earliest, an offset of the log, or an ISO time.")
]
ExactOption = Annotated[
    str | None, typer.Option("--exact", metavar="A,B", help="Properties that must not be off at all; 'all' for all.")
]
CountOption = Annotated[int | None, typer.Option("--count", "-n", help="Leave after so many events.", min=1)]
SecondsOption = Annotated[float | None, typer.Option("--seconds", help="Leave after so many seconds.", min=0)]
BoundsOption = Annotated[
    bool, typer.Option("--bounds", help="Add _bound, _virtual, _source, _ordinal and _publisher to every event.")
]
AuditOption = Annotated[
    bool, typer.Option("--audit", help="At the end, what was promised and how far off values were found.")
]
AuditJsonOption = Annotated[
    bool, typer.Option("--json", help="With --audit: print that as one JSON document, and no events.")
]
BROKEN_PROMISE = 1


@identified
def sub(
    topic: TopicArgument,
    to: UrlOption = DEFAULT_URL,
    tolerance: TolerancesOption = None,
    default_tolerance: DefaultToleranceOption = 0,
    properties: PropertiesOption = None,
    sources: SourcesOption = None,
    where: WhereOption = None,
    emit: EmitOption = Emit.ALL,
    cadence: CadenceOption = PrintMode.EVENT,
    durable: DurableOption = None,
    start: StartOption = "latest",
    exact: ExactOption = None,
    count: CountOption = None,
    seconds: SecondsOption = None,
    schema: SchemaFileOption = None,
    bounds: BoundsOption = False,
    audit: AuditOption = False,
    json: AuditJsonOption = False,
    who: Identity = NOBODY,
) -> None:
    """Print the events of a topic, one JSON object a line, as they come.

    What was missed, and why, is said on standard error. With --durable an
    event counts as worked off once it is printed. Leaves with 0 after
    --count or --seconds, with 130 after Ctrl-C, and with --audit with 1
    where a value was further off than promised.

    \b
    thinwire sub building.rooms --tolerance temperature=0.5 --bounds
    thinwire sub building.rooms --where "temperature > 30 and room in ('11.1', '11.2')"
    thinwire sub building.rooms --durable archive --start earliest > archive.jsonl
    """
    asking: dict[str, Any] = {
        "tolerance": tolerances(tolerance),
        "default_tolerance": default_tolerance,
        "properties": names(properties),
        "where": where,
        "emit": emit.value,
        "cadence": cadence.value,
        "durable": durable,
        "start": read_start(start),
        "exact": exact == "all" or names(exact) or False,
        "schema": read_schema(schema),
    }
    if json and not audit:
        raise ConfigError("--json goes with --audit: events are printed as JSON already")
    shape = with_bounds if bounds else dict
    access = Access(to, who)
    report = _Report(json) if audit else None
    printer = _Printer(shape, count, quiet=json)
    interrupted = run(_subscribe(topic, asking, pairs(sources, "--sources"), access, printer, seconds, report))
    if report is not None and report.promises.broken:
        raise typer.Exit(BROKEN_PROMISE)
    if interrupted:
        raise typer.Exit(INTERRUPTED)


async def _subscribe(
    topic: str,
    asking: dict[str, Any],
    sources: dict[str, str],
    access: Access,
    printer: _Printer,
    seconds: float | None,
    report: _Report | None,
) -> bool:
    """Print until enough; was it interrupted?"""
    async with access.bus() as bus:
        known = asking["schema"] or await schema_of(bus, topic)
        asking["sources"] = chosen_sources(known, sources)
        on_notice = report.note if report is not None else _print_notice
        async with bus.subscribe(topic, **asking, on_notice=on_notice) as events:
            with Interruptible() as ending:
                try:
                    async with asyncio.timeout(seconds):
                        await printer.print_all(events)
                except TimeoutError:
                    pass
            if report is not None:
                report.show(events, known)
    return ending.interrupted


class _Report:
    """What audits found, at the end of a subscription."""

    def __init__(self, json: bool) -> None:
        self.promises = Promises()
        self._json = json

    def note(self, notice: Notice) -> None:
        _print_notice(notice)
        if isinstance(notice, Audit):
            self.promises.note(notice)

    def show(self, events: Subscription, schema: Schema) -> None:
        self.promises.show(events.topic, events.feed, events.asked.tolerances(schema), json=self._json)


class _Printer:
    """Writes events to standard output: a batch is out before the next is asked for, which is what acknowledges it.

    quiet: events are counted, and not written
    """

    def __init__(self, shape: Callable[[Event], dict[str, Any]], count: int | None, *, quiet: bool = False) -> None:
        self.shape = shape
        self.count = count
        self.quiet = quiet

    async def print_all(self, events: Subscription) -> None:
        printed = 0
        async with aclosing(_one_by_one(events) if self.count else events.batches()) as batches:
            async for batch in batches:
                if not self.quiet:
                    sys.stdout.write("".join(map(self._line, batch)))
                    sys.stdout.flush()
                printed += len(batch)
                if printed == self.count:
                    return

    def _line(self, event: Event) -> str:
        return json_text.dumps(self.shape(event), ensure_ascii=False, default=str) + "\n"


async def _one_by_one(events: Subscription) -> AsyncGenerator[list[Event], None]:
    """Batches of one: those that are not printed any more shall not count as worked off."""
    async for event in events:
        yield [event]


def with_bounds(event: Event) -> dict[str, Any]:
    """An event with what is known about it.

    >>> with_bounds(Event({"t": 20.5}, bound={"t": 0.5}, source=("T1",), ordinal=3, publisher="p1", virtual=True))
    {'t': 20.5, '_bound': {'t': 0.5}, '_virtual': True, '_source': ['T1'], '_ordinal': 3, '_publisher': 'p1'}
    """
    about = {
        "_bound": dict(event.bound),
        "_virtual": event.virtual,
        "_source": list(event.source),
        "_ordinal": event.ordinal,
        "_publisher": event.publisher,
    }
    return {**event, **about, **({"_provisional": True} if event.provisional else {})}


def _print_notice(notice: Notice) -> None:
    words = describe_notice(notice)
    if words:
        print(f"thinwire: {words}", file=sys.stderr)
