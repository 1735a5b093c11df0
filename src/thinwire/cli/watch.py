"""`thinwire watch 'EXPR'`: print a line for each notification of a watch.

A notification, class `Hit`, states that the quantities of the expression have moved.
"""

from __future__ import annotations

import json as json_text
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from thinwire.cli.connection_options import BrokerAccess, SecondsOption, read_start
from thinwire.cli.main import INTERRUPTED
from thinwire.cli.notice_text import print_notice
from thinwire.cli.option_groups import option, with_options
from thinwire.cli.output import print_status
from thinwire.cli.terminal import run, run_for
from thinwire.client.watch import Watch
from thinwire.client.watch_hit import Hit
from thinwire.errors import ConfigError
from thinwire.filters.composite.feed_sequencer import LatePolicy
from thinwire.filters.composite.watch_grammar import parse_watch

ExpressionArgument = Annotated[
    str, typer.Argument(metavar="EXPR", help="Such as 'market[AAPL].price +- 0.5 and market[MSFT].price +- 1%'.")
]


@dataclass(frozen=True)
class EvaluationOptions:
    durable: str | None = option(None, "Durable watch: resume after the last printed notification.", metavar="NAME")
    max_delay: float = option(1.0, "Longest wait for events of other topics.", metavar="SECONDS", min=0)
    late_policy: LatePolicy = option(
        "apply", "Events after --max-delay: evaluate and flag them, or drop them.", "--late"
    )
    start: str = option("latest", "Start of a new watch: latest, earliest, or an ISO time.", metavar="POSITION")

    def read(self) -> dict[str, Any]:
        """Return the keyword arguments of `Bus.watch`."""
        start = read_start(self.start)
        if isinstance(start, int):
            raise ConfigError("start of a watch is latest, earliest, or an ISO time", start=self.start)
        return {**vars(self), "start": start}


@dataclass(frozen=True)
class WatchOutput:
    count: int | None = option(None, "Exit after this many notifications.", "--count", "-n", min=1)
    seconds: SecondsOption = None
    json: bool = option(False, "Print one JSON object per line.")


@with_options
def watch(
    expression: ExpressionArgument, *, broker: BrokerAccess, options: EvaluationOptions, output: WatchOutput
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
    parse_watch(expression)  # reports a syntax error before connecting
    if run(_watch(expression, options.read(), broker, output)):
        raise typer.Exit(INTERRUPTED)


async def _watch(expression: str, settings: dict[str, Any], broker: BrokerAccess, output: WatchOutput) -> bool:
    """Print notifications until the count or the time is reached. Return whether Ctrl-C was pressed."""
    async with broker.bus() as bus, bus.watch(expression, **settings, on_notice=print_notice) as hits:
        # Opening can take seconds. With `--start latest`, events published before this message are not evaluated.
        print_status(f"watching {hits.expression}")
        return await run_for(output.seconds, _print_hits(hits, output))


async def _print_hits(hits: Watch, output: WatchOutput) -> None:
    """Print notifications until the count is reached. Each is flushed, because reading the next one acknowledges it."""
    printed = 0
    async for hit in hits:
        print(json_text.dumps(hit_document(hit), ensure_ascii=False) if output.json else hit_line(hit), flush=True)
        printed += 1
        if printed == output.count:
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
