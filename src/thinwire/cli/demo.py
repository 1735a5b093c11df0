"""`thinwire demo`: the whole system on this machine, and what it costs and promises, while you watch."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.live import Live

from thinwire.analysis.ledger_files import append
from thinwire.cli import demo_view
from thinwire.cli.demo_view import facts
from thinwire.cli.output import JsonOption, Output
from thinwire.demo import MAX_RATE, PLANTS, DemoView, Show, rehearse
from thinwire.demo.process_group import WorkerFailed
from thinwire.errors import MissingExtra, SparkUnavailable
from thinwire.services.translator.hold_group import warm_up_hold_group
from thinwire.spark.session import check

PLAIN_PULSE = 5.0
"""seconds between two lines, where there is no terminal"""
FAILED = 1

SecondsOption = Annotated[float, typer.Option("--seconds", help="How long to run; Ctrl-C ends it sooner.", min=1)]
RateOption = Annotated[
    int, typer.Option("--rate", help="Events a second; the plants make 3 in real time.", min=1, max=MAX_RATE)
]
TogetherOption = Annotated[
    bool, typer.Option("--all-at-once", help="All subscribers from the start, instead of one after another.")
]
SparkOption = Annotated[
    bool, typer.Option("--spark/--no-spark", help="Land the stream in a table, too, where Spark can run.")
]
LedgerOption = Annotated[Path, typer.Option("--ledger", help="Where the run is written down.")]


def demo(
    seconds: SecondsOption = 45.0,
    rate: RateOption = 200,
    all_at_once: TogetherOption = False,
    spark: SparkOption = True,
    ledger: LedgerOption = Path("runs/demo/ledger.jsonl"),
    json: JsonOption = False,
) -> None:
    """A real broker, a registry, a translator, three plants that publish, five subscribers: each a process.

    Every event that arrives is compared with the truth. Subscribers join one after another, the loosest first: the log
    becomes as fine as the strictest asks, and the translator makes coarser channels of it for the others. Meanwhile
    Spark lands the log in a table, which in the end must be what a subscriber of the log is handed.
    """
    output = Output(json)
    run = f"demo-{datetime.now():%Y%m%d-%H%M%S}"
    output.note(f"{PLANTS} plants, {rate} events a second ({rate / PLANTS:.0f} times real time) for {seconds:g} s.")
    with output.console.status("the first run on a machine compiles its kernels, up to a minute, once"):
        rehearse()
        warm_up_hold_group()  # of the translator, which must not be compiling while subscribers wait for it
    show = Show(run, rate, seconds, together=all_at_once, with_spark=spark and _spark_runs(output))
    try:
        asyncio.run(_perform(output, show))
    except WorkerFailed as failure:
        raise typer.Exit(_lament(output, failure)) from None
    append(ledger, show.rows)
    _summarise(output, show, ledger)
    output.document({"run": run, "ledger": ledger, "rate": rate, **facts(show.view)})
    if not show.view.kept:
        raise typer.Exit(FAILED)


def _spark_runs(output: Output) -> bool:
    """Can Spark run here? If not, what is missing is said in a line, and the show goes on without it."""
    try:
        check()
    except (MissingExtra, SparkUnavailable) as missing:
        output.note(f"without the table that Spark makes (--no-spark): {missing}")
        return False
    return True


async def _perform(output: Output, show: Show) -> None:
    status = output.console.status("starting a broker, a registry, a translator, three publishers and five subscribers")
    status.start()
    try:
        async with show:
            status.stop()
            with _interrupted() as stopping, _display(output, show.seconds) as tell:
                await show.play(stopping, tell)
    finally:
        status.stop()


@contextmanager
def _interrupted() -> Iterator[asyncio.Event]:
    """Set by Ctrl-C. An exception could hit between a question to a process and its answer."""
    loop, stopping = asyncio.get_running_loop(), asyncio.Event()
    signals = (signal.SIGINT, signal.SIGTERM)
    for number in signals:
        loop.add_signal_handler(number, stopping.set)
    try:
        yield stopping
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


@contextmanager
def _display(output: Output, seconds: float) -> Iterator[Callable[[DemoView], None]]:
    """Tables that move where there is a terminal, a line now and then where there is none."""
    if not output.console.is_terminal:
        yield _Lines(output)
        return
    with Live(console=output.console, auto_refresh=False, transient=True) as live:
        yield lambda view: live.update(demo_view.tables(view, seconds), refresh=True)


class _Lines:
    """Prints a line now and then."""

    def __init__(self, output: Output) -> None:
        self.output = output
        self._next = 0.0

    def __call__(self, view: DemoView) -> None:
        if view.elapsed >= self._next:
            self._next += PLAIN_PULSE
            self.output.note(demo_view.line(view))


def _summarise(output: Output, show: Show, ledger: Path) -> None:
    view = show.view
    output.console.print(demo_view.tables(view, show.seconds))
    for text in (*demo_view.explanation(view), "", *demo_view.verdict(view)):
        output.note(text)
    if show.with_spark and view.landing is None:
        output.note("Spark: it ended before the first rows were there, so there is no table to compare.")
    output.note(demo_view.stored(view))
    output.note(f"written down: thinwire ledger show {ledger}")


def _lament(output: Output, failure: WorkerFailed) -> int:
    """Name the process that failed, with its last words."""
    output.note(f"{failure.name} failed: {failure.detail}. Its last words:")
    output.note(failure.facts.get("said") or "(none)")
    return FAILED
