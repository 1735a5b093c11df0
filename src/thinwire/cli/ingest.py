"""`thinwire ingest TOPIC... --to TABLE`: write topics to a Parquet table, on Spark."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from thinwire.cli.connection_options import (
    DEFAULT_URL,
    NO_CREDENTIALS,
    BrokerAccess,
    Credentials,
    DefaultToleranceOption,
    TolerancesOption,
    read_names,
    read_tolerances,
    with_credentials,
)
from thinwire.cli.main import INTERRUPTED
from thinwire.cli.output import JsonOption, Output
from thinwire.cli.record import ServersOption
from thinwire.cli.spark_options import MasterOption
from thinwire.errors import ConfigError

if TYPE_CHECKING:
    from thinwire.spark.jobs.ingest import Ingested
    from thinwire.spark.jobs.stream_progress import JobProgress, OnProgress

TopicsArgument = Annotated[list[str], typer.Argument(metavar="TOPIC...", help="For example building.rooms.")]
TableOption = Annotated[str, typer.Option("--to", metavar="TABLE", help="Folder or URL such as s3a://...")]
FromOption = Annotated[
    str, typer.Option("--from", metavar="POSITION", help="Start of a new table: earliest, latest, or JSON of offsets.")
]
TriggerOption = Annotated[str, typer.Option("--trigger", metavar="5s", help="Interval between batches.")]
OnceOption = Annotated[bool, typer.Option("--once", help="Write the messages present now and exit.")]
SecondsOption = Annotated[float | None, typer.Option("--seconds", help="Exit after this many seconds.", min=0)]
CheckpointOption = Annotated[
    str | None, typer.Option("--checkpoint", metavar="FOLDER", help="Checkpoint folder; default: inside the table.")
]
BatchOption = Annotated[int, typer.Option("--batch", metavar="N", help="Largest number of messages per batch.", min=1)]
LossOption = Annotated[
    bool, typer.Option("--allow-data-loss", help="Skip messages that are no longer in the log or cannot be decoded.")
]
ByOption = Annotated[str, typer.Option("--by", metavar="A,B", help="Partition columns: topic and date.")]
ForgetOption = Annotated[bool, typer.Option("--forget", help="Write nothing; remove the subscription of the table.")]

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


@with_credentials
def ingest(
    topics: TopicsArgument,
    to: TableOption,
    start: FromOption = "earliest",
    trigger: TriggerOption = "5s",
    once: OnceOption = False,
    seconds: SecondsOption = None,
    tolerance: TolerancesOption = None,
    default_tolerance: DefaultToleranceOption = 0,
    checkpoint: CheckpointOption = None,
    batch: BatchOption = 500_000,
    allow_data_loss: LossOption = False,
    by: ByOption = "topic,date",
    forget: ForgetOption = False,
    master: MasterOption = "local[*]",
    servers: ServersOption = DEFAULT_URL,
    credentials: Credentials = NO_CREDENTIALS,
    json: JsonOption = False,
) -> None:
    """Write topics to a Parquet table, every event once, partitioned by topic and date.

    Runs until Ctrl-C (exit code 130, after the current batch), --seconds or
    --once, and resumes where it stopped or was killed. The table is a
    subscriber with the given tolerances from the first start until --forget.

    \b
    thinwire ingest building.rooms --to lake/rooms --once
    thinwire ingest building.rooms building.halls --to lake/building --trigger 1m --tolerance temperature=0.1
    """
    output = Output(json)
    access = BrokerAccess(servers, credentials)
    if forget:
        _forget(access, topics, to)
        output.note(f"{to} is unsubscribed from {', '.join(topics)}")
        output.document({"table": to, "topics": topics, "forgotten": True})
        return
    options: dict[str, Any] = {
        "start": start,
        "trigger": None if once else read_duration(trigger),
        "seconds": seconds,
        "tolerance": read_tolerances(tolerance),
        "default_tolerance": default_tolerance,
        "checkpoint": checkpoint,
        "max_offsets": batch,
        "fail_on_data_loss": not allow_data_loss,
        "by": read_names(by),
        **access.options(),
    }
    stop, landed = _run(master, access.url, topics, to, options)
    _show(output, to, landed)
    if stop.is_set():
        raise typer.Exit(INTERRUPTED)


def read_duration(text: str) -> float:
    """Parse a duration and return seconds.

    >>> read_duration("5s"), read_duration("1.5m"), read_duration("250 ms")
    (5.0, 90.0, 0.25)
    """
    match = re.fullmatch(r"\s*([0-9]{1,9}(?:\.[0-9]{1,6})?)\s*(ms|s|m|h)\s*", text)
    if match is None:
        raise ConfigError("a number and ms, s, m or h, such as 5s", trigger=text)
    return float(match[1]) * _UNITS[match[2]]


def _run(master: str, url: str, topics: list[str], table: str, options: dict[str, Any]) -> tuple[Event, Ingested]:
    from thinwire.spark.jobs.ingest import ingest as land
    from thinwire.spark.session import session

    spark = session(master, app="thinwire ingest")
    try:
        # Without this handler Spark cancels the running batch on Ctrl-C.
        with _interruptible() as stop, _progress_line() as progress:
            return stop, land(spark, url, topics, table, stop=stop, progress=progress, **options)
    finally:
        spark.stop()


def _forget(access: BrokerAccess, topics: list[str], table: str) -> None:
    from thinwire.spark.jobs.ingest import forget

    forget(access.url, topics, table, **access.options())


@contextmanager
def _interruptible() -> Iterator[Event]:
    """Yield an event that the first Ctrl-C or SIGTERM sets; a second one has its default effect."""
    stop = Event()
    previous = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def on_signal(number: int, _: Any) -> None:
        stop.set()
        signal.signal(number, signal.SIG_DFL if number == signal.SIGTERM else signal.default_int_handler)

    for number in previous:
        signal.signal(number, on_signal)
    try:
        yield stop
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@contextmanager
def _progress_line() -> Iterator[OnProgress]:
    """Show progress on a terminal; print nothing if stderr is not a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda progress: None
        return
    with console.status("waiting for events") as status:

        def print_progress(progress: JobProgress) -> None:
            status.update(
                f"{progress.rows:,} rows in {progress.batches:,} batches, {progress.behind:,} messages behind"
            )

        yield print_progress


def _show(output: Output, table: str, landed: Ingested) -> None:
    rows = sorted(landed.offsets.items())
    output.table(f"{landed.rows:,} rows in {landed.batches:,} batches to {table}", ("topic", "next offset"), rows)
    output.document({"table": table, "rows": landed.rows, "batches": landed.batches, "offsets": dict(landed.offsets)})
