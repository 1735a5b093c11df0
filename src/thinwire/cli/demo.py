"""`thinwire demo`: events of a building on their way to three subscribers, and what it costs, while you watch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from signal import SIGINT, signal
from time import monotonic, sleep
from typing import Annotated, Any

import typer
from rich.live import Live
from rich.table import Table

from thinwire.cli.output import JsonOption, Output, shown
from thinwire.evaluation.demonstration import Demonstration, Lane
from thinwire.evaluation.ledgers import append

PLANTS = 3
STEP = 0.02
"""seconds between two bursts of events"""
PULSE = 0.25
"""seconds between two looks at the table"""
PLAIN_PULSE = 5.0
"""the same where lines are printed instead"""
COLUMNS = ("within", "raw JSON", "frames", "saved", "link, JSON", "link, frames", "worst error", "virtual events")

EXPLANATION = (
    "frames: all bytes of all frames, key frames and heartbeats included; saved: of the raw JSON.",
    "link: with what a NATS broker adds to a message, acknowledgements included, by its protocol's text.",
    "worst error: of what was promised, over every value of every event; virtual: no value of it was sent.",
)

SecondsOption = Annotated[float, typer.Option("--seconds", help="How long to run; Ctrl-C ends it sooner.", min=0)]
RateOption = Annotated[int, typer.Option("--rate", help="Events a second; the plants make 3 in real time.", min=1)]
LedgerOption = Annotated[Path, typer.Option("--ledger", help="Where the run is written down.")]


def demo(
    seconds: SecondsOption = 20.0,
    rate: RateOption = 200,
    ledger: LedgerOption = Path("runs/demo/ledger.jsonl"),
    json: JsonOption = False,
) -> None:
    """Three plants, a broker in memory, subscribers at tolerance 0, 0.5 and 1.0."""
    output = Output(json)
    run = f"demo-{datetime.now():%Y%m%d-%H%M%S}"
    _introduce(output, rate)
    with output.console.status("first run on this machine: compiling the kernels, up to a minute, once"):
        _warm_up()
    show = Demonstration(sources=PLANTS, run=run)
    with _display(output, show) as refresh:
        _play(show, seconds, rate, refresh)
    show.finish()
    append(ledger, show.rows)
    _summarise(output, show, ledger)
    output.document({"run": run, "ledger": ledger, "lanes": [_facts(show, lane) for lane in show.lanes]})
    if not all(lane.checker.kept for lane in show.lanes):
        raise typer.Exit(1)


def _introduce(output: Output, rate: int) -> None:
    output.note(f"{PLANTS} plants, {rate} events a second ({rate / PLANTS:.0f} times real time), broker in memory.")
    output.note("Each tolerance has a publisher link of its own; Ctrl-C ends with a summary.")
    output.note("The very first run on a machine compiles its kernels, up to a minute; later ones start at once.")


def _warm_up() -> None:
    """Kernels compile on their first use, and nobody came to watch that: run all of them, a trial of predictors and an
    event passed over included."""
    rehearsal = Demonstration(sources=PLANTS)
    rehearsal.run(80 * PLANTS)
    rehearsal.finish()


def _play(show: Demonstration, seconds: float, rate: int, refresh: Any) -> None:
    """Publish at the given rate until the time is over or somebody has seen enough."""
    with _until_interrupted() as interrupted:
        begin = monotonic()
        while (elapsed := monotonic() - begin) < seconds and not interrupted:
            show.run(min(int(elapsed * rate) + 1 - show.events, rate))
            refresh(elapsed)
            sleep(STEP)


@contextmanager
def _until_interrupted() -> Iterator[list[int]]:
    """A list that is empty until Ctrl-C. An exception could hit between a publisher and its broker and lose a frame."""
    seen: list[int] = []
    before = signal(SIGINT, lambda number, frame: seen.append(number))
    try:
        yield seen
    finally:
        signal(SIGINT, before)


@contextmanager
def _display(output: Output, show: Demonstration) -> Iterator[Any]:
    """A table that moves where there is a terminal, a line now and then where there is none."""
    if not output.console.is_terminal:
        yield _Pulse(PLAIN_PULSE, lambda elapsed: output.note(_line(show, elapsed)))
        return
    with Live(_table(show), console=output.console, auto_refresh=False, transient=True) as live:
        yield _Pulse(PULSE, lambda elapsed: live.update(_table(show), refresh=True))


class _Pulse:
    """Calls a function at most so often."""

    def __init__(self, seconds: float, tell: Any) -> None:
        self.seconds = seconds
        self.tell = tell
        self._next = 0.0

    def __call__(self, elapsed: float) -> None:
        if elapsed >= self._next:
            self._next = elapsed + self.seconds
            self.tell(elapsed)


def _table(show: Demonstration) -> Table:
    table = Table(title=f"thinwire demo: {show.events:,} events", title_justify="left")
    for column in COLUMNS:
        table.add_column(column, justify="right")
    for lane in show.lanes:
        table.add_row(*_cells(_facts(show, lane)))
    return table


def _cells(lane: dict[str, Any]) -> tuple[str, ...]:
    """A lane for people; narrow, for a terminal of 80 columns has to hold it."""
    return (
        f"{lane['tolerance']:g}",
        _size(lane["raw_bytes"]),
        _size(lane["frame_bytes"]),
        _percent(lane["saved"]),
        _size(lane["raw_link_bytes"]),
        _size(lane["link_bytes"]),
        _percent(lane["worst_error"]) if lane["kept"] else "BROKEN",
        shown(lane["virtual_events"]),
    )


def _facts(show: Demonstration, lane: Lane) -> dict[str, Any]:
    sent, taken = lane.rows
    return {
        "tolerance": lane.tolerance,
        "events": sent.events,
        "raw_bytes": sent.raw_bytes,
        "frame_bytes": sent.frame_bytes,
        "saved": sent.saved or 0.0,
        "raw_link_bytes": show.raw_link_bytes,
        "link_bytes": sent.link_bytes,
        "worst_error": lane.checker.worst,
        "virtual_events": taken.suppressed_events,
        "kept": not lane.checker.broken,
    }


def _size(count: int) -> str:
    """
    >>> _size(812), _size(41_288), _size(5_264_000)
    ('812 B', '41.3 kB', '5.3 MB')
    """
    for unit, size in (("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _line(show: Demonstration, elapsed: float) -> str:
    parts = [f"within {lane.tolerance:g}: {100 * (lane.rows[0].saved or 0):.1f} % saved" for lane in show.lanes]
    return f"{elapsed:5.1f} s  {show.events:,} events  {', '.join(parts)}"


def _summarise(output: Output, show: Demonstration, ledger: Path) -> None:
    output.console.print(_table(show))
    for line in EXPLANATION:
        output.note(line)
    for lane in show.lanes:
        if not lane.checker.kept:
            output.note(f"within {lane.tolerance:g}: {lane.checker.first_breach or 'events are missing'}")
    output.note(f"written down: thinwire ledger show {ledger}")
