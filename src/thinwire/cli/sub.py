"""`thinwire sub TOPIC`: print the events of a topic as JSON lines."""

from __future__ import annotations

import json as json_text
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Literal

import typer

from thinwire.cli.audit_report import AuditReport
from thinwire.cli.connection_options import (
    BrokerAccess,
    SchemaFileOption,
    SecondsOption,
    ToleranceOptions,
    TopicArgument,
    fetch_schema,
    read_names,
    read_pairs,
    read_schema,
    read_sources,
    read_start,
)
from thinwire.cli.main import INTERRUPTED
from thinwire.cli.notice_text import print_notice
from thinwire.cli.option_groups import option, with_options
from thinwire.cli.terminal import run, run_for
from thinwire.client.notices import Notice
from thinwire.client.subscription import Subscription
from thinwire.codec import Audit
from thinwire.errors import ConfigError
from thinwire.schema import Event

BOUND_EXCEEDED = 1
"""exit code of --audit if a value had an error above its bound"""


@dataclass(frozen=True)
class SubscribeOptions(ToleranceOptions):
    properties: str | None = option(None, "Properties to deliver besides dimensions and time.", metavar="A,B")
    sources: list[str] | None = option(None, "Only sources with these dimension values.", metavar="NAME=A,B")
    where: str | None = option(None, "Only events that match: \"price > 10 and region = 'EU'\".", metavar="PREDICATE")
    emit: Literal["all", "changes"] = option(
        "all", "All events, or only those in which a value changed by more than its tolerance."
    )
    cadence: Literal["event", "tick"] = option(
        "event", "event: print on arrival; tick: also print predicted values every second."
    )
    durable: str | None = option(None, "Durable subscription: resume after the last printed event.", metavar="NAME")
    start: str = option("latest", "latest, earliest, an offset of the log, or an ISO time.", metavar="POSITION")
    exact: str | None = option(None, "Properties with tolerance 0; 'all' for all properties.", metavar="A,B")
    schema: SchemaFileOption = None

    def read(self) -> dict[str, Any]:
        """Return the keyword arguments of `Bus.subscribe`; `sources` has the dimension values as text."""
        return {
            **vars(self),
            **self.tolerances(),
            "properties": read_names(self.properties),
            "sources": read_pairs(self.sources, "--sources"),
            "start": read_start(self.start),
            "exact": self.exact == "all" or read_names(self.exact) or False,
            "schema": read_schema(self.schema),
        }


@dataclass(frozen=True)
class PrintOptions:
    count: int | None = option(None, "Exit after this many events.", "--count", "-n", min=1)
    seconds: SecondsOption = None
    bounds: bool = option(False, "Add _bound, _virtual, _source, _ordinal and _publisher to every event.")
    audit: bool = option(False, "At the end, compare bounds with measured errors.")
    json: bool = option(False, "With --audit: print the result as one JSON document, and no events.")


@with_options
def sub(topic: TopicArgument, *, broker: BrokerAccess, options: SubscribeOptions, output: PrintOptions) -> None:
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
    if output.json and not output.audit:
        raise ConfigError("--json requires --audit: add --audit, or omit --json; events are printed as JSON anyway")
    report = AuditReport()
    interrupted = run(_subscribe(topic, options.read(), broker, output, report))
    if output.audit and report.has_violations:
        raise typer.Exit(BOUND_EXCEEDED)
    if interrupted:
        raise typer.Exit(INTERRUPTED)


async def _subscribe(
    topic: str, request: dict[str, Any], broker: BrokerAccess, output: PrintOptions, report: AuditReport
) -> bool:
    """Print events until the count or the time is reached. Return whether Ctrl-C was pressed."""

    def on_notice(notice: Notice) -> None:
        print_notice(notice)
        if isinstance(notice, Audit):
            report.add(notice)

    async with broker.bus() as bus:
        schema = request["schema"] or await fetch_schema(bus, topic)
        request["sources"] = read_sources(schema, request["sources"])
        async with bus.subscribe(topic, **request, on_notice=on_notice) as events:
            interrupted = await run_for(output.seconds, _print_events(events, output))
            if output.audit:
                report.show(topic, events.feed, events.request.tolerances(schema), json=output.json)
    return interrupted


async def _print_events(events: Subscription, output: PrintOptions) -> None:
    """Print events until the count is reached. Each batch is flushed, because reading the next one acknowledges it."""
    printed = 0
    async with aclosing(_single_event_batches(events) if output.count else events.batches()) as batches:
        async for batch in batches:
            if not output.json:
                sys.stdout.write("".join(_line(event, output.bounds) for event in batch))
                sys.stdout.flush()
            printed += len(batch)
            if printed == output.count:
                return


def _line(event: Event, bounds: bool) -> str:
    return json_text.dumps(with_bounds(event) if bounds else dict(event), ensure_ascii=False, default=str) + "\n"


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
