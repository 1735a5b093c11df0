"""`thinwire replay TABLE --to TOPIC`: publish the rows of a table on a topic, on Spark."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer

from thinwire.cli.connection_options import (
    DEFAULT_URL,
    NO_CREDENTIALS,
    BrokerAccess,
    Credentials,
    read_names,
    with_credentials,
)
from thinwire.cli.output import JsonOption, Output
from thinwire.cli.record import ServersOption
from thinwire.cli.spark_options import MasterOption, progress_bar
from thinwire.errors import ConfigError

if TYPE_CHECKING:
    from thinwire.spark.jobs.replay import Replayed

TableArgument = Annotated[str, typer.Argument(metavar="TABLE", help="A folder of Parquet files.")]
TopicOption = Annotated[str, typer.Option("--to", metavar="TOPIC", help="The topic to publish on.")]
SpeedOption = Annotated[
    str, typer.Option("--speed", metavar="10x", help="1x for the original rate, 10x for ten times faster, or max.")
]
LimitOption = Annotated[int | None, typer.Option("--limit", metavar="N", help="Publish the first N rows only.", min=1)]
PublishersOption = Annotated[
    int,
    typer.Option(
        "--publishers",
        metavar="N",
        help="Number of publishers that share the sources; at most the number of cores.",
        min=1,
    ),
]
OfOption = Annotated[
    str | None, typer.Option("--of", metavar="TOPIC", help="Topic to select if the table contains several.")
]
DimensionsOption = Annotated[
    str | None, typer.Option("--dimensions", metavar="A,B", help="Properties that identify a source, for a new topic.")
]
TimeOption = Annotated[
    str | None, typer.Option("--time", metavar="NAME", help="Property with the event time, for a new topic.")
]
NameOption = Annotated[str | None, typer.Option("--name", help="Prefix of the publisher names.")]
ByOption = Annotated[str, typer.Option("--by", metavar="A,B", help="Partition columns of the table.")]


@with_credentials
def replay(
    table: TableArgument,
    to: TopicOption,
    speed: SpeedOption = "max",
    limit: LimitOption = None,
    publishers: PublishersOption = 1,
    of: OfOption = None,
    dimensions: DimensionsOption = None,
    time: TimeOption = None,
    name: NameOption = None,
    by: ByOption = "topic,date",
    master: MasterOption = "local[*]",
    servers: ServersOption = DEFAULT_URL,
    credentials: Credentials = NO_CREDENTIALS,
    json: JsonOption = False,
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
    output = Output(json)
    rate = read_speed(speed)
    access = BrokerAccess(servers, credentials)
    from thinwire.spark.jobs.replay import replay as play
    from thinwire.spark.session import session

    spark = session(master, app="thinwire replay")
    try:
        with progress_bar(f"to {to}") as progress:
            done = play(
                spark,
                access.url,
                table,
                to,
                speed=rate,
                limit=limit,
                publishers=publishers,
                of=of,
                dimensions=read_names(dimensions),
                event_time=time,
                name=name,
                by=read_names(by) or (),
                progress=progress,
                **access.options(),
            )
    finally:
        spark.stop()
    _show(output, table, to, done)
    if done.refused:
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


def _show(output: Output, table: str, topic: str, done: Replayed) -> None:
    facts = {
        "rows": done.rows,
        "refused": done.refused,
        "messages": done.messages,
        "publishers": done.publishers,
    }
    output.facts(f"{table} to {topic}", facts)
    if done.unheard:
        output.note("The topic has no subscriber, so no event was stored; register it with retain.")
    output.document({"table": table, "topic": topic, **facts, "unheard": done.unheard})
