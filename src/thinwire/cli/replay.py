"""`thinwire replay TABLE --to TOPIC`: publish the rows of a table on a topic, on Spark."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thinwire.cli.connection_options import ServersAccess, read_names
from thinwire.cli.option_groups import option, with_options
from thinwire.cli.output import Output
from thinwire.cli.spark_options import MasterOption, progress_bar, spark_session
from thinwire.errors import ConfigError

if TYPE_CHECKING:
    from thinwire.spark.source.sink import SinkResult

TableArgument = Annotated[str, typer.Argument(metavar="TABLE", help="A folder of Parquet files.")]
TargetOption = Annotated[str, typer.Option("--to", metavar="TOPIC", help="The topic to publish on.")]


@dataclass(frozen=True)
class ReplayOptions:
    speed: str = option("max", "1x for the original rate, 10x for ten times faster, or max.", metavar="10x")
    limit: int | None = option(None, "Publish the first N rows only.", metavar="N", min=1)
    publishers: int = option(
        1, "Number of publishers that share the sources; at most the number of cores.", metavar="N", min=1
    )
    of: str | None = option(None, "Topic to select if the table contains several.", metavar="TOPIC")
    dimensions: str | None = option(None, "Properties that identify a source, for a new topic.", metavar="A,B")
    event_time: str | None = option(None, "Property with the event time, for a new topic.", "--time", metavar="NAME")
    name: str | None = option(None, "Prefix of the publisher names.")
    by: str = option("topic,date", "Partition columns of the table.", metavar="A,B")

    def read(self) -> dict[str, Any]:
        """Return the keyword arguments of the job."""
        names = {"dimensions": read_names(self.dimensions), "by": read_names(self.by) or ()}
        return {**vars(self), **names, "speed": read_speed(self.speed)}


@with_options
def replay(
    table: TableArgument,
    to: TargetOption,
    *,
    options: ReplayOptions,
    master: MasterOption = "local[*]",
    broker: ServersAccess,
    output: Output,
) -> None:
    """Publish the rows of a table, in order per source.

    A topic that is not registered gets the schema of the original topic, or
    one inferred from the rows, and retains its events. Rows that do not
    match the schema are counted and stored as dead letters; the exit code
    is then 1.

    \b
    thinwire replay lake/rooms --to test.rooms --speed 10x
    thinwire replay old.parquet --to test.rooms --dimensions room --time ts --limit 100000
    """
    settings = {**options.read(), **broker.options()}
    from thinwire.spark.jobs.replay import replay as replay_rows

    with spark_session(master, "thinwire replay") as spark, progress_bar(f"to {to}") as progress:
        result = replay_rows(spark, broker.url, table, to, progress=progress, **settings)
    _show(output, table, to, result, options.publishers)
    if result.refused:
        raise typer.Exit(1)


def read_speed(text: str) -> float | None:
    """Parse a speed factor; None for no limit.

    >>> read_speed("10x"), read_speed("0.5x"), read_speed("max")
    (10.0, 0.5, None)
    """
    if text == "max":
        return None
    match = re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]{1,6})?)x?", text)
    if match is None or not float(match[1]):
        raise ConfigError("write it as 10x, 1x, 0.5x or max", speed=text)
    return float(match[1])


def _show(output: Output, table: str, topic: str, result: SinkResult, publishers: int) -> None:
    facts = {name: getattr(result, name) for name in ("rows", "refused", "messages")} | {"publishers": publishers}
    output.facts(f"{table} to {topic}", facts)
    if result.unheard:
        output.note("The topic has no subscriber, so no event was stored; register it with retain.")
    output.document({"table": table, "topic": topic, **facts, "unheard": result.unheard})
