"""`thinwire replay TABLE --to TOPIC`: a table onto a topic, on Spark."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer

from thinwire.cli.connection_options import DEFAULT_URL, NOBODY, Access, Identity, identified, names
from thinwire.cli.output import JsonOption, Output
from thinwire.cli.record import ServersOption
from thinwire.cli.spark_options import MasterOption, progress_bar
from thinwire.errors import ConfigError

if TYPE_CHECKING:
    from thinwire.spark.jobs.replay import Replayed

TableArgument = Annotated[str, typer.Argument(metavar="TABLE", help="A folder of Parquet files.")]
TopicOption = Annotated[str, typer.Option("--to", metavar="TOPIC", help="The topic to publish on.")]
SpeedOption = Annotated[str, typer.Option("--speed", metavar="10x", help="1x as it was, 10x ten times faster, or max.")]
LimitOption = Annotated[int | None, typer.Option("--limit", metavar="N", help="The first rows only.", min=1)]
PublishersOption = Annotated[
    int, typer.Option("--publishers", metavar="N", help="How many share the sources; not more than cores.", min=1)
]
OfOption = Annotated[str | None, typer.Option("--of", metavar="TOPIC", help="Of several in the table, this one.")]
DimensionsOption = Annotated[
    str | None, typer.Option("--dimensions", metavar="A,B", help="What identifies a source, for a new topic.")
]
TimeOption = Annotated[
    str | None, typer.Option("--time", metavar="NAME", help="The time of an event, for a new topic.")
]
NameOption = Annotated[str | None, typer.Option("--name", help="How the publishers' names begin.")]
ByOption = Annotated[str, typer.Option("--by", metavar="A,B", help="Columns that name the table's folders.")]


@identified
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
    who: Identity = NOBODY,
    json: JsonOption = False,
) -> None:
    """Publish the rows of a table, those of each source in their order.

    A topic that is not registered gets the schema of the topic that the
    rows came from, or one that is found from them, and retains its events.
    Rows that do not fit are counted and kept as dead letters; then it
    leaves with 1.

    \b
    thinwire replay lake/rooms --to test.rooms --speed 10x
    thinwire replay old.parquet --to test.rooms --dimensions room --time ts --limit 100000
    """
    output = Output(json)
    rate = read_speed(speed)
    access = Access(servers, who)
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
                dimensions=names(dimensions),
                event_time=time,
                name=name,
                by=names(by) or (),
                progress=progress,
                **access.options(),
            )
    finally:
        spark.stop()
    _show(output, table, to, done)
    if done.refused:
        raise typer.Exit(1)


def read_speed(text: str) -> float | None:
    """How many times faster; None for as fast as it goes.

    >>> read_speed("10x"), read_speed("0.5x"), read_speed("max")
    (10.0, 0.5, None)
    """
    if text == "max":
        return None
    found = re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]{1,6})?)x?", text)
    if found is None or not float(found[1]):
        raise ConfigError("write it as 10x, 1x, 0.5x or max", speed=text)
    return float(found[1])


def _show(output: Output, table: str, topic: str, done: Replayed) -> None:
    facts = {
        "rows": done.rows,
        "refused": done.refused,
        "messages": done.messages,
        "publishers": done.publishers,
    }
    output.table(f"{table} to {topic}", ("what", "value"), facts.items())
    if done.unheard:
        output.note("Nobody subscribes to this topic, so nothing was stored: register it with retain.")
    output.document({"table": table, "topic": topic, **facts, "unheard": done.unheard})
