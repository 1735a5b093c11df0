"""`thinwire place teach`: Spark makes a model of what a topic says, and the function of a topic goes by it."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated

import typer

from thinwire.cli.connection_options import NOBODY, Identity, identified
from thinwire.cli.connection_options_live import DEFAULT_URL, Access, UrlOption
from thinwire.cli.output import JsonOption, Output
from thinwire.cli.place_place_apply import opened
from thinwire.cli.spark_options import MasterOption
from thinwire.cli.sweep import find
from thinwire.cli.terminal import run
from thinwire.edge import teach

TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic whose function shall learn.")]
FromOption = Annotated[str, typer.Option("--from", metavar="TOPIC", help="The topic to learn from.")]
WithOption = Annotated[str, typer.Option("--with", help="module:function that makes a model of a DataFrame.")]
TableOption = Annotated[Path, typer.Option("--table", metavar="DIR", help="Where the stream is landed, as Parquet.")]


@identified
def teach_(
    topic: TopicArgument,
    source: FromOption,
    learning: WithOption,
    table: TableOption,
    to: UrlOption = DEFAULT_URL,
    master: MasterOption = "local[*]",
    who: Identity = NOBODY,
    json: JsonOption = False,
) -> None:
    """Land a topic, let a function on Spark make a model of it, and give that to the function of a topic.

    The function on Spark gets a DataFrame of offset, due, id and body; the one
    at the edge gets its model through `learned` in the same module.

    \b
    thinwire place teach region-7.gps --from region-7.update --with speeds:usual --table landed/region-7
    """
    output, access = Output(json), Access(to, who)
    called = find(learning)
    from thinwire.spark.jobs.edge_training import land, model_of
    from thinwire.spark.session import session

    async def landing() -> int:
        async with AsyncExitStack() as stack:
            return await land(await opened(access, stack), source, table)

    async def teaching(model: bytes) -> None:
        async with AsyncExitStack() as stack:
            await teach(await opened(access, stack), topic, model)

    fresh = run(landing())
    spark = session(master, app="thinwire place teach")
    try:
        model = model_of(spark, table, called)
    finally:
        spark.stop()
    run(teaching(model))
    output.note(f"{fresh} messages landed in {table}; {topic} goes by a model of {len(model)} bytes from now on.")
    output.document({"topic": topic, "landed": fresh, "bytes": len(model)})
