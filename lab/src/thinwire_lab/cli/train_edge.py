"""`thinwire train-edge`: train a model on Spark from the messages of one edge topic, for the function of another."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated

import typer

from thinwire.cli.connection_options import BrokerAccess
from thinwire.cli.option_groups import with_options
from thinwire.cli.output import JsonOption, Output
from thinwire.cli.spark_options import MasterOption, spark_session
from thinwire.cli.terminal import run
from thinwire.edge import store_model
from thinwire_lab.cli.sweep import find

TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic whose function receives the model.")]
FromOption = Annotated[str, typer.Option("--from", metavar="TOPIC", help="The topic to train on.")]
WithOption = Annotated[str, typer.Option("--with", help="module:function that makes a model of a DataFrame.")]
TableOption = Annotated[Path, typer.Option("--table", metavar="DIR", help="Where the messages are stored, as Parquet.")]


@with_options
def train_edge(
    topic: TopicArgument,
    source: FromOption,
    function: WithOption,
    table: TableOption,
    *,
    access: BrokerAccess,
    master: MasterOption = "local[*]",
    json: JsonOption = False,
) -> None:
    """Store the messages of a topic as a table, train a model on it with Spark, and assign it to a topic's function.

    The function on Spark receives a DataFrame of offset, due, id and body.
    The function at the edge receives the model through `learned` in its
    module.

    \b
    thinwire train-edge region-7.gps --from region-7.update --with speeds:usual --table landed/region-7
    """
    output = Output(json)
    trainer = find(function)
    from thinwire_lab.spark.edge_training import append_messages, train_model

    async def store_messages() -> int:
        async with AsyncExitStack() as stack:
            return await append_messages(await access.open("placement", stack), source, table)

    async def assign_model(model: bytes) -> None:
        async with AsyncExitStack() as stack:
            await store_model(await access.open("placement", stack), topic, model)

    stored = run(store_messages())
    with spark_session(master, "thinwire train-edge") as spark:
        model = train_model(spark, table, trainer)
    run(assign_model(model))
    output.note(f"{stored} messages stored in {table}; {topic} now uses a model of {len(model)} bytes.")
    output.document({"topic": topic, "landed": stored, "bytes": len(model)})
