"""`thinwire watch 'EXPR'`: a line for each time that what the expression waits for has come about."""

from __future__ import annotations

import asyncio
import json as json_text
import sys
from enum import StrEnum
from typing import Annotated, Any

import typer

from thinwire.cli.connection_options import DEFAULT_URL, NOBODY, Access, Identity, UrlOption, identified, read_start
from thinwire.cli.main import INTERRUPTED
from thinwire.cli.sub_report import describe_notice
from thinwire.cli.terminal import Interruptible, run
from thinwire.client.notices import Notice
from thinwire.client.watch import Watch
from thinwire.client.watch_hit import Hit
from thinwire.errors import ConfigError
from thinwire.filters.composite import parse


class Late(StrEnum):
    """What happens with events that come too late."""

    APPLY = "apply"
    DROP = "drop"


ExpressionArgument = Annotated[
    str, typer.Argument(metavar="EXPR", help="Such as 'market[AAPL].price +- 0.5 and market[MSFT].price +- 1%'.")
]
DurableOption = Annotated[
    str | None, typer.Option("--durable", metavar="NAME", help="Go on under this name where it stopped the last time.")
]
DelayOption = Annotated[
    float, typer.Option("--max-delay", metavar="SECONDS", min=0, help="How long events wait for earlier ones.")
]
LateOption = Annotated[Late, typer.Option("--late", help="Tell what comes later than that, flagged, or drop it.")]
StartOption = Annotated[
    str, typer.Option("--start", metavar="PLACE", help="Where a new watch begins: latest, earliest, or an ISO time.")
]
CountOption = Annotated[int | None, typer.Option("--count", "-n", help="Leave after so many notifications.", min=1)]
SecondsOption = Annotated[float | None, typer.Option("--seconds", help="Leave after so many seconds.", min=0)]
JsonLinesOption = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]


@identified
def watch(
    expression: ExpressionArgument,
    to: UrlOption = DEFAULT_URL,
    durable: DurableOption = None,
    max_delay: DelayOption = 1.0,
    late: LateOption = Late.APPLY,
    start: StartOption = "latest",
    count: CountOption = None,
    seconds: SecondsOption = None,
    json: JsonLinesOption = False,
    who: Identity = NOBODY,
) -> None:
    """Print a line each time that quantities have moved as the expression says.

    A quantity is topic[source].property; +- says how far from the value
    told last it must be. What was missed, and why, is said on standard
    error. With --durable a line counts as worked off once it is printed.
    Leaves with 0 after --count or --seconds, with 2 where the expression
    cannot be read or does not fit the topics, with 130 after Ctrl-C.

    \b
    thinwire watch 'market[AAA].close +- 0.50 and market[BBB].close +- 1%'
    thinwire watch 'rooms[11.1].t +- 2 or rooms[11.2].t +- 2' --durable night --json
    """
    parse(expression)  # what cannot be read is said before anything is connected
    asking = {"durable": durable, "max_delay": max_delay, "late_policy": late.value, "start": _start(start)}
    access = Access(to, who)
    if run(_watch(expression, asking, access, _Printer(count, json), seconds)):
        raise typer.Exit(INTERRUPTED)


async def _watch(
    expression: str, asking: dict[str, Any], access: Access, printer: _Printer, seconds: float | None
) -> bool:
    """Print until enough; was it interrupted?"""
    async with access.bus() as bus, bus.watch(expression, **asking, on_notice=_print_notice) as hits:
        # the first time on a machine that takes a while, and what was published meanwhile is not told
        _print_line(f"watching {hits.expression}")
        with Interruptible() as ending:
            try:
                async with asyncio.timeout(seconds):
                    await printer.print_all(hits)
            except TimeoutError:
                pass
    return ending.interrupted


class _Printer:
    """Writes notifications to standard output: one is out before the next is asked for, which acknowledges it."""

    def __init__(self, count: int | None, json: bool) -> None:
        self.count = count
        self.json = json

    async def print_all(self, hits: Watch) -> None:
        printed = 0
        async for hit in hits:
            print(json_text.dumps(as_document(hit), ensure_ascii=False) if self.json else in_line(hit), flush=True)
            printed += 1
            if printed == self.count:
                return


def as_document(hit: Hit) -> dict[str, Any]:
    """A notification as plain values.

    >>> as_document(Hit({"rooms[12].t": 21.5}, number=3, time=1.5, conjuncts=(("rooms[12].t",),)))["values"]
    {'rooms[12].t': 21.5}
    """
    return {
        "number": hit.number,
        "time": _time(hit),
        "values": dict(hit),
        "conjuncts": [list(names) for names in hit.conjuncts],
        "late": hit.late,
        "standing": hit.standing,
        "position": None if hit.position is None else list(hit.position),
    }


def in_line(hit: Hit) -> str:
    """A notification for people.

    >>> in_line(Hit({"rooms[12].t": 21.5, "rooms[14].t": 20}, number=3, time=1.5, late=True))
    '1970-01-01T00:00:01.500Z  rooms[12].t 21.5, rooms[14].t 20  (late)'
    """
    flags = [name for name, given in (("late", hit.late), ("standing", hit.standing)) if given]
    values = ", ".join(f"{name} {value}" for name, value in hit.items())
    return f"{_time(hit)}  {values}" + (f"  ({', '.join(flags)})" if flags else "")


def _time(hit: Hit) -> str:
    return hit.instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _start(text: str) -> Any:
    start = read_start(text)
    if isinstance(start, int):
        raise ConfigError("a watch begins at latest, earliest, or an ISO time", start=text)
    return start


def _print_notice(notice: Notice) -> None:
    words = describe_notice(notice)
    if words:
        _print_line(words)


def _print_line(words: str) -> None:
    print(f"thinwire: {words}", file=sys.stderr, flush=True)
