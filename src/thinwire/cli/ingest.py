"""`thinwire ingest TOPIC... --to TABLE`: topics into a Parquet table, on Spark."""

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
    NOBODY,
    Access,
    DefaultToleranceOption,
    Identity,
    TolerancesOption,
    identified,
    names,
    tolerances,
)
from thinwire.cli.main import INTERRUPTED
from thinwire.cli.output import JsonOption, Output
from thinwire.cli.record import ServersOption
from thinwire.cli.spark_options import MasterOption
from thinwire.errors import ConfigError

if TYPE_CHECKING:
    from thinwire.spark.jobs.ingest import Ingested
    from thinwire.spark.jobs.stream_progress import JobProgress, Tell

TopicsArgument = Annotated[list[str], typer.Argument(metavar="TOPIC...", help="Such as building.rooms.")]
TableOption = Annotated[str, typer.Option("--to", metavar="TABLE", help="A folder, or a place such as s3a://...")]
FromOption = Annotated[
    str, typer.Option("--from", metavar="PLACE", help="Where a new table begins: earliest, latest, JSON of offsets.")
]
TriggerOption = Annotated[str, typer.Option("--trigger", metavar="5s", help="How often there is a batch.")]
OnceOption = Annotated[bool, typer.Option("--once", help="Land what is there now, and leave.")]
SecondsOption = Annotated[float | None, typer.Option("--seconds", help="Leave after so many seconds.", min=0)]
CheckpointOption = Annotated[
    str | None, typer.Option("--checkpoint", metavar="FOLDER", help="Where the place is kept; else in the table.")
]
BatchOption = Annotated[int, typer.Option("--batch", metavar="N", help="Messages of a batch, at most.", min=1)]
LossOption = Annotated[
    bool, typer.Option("--allow-data-loss", help="Go on without what the log no longer has or cannot be read.")
]
ByOption = Annotated[str, typer.Option("--by", metavar="A,B", help="Columns that name the folders: topic and date.")]
ForgetOption = Annotated[
    bool, typer.Option("--forget", help="Land nothing: the table no longer counts as a subscriber of the topics.")
]

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


@identified
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
    who: Identity = NOBODY,
    json: JsonOption = False,
) -> None:
    """Land topics in a Parquet table, every event once, by topic and date.

    Runs until Ctrl-C (130, after the batch that runs), --seconds or --once,
    and goes on where it stopped, or was killed, when it is started again.
    The table counts as a subscriber, with the tolerances given, from the
    first start on and until --forget.

    \b
    thinwire ingest building.rooms --to lake/rooms --once
    thinwire ingest building.rooms building.halls --to lake/building --trigger 1m --tolerance temperature=0.1
    """
    output = Output(json)
    access = Access(servers, who)
    if forget:
        _forget(access, topics, to)
        output.note(f"{to} no longer subscribes to {', '.join(topics)}")
        output.document({"table": to, "topics": topics, "forgotten": True})
        return
    wanted: dict[str, Any] = {
        "start": start,
        "trigger": None if once else read_duration(trigger),
        "seconds": seconds,
        "tolerance": tolerances(tolerance),
        "default_tolerance": default_tolerance,
        "checkpoint": checkpoint,
        "max_offsets": batch,
        "fail_on_data_loss": not allow_data_loss,
        "by": names(by),
        **access.options(),
    }
    stop, landed = _run(master, access.url, topics, to, wanted)
    _show(output, to, landed)
    if stop.is_set():
        raise typer.Exit(INTERRUPTED)


def read_duration(text: str) -> float:
    """Seconds out of a number with a unit.

    >>> read_duration("5s"), read_duration("1.5m"), read_duration("250 ms")
    (5.0, 90.0, 0.25)
    """
    found = re.fullmatch(r"\s*([0-9]{1,9}(?:\.[0-9]{1,6})?)\s*(ms|s|m|h)\s*", text)
    if found is None:
        raise ConfigError("a number and ms, s, m or h, such as 5s", trigger=text)
    return float(found[1]) * _UNITS[found[2]]


def _run(master: str, url: str, topics: list[str], table: str, wanted: dict[str, Any]) -> tuple[Event, Ingested]:
    from thinwire.spark.jobs.ingest import ingest as land
    from thinwire.spark.session import session

    spark = session(master, app="thinwire ingest")
    try:
        # Spark's own way with Ctrl-C is to cancel what runs
        with _interruptible() as stop, _line() as progress:
            return stop, land(spark, url, topics, table, stop=stop, progress=progress, **wanted)
    finally:
        spark.stop()


def _forget(access: Access, topics: list[str], table: str) -> None:
    from thinwire.spark.jobs.ingest import forget

    forget(access.url, topics, table, **access.options())


@contextmanager
def _interruptible() -> Iterator[Event]:
    """What is set by Ctrl-C and SIGTERM; the second time they do what they always do."""
    stop = Event()
    before = {sign: signal.getsignal(sign) for sign in (signal.SIGINT, signal.SIGTERM)}

    def on_signal(number: int, _: Any) -> None:
        stop.set()
        signal.signal(number, signal.SIG_DFL if number == signal.SIGTERM else signal.default_int_handler)

    for sign in before:
        signal.signal(sign, on_signal)
    try:
        yield stop
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)


@contextmanager
def _line() -> Iterator[Tell]:
    """A line on a terminal that moves; nothing where standard error is none."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda progress: None
        return
    with console.status("waiting for events") as status:

        def print_progress(progress: JobProgress) -> None:
            status.update(
                f"{progress.rows:,} rows in {progress.batches:,} batches, {progress.behind:,} messages to come"
            )

        yield print_progress


def _show(output: Output, table: str, landed: Ingested) -> None:
    rows = sorted(landed.offsets.items())
    output.table(f"{landed.rows:,} rows in {landed.batches:,} batches to {table}", ("topic", "next offset"), rows)
    output.document({"table": table, "rows": landed.rows, "batches": landed.batches, "offsets": dict(landed.offsets)})
