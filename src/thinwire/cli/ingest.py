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
)
from thinwire.cli.main import INTERRUPTED
from thinwire.cli.option_groups import option, with_options
from thinwire.cli.output import Output
from thinwire.cli.spark_options import MasterOption, spark_session
from thinwire.cli.terminal import status_text
from thinwire.errors import ConfigError

if TYPE_CHECKING:
    from thinwire.spark.jobs.stream_progress import JobProgress

TopicsArgument = Annotated[list[str], typer.Argument(metavar="TOPIC...", help="For example building.rooms.")]

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class IngestOptions(ToleranceOptions):
    to: str = option(..., "Folder of the table, or URL such as s3a://...", metavar="TABLE")
    forget: bool = option(False, "Write nothing; remove the subscription of the table.")
    start: str = option(
        "earliest", "Where a new table starts: earliest, latest, JSON of offsets.", "--from", metavar="POSITION"
    )
    trigger: str = option("5s", "Time between two batches.", metavar="5s")
    once: bool = option(False, "Write the messages that are in the log now, then exit.")
    seconds: SecondsOption = None
    checkpoint: str | None = option(None, "Folder of Spark's checkpoint; default: inside the table.", metavar="FOLDER")
    batch: int = option(500_000, "Largest number of messages per batch.", metavar="N", min=1)
    allow_data_loss: bool = option(False, "Skip messages that are no longer in the log or cannot be decoded.")
    by: str = option("topic,date", "Partition columns: topic and date.", metavar="A,B")

    def read(self) -> dict[str, Any]:
        """Return the keyword arguments of `thinwire.spark.jobs.ingest.ingest`."""
        return {
            **self.tolerances(),
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
    *,
    options: IngestOptions,
    master: MasterOption = "local[*]",
    broker: ServersAccess,
    output: Output,
) -> None:
    """Write topics to a Parquet table, every event once, partitioned by topic and date.

    Runs until Ctrl-C (exit code 130, after the current batch), --seconds or
    --once, and resumes where it stopped or was killed. The table is a
    subscriber with the given tolerances from the first start until --forget.

    \b
    thinwire ingest building.rooms --to lake/rooms --once
    thinwire ingest building.rooms building.halls --to lake/building --trigger 1m --tolerance temperature=0.1
    """
    from thinwire.spark.jobs.ingest import forget

    if options.forget:
        forget(broker.url, topics, options.to, **broker.options())
        output.note(f"{options.to} is unsubscribed from {', '.join(topics)}")
        output.document({"table": options.to, "topics": topics, "forgotten": True})
        return
    stop, written = _run(master, broker, topics, options)
    _print_result(output, options.to, written)
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


def _run(master: str, broker: ServersAccess, topics: list[str], options: IngestOptions) -> tuple[Event, JobProgress]:
    from thinwire.spark.jobs.ingest import ingest as ingest_topics

    settings = options.read()
    # The session starts first: Spark installs a signal handler, which would cancel the running batch on Ctrl-C.
    with (
        spark_session(master, "thinwire ingest") as spark,
        _stop_on_signal() as stop,
        status_text("waiting for events") as set_status,
    ):

        def on_progress(job: JobProgress) -> None:
            set_status(f"{job.rows:,} rows in {job.batches:,} batches, {job.behind:,} messages behind")

        written = ingest_topics(
            spark, broker.url, topics, options.to, stop=stop, progress=on_progress, **settings, **broker.options()
        )
    return stop, written


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
