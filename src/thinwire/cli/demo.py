"""`thinwire demo`: a complete system on this machine, with live tables."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import typer
from rich.live import Live

from thinwire.analysis.ledger_files import append
from thinwire.cli import demo_view
from thinwire.cli.option_groups import option, with_options
from thinwire.cli.output import Output
from thinwire.demo.demo_run import MAX_RATE, DemoView, open_demo
from thinwire.demo.demo_scenario import PLANTS, compile_kernels
from thinwire.demo.process_group import WorkerFailed
from thinwire.errors import MissingExtra, SparkUnavailable
from thinwire.services.translator.hold_group import warm_up_hold_group
from thinwire.spark.session import check

LINE_INTERVAL = 5.0
"""seconds between two lines if the output is not a terminal"""
FAILED = 1
"""exit code if a guarantee was violated or a process failed"""


@dataclass(frozen=True)
class DemoOptions:
    seconds: float = option(45.0, "Seconds to run; Ctrl-C ends the demo earlier.", min=1)
    rate: int = option(200, "Events per second in total; 3 is real time.", min=1, max=MAX_RATE)
    all_at_once: bool = option(False, "Start all subscribers together instead of one after another.")
    spark: bool = option(True, "Also write the log to a table with Spark.", "--spark/--no-spark")
    ledger: Path = option(Path("runs/demo/ledger.jsonl"), "File to which the figures of the run are appended.")


@with_options
def demo(*, options: DemoOptions, output: Output) -> None:
    """Run a broker, a registry, a translator, three publishers and five subscribers, each as a process.

    The subscribers join one after another, each with a smaller tolerance. The
    publishers then send more, and the translator opens channels for the
    subscribers with larger tolerances. Every delivered value is compared with
    the published one. Spark writes the log to a table, which must contain
    every event once. The exit code is 1 if a guarantee was violated.
    """
    seconds, rate, ledger = options.seconds, options.rate, options.ledger
    run = f"demo-{datetime.now():%Y%m%d-%H%M%S}"
    output.note(f"{PLANTS} plants, {rate} events per second ({rate / PLANTS:.0f} times real time) for {seconds:g} s")
    with output.console.status("compiling kernels, up to a minute on the first run"):
        compile_kernels()
        warm_up_hold_group()
    with_spark = options.spark and _has_spark(output)
    try:
        view = asyncio.run(_run(output, run, options, with_spark))
    except WorkerFailed as failure:
        output.note(f"{failure.facts['name']} failed: {failure.detail}")
        raise typer.Exit(FAILED) from None
    append(ledger, view.rows)
    output.console.print(demo_view.tables(view, seconds))
    for text in demo_view.summary(view, with_spark=with_spark):
        output.note(text)
    output.note(f"columns: docs/demo.md; all figures: thinwire ledger show {ledger}")
    output.document({"run": run, "ledger": ledger, "rate": rate, **demo_view.facts(view)})
    if not view.is_guarantee_met:
        raise typer.Exit(FAILED)


def _has_spark(output: Output) -> bool:
    """Return whether Spark can run. If not, print what is missing."""
    try:
        check()
    except (MissingExtra, SparkUnavailable) as missing:
        output.note(f"without the table (--no-spark): {missing}")
        return False
    return True


async def _run(output: Output, run: str, options: DemoOptions, with_spark: bool) -> DemoView:
    rate, seconds = options.rate, options.seconds
    with output.console.status(
        "starting broker, registry, translator, three publishers and five subscribers"
    ) as status:
        async with open_demo(
            run, rate, seconds, all_at_once=options.all_at_once, with_spark=with_spark
        ) as demonstration:
            status.stop()
            with _interruptible() as stopping, _display(output, seconds) as on_view:
                await demonstration.play(stopping, on_view)
            return demonstration.view


@contextmanager
def _interruptible() -> Iterator[asyncio.Event]:
    """Yield an event that Ctrl-C or SIGTERM sets. An exception could leave the answer of a worker process unread."""
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
    """Yield a function that shows the figures: live tables in a terminal, otherwise a line every few seconds."""
    if output.console.is_terminal:
        with Live(console=output.console, auto_refresh=False, transient=True) as live:
            yield lambda view: live.update(demo_view.tables(view, seconds), refresh=True)
        return
    next_line = 0.0

    def print_line(view: DemoView) -> None:
        nonlocal next_line
        if view.elapsed >= next_line:
            next_line += LINE_INTERVAL
            output.note(demo_view.line(view))

    yield print_line
