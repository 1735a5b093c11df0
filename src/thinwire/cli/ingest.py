"""`thinwire ingest TOPIC... --to TABLE`: write topics to a Parquet table, on Spark."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thinwire.cli.connection_options import (
    SecondsOption,
    ServersAccess,
    ToleranceOptions,
    read_names,
    with_options,
)
from thinwire.cli.main import INTERRUPTED
from thinwire.cli.output import JsonOption, Output
from thinwire.cli.spark_options import MasterOption, spark_session
from thinwire.cli.terminal import status_text
from thinwire.errors import ConfigError

if TYPE_CHECKING:
    from thinwire.spark.jobs.stream_progress import JobProgress

TopicsArgument = Annotated[list[str], typer.Argument(metavar="TOPIC...", help="For example building.rooms.")]
TableOption = Annotated[
    str, typer.Option("--to", metavar="TABLE", help="Folder of the table, or URL such as s3a://...")
]
ForgetOption = Annotated[bool, typer.Option("--forget", help="Write nothing; remove the subscription of the table.")]

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class IngestOptions:
    """Options of `thinwire ingest`."""

    tolerances: ToleranceOptions
    start: Annotated[
        str,
        typer.Option("--from", metavar="POSITION", help="Where a new table starts: earliest, latest, JSON of offsets."),
    ] = "earliest"
    trigger: Annotated[str, typer.Option("--trigger", metavar="5s", help="Time between two batches.")] = "5s"
    once: Annotated[bool, typer.Option("--once", help="Write the messages that are in the log now, then exit.")] = False
    seconds: SecondsOption = None
    checkpoint: Annotated[
        str | None,
        typer.Option("--checkpoint", metavar="FOLDER", help="Folder of Spark's checkpoint; default: inside the table."),
    ] = None
    batch: Annotated[int, typer.Option("--batch", metavar="N", help="Largest number of messages per batch.", min=1)] = (
        500_000
    )
    allow_data_loss: Annotated[
        bool,
        typer.Option("--allow-data-loss", help="Skip messages that are no longer in the log or cannot be decoded."),
    ] = False
    by: Annotated[str, typer.Option("--by", metavar="A,B", help="Partition columns: topic and date.")] = "topic,date"

    def read(self) -> dict[str, Any]:
        """Return the keyword arguments of `thinwire.spark.jobs.ingest.ingest`."""
        return {
            **self.tolerances.read(),
            "start": self.start,
            "trigger": None if self.once else read_duration(self.trigger),
            "seconds": self.seconds,
            "checkpoint": self.checkpoint,
            "max_offsets": self.batch,
            "fail_on_data_loss": not self.allow_data_loss,
            "by": read_names(self.by),
        }


@with_options
def ingest(
    topics: TopicsArgument,
    to: TableOption,
    *,
    options: IngestOptions,
    forget: ForgetOption = False,
    master: MasterOption = "local[*]",
    broker: ServersAccess,
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
    if forget:
        _forget(broker, topics, to)
        output.note(f"{to} is unsubscribed from {', '.join(topics)}")
        output.document({"table": to, "topics": topics, "forgotten": True})
        return
    stop, written = _run(master, broker, topics, to, options.read())
    _print_result(output, to, written)
    if stop.is_set():
        raise typer.Exit(INTERRUPTED)


def read_duration(text: str) -> float:
    """Parse a duration and return seconds.

    >>> read_duration("5s"), read_duration("1.5m"), read_duration("250 ms")
    (5.0, 90.0, 0.25)
    """
    match = re.fullmatch(r"\s*([0-9]{1,9}(?:\.[0-9]{1,6})?)\s*(ms|s|m|h)\s*", text)
    if match is None:
        raise ConfigError("write a duration as a number and ms, s, m or h, such as 5s", duration=text)
    return float(match[1]) * _UNITS[match[2]]


def _run(
    master: str, broker: ServersAccess, topics: list[str], table: str, settings: dict[str, Any]
) -> tuple[Event, JobProgress]:
    from thinwire.spark.jobs.ingest import ingest as ingest_topics

    # The session starts first: Spark installs a signal handler, which would cancel the running batch on Ctrl-C.
    with (
        spark_session(master, "thinwire ingest") as spark,
        _stop_on_signal() as stop,
        status_text("waiting for events") as set_status,
    ):

        def on_progress(job: JobProgress) -> None:
            set_status(f"{job.rows:,} rows in {job.batches:,} batches, {job.behind:,} messages behind")

        written = ingest_topics(
            spark, broker.url, topics, table, stop=stop, progress=on_progress, **settings, **broker.options()
        )
    return stop, written


def _forget(broker: ServersAccess, topics: list[str], table: str) -> None:
    from thinwire.spark.jobs.ingest import forget

    forget(broker.url, topics, table, **broker.options())


@contextmanager
def _stop_on_signal() -> Iterator[Event]:
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


def _print_result(output: Output, table: str, written: JobProgress) -> None:
    offsets = sorted(written.offsets.items())
    output.table(f"{written.rows:,} rows in {written.batches:,} batches to {table}", ("topic", "next offset"), offsets)
    output.document({"table": table, "rows": written.rows, "batches": written.batches, "offsets": dict(offsets)})
