"""`thinwire watch 'EXPR'`: print a line for each notification of a watch."""

from __future__ import annotations

import asyncio
import json as json_text
from enum import StrEnum
from typing import Annotated, Any

import typer

from thinwire.cli.connection_options import (
    DEFAULT_URL,
    NO_CREDENTIALS,
    BrokerAccess,
    Credentials,
    UrlOption,
    read_start,
    with_credentials,
)
from thinwire.cli.main import INTERRUPTED
from thinwire.cli.notice_text import print_notice
from thinwire.cli.output import print_status
from thinwire.cli.terminal import Interruptible, run
from thinwire.client.watch import Watch
from thinwire.client.watch_hit import Hit
from thinwire.errors import ConfigError
from thinwire.filters.composite import parse


class LatePolicy(StrEnum):
    """Handling of events that arrive later than `--max-delay`."""

    APPLY = "apply"
    DROP = "drop"


ExpressionArgument = Annotated[
    str, typer.Argument(metavar="EXPR", help="Such as 'market[AAPL].price +- 0.5 and market[MSFT].price +- 1%'.")
]
DurableOption = Annotated[
    str | None,
    typer.Option("--durable", metavar="NAME", help="Resume under this name after the last printed notification."),
]
DelayOption = Annotated[
    float,
    typer.Option("--max-delay", metavar="SECONDS", min=0, help="Time to wait for earlier events of other topics."),
]
LateOption = Annotated[
    LatePolicy, typer.Option("--late", help="Evaluate later events and flag the notification, or drop them.")
]
StartOption = Annotated[
    str, typer.Option("--start", metavar="POSITION", help="Start of a new watch: latest, earliest, or an ISO time.")
]
CountOption = Annotated[int | None, typer.Option("--count", "-n", help="Exit after this many notifications.", min=1)]
SecondsOption = Annotated[float | None, typer.Option("--seconds", help="Exit after this many seconds.", min=0)]
JsonLinesOption = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]


@with_credentials
def watch(
    expression: ExpressionArgument,
    to: UrlOption = DEFAULT_URL,
    durable: DurableOption = None,
    max_delay: DelayOption = 1.0,
    late: LateOption = LatePolicy.APPLY,
    start: StartOption = "latest",
    count: CountOption = None,
    seconds: SecondsOption = None,
    json: JsonLinesOption = False,
    credentials: Credentials = NO_CREDENTIALS,
) -> None:
    """Print a line each time the quantities of an expression have moved.

    A quantity is topic[source].property; +- is the distance from the value
    of the last notification. Missed events are reported on standard error.
    With --durable a notification is acknowledged once it is printed. Exits
    with 0 after --count or --seconds, with 2 if the expression is invalid
    or does not match the topics, with 130 after Ctrl-C.

    \b
    thinwire watch 'market[AAA].close +- 0.50 and market[BBB].close +- 1%'
    thinwire watch 'rooms[11.1].t +- 2 or rooms[11.2].t +- 2' --durable night --json
    """
    parse(expression)  # reports a syntax error before connecting
    options = {"durable": durable, "max_delay": max_delay, "late_policy": late.value, "start": _start(start)}
    access = BrokerAccess(to, credentials)
    if run(_watch(expression, options, access, _Printer(count, json), seconds)):
        raise typer.Exit(INTERRUPTED)


async def _watch(
    expression: str, options: dict[str, Any], access: BrokerAccess, printer: _Printer, seconds: float | None
) -> bool:
    """Print notifications until the count or the time is reached. Return whether it was interrupted."""
    async with access.bus() as bus, bus.watch(expression, **options, on_notice=print_notice) as hits:
        # Opening takes seconds at the first run on a machine; events published before this line are not evaluated.
        print_status(f"watching {hits.expression}")
        with Interruptible() as block:
            try:
                async with asyncio.timeout(seconds):
                    await printer.print_all(hits)
            except TimeoutError:
                pass
    return block.interrupted


class _Printer:
    """Writes notifications to standard output. Each is flushed before the next is requested, which acknowledges it."""

    def __init__(self, count: int | None, json: bool) -> None:
        self.count = count
        self.json = json

    async def print_all(self, hits: Watch) -> None:
        printed = 0
        async for hit in hits:
            print(json_text.dumps(hit_document(hit), ensure_ascii=False) if self.json else hit_line(hit), flush=True)
            printed += 1
            if printed == self.count:
                return


def hit_document(hit: Hit) -> dict[str, Any]:
    """Return a notification as a JSON document.

    >>> hit_document(Hit({"rooms[12].t": 21.5}, number=3, time=1.5, conjuncts=(("rooms[12].t",),)))["values"]
    {'rooms[12].t': 21.5}
    """
    return {
        "number": hit.number,
        "time": _time(hit),
        "values": dict(hit),
        "conjuncts": [list(names) for names in hit.conjuncts],
        "late": hit.late,
        "standing": hit.standing,
        "position": list(hit.position),
    }


def hit_line(hit: Hit) -> str:
    """Return a notification as a line of text.

    >>> hit_line(Hit({"rooms[12].t": 21.5, "rooms[14].t": 20}, number=3, time=1.5, late=True))
    '1970-01-01T00:00:01.500Z  rooms[12].t 21.5, rooms[14].t 20  (late)'
    """
    flags = [name for name, is_set in (("late", hit.late), ("standing", hit.standing)) if is_set]
    values = ", ".join(f"{name} {value}" for name, value in hit.items())
    return f"{_time(hit)}  {values}" + (f"  ({', '.join(flags)})" if flags else "")


def _time(hit: Hit) -> str:
    return hit.instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _start(text: str) -> Any:
    start = read_start(text)
    if isinstance(start, int):
        raise ConfigError("start of a watch is latest, earliest, or an ISO time", start=text)
    return start
