"""`thinwire registry get | list | query`: registered topics, schemas, subscriptions and publishers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from thinwire.brokers.protocol import Bucket
from thinwire.cli.connection_options import BrokerAccess
from thinwire.cli.option_groups import with_options
from thinwire.cli.output import Column, Output, print_status
from thinwire.cli.terminal import run
from thinwire.errors import ConfigError
from thinwire.services.registry.rdf_projection import query_registry
from thinwire.services.registry.registry import load_registry
from thinwire.services.registry.registry_descriptions import (
    describe_document,
    describe_schema,
    describe_topic,
    list_topics,
)
from thinwire.topics.names import DocumentKind
from thinwire.topics.registry_client import open_registry

T = TypeVar("T")

KINDS = tuple(DocumentKind)
_COLUMNS: dict[str, Column] = {
    **{name: name for name in ("topic", "version", "properties", "subscriptions", "publishers")},
    "wanted": lambda topic: {True: "yes", False: "no"}.get(topic["wanted"]),
}

registry = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Show registered topics, schemas and subscriptions."
)

NameArgument = Annotated[
    str, typer.Argument(metavar="TOPIC|KEY", help="A topic, or a document key such as topic.plant.")
]
KindArgument = Annotated[
    str | None, typer.Argument(metavar="KIND", help=f"Kind of documents: {', '.join(KINDS)}; default: list the topics.")
]
QueryArgument = Annotated[str, typer.Argument(metavar="SPARQL", help="SPARQL query, or @FILE.")]
TurtleOption = Annotated[bool, typer.Option("--turtle", help="Print the schema of the topic in Turtle.")]
GraphOption = Annotated[bool, typer.Option("--turtle", help="Require a Turtle result (CONSTRUCT and DESCRIBE).")]


@registry.command()
@with_options
def get(name: NameArgument, turtle: TurtleOption = False, *, broker: BrokerAccess) -> None:
    """Print a topic with its schema, configuration and subscriptions, or the document with a key, as JSON.

    \b
    thinwire registry get building.rooms
    thinwire registry get building.rooms --turtle > rooms.ttl
    """
    documents = run(_read(broker, load_registry))
    if turtle:
        print(describe_schema(documents, name)["turtle"])
    else:
        describe = describe_document if name.partition(".")[0] in KINDS else describe_topic
        Output(json=True).document(describe(documents, name))


@registry.command("list")
@with_options
def list_(kind: KindArgument = None, *, broker: BrokerAccess, output: Output) -> None:
    """List the topics, or the keys of one kind of document.

    \b
    thinwire registry list
    thinwire registry list subscription
    """
    if kind is None:
        answer = list_topics(run(_read(broker, load_registry)))
        output.records("topics", _COLUMNS, answer["topics"])
        for key, problem in answer["problems"].items():
            output.note(f"{key}: {problem}")
    else:
        if kind not in KINDS:
            raise ConfigError("no such kind of document", kind=kind, choose_from=list(KINDS))
        entries = run(_read(broker, lambda bucket: bucket.entries(f"{kind}.>")))
        answer = {"keys": sorted(entry.key for entry in entries)}
        output.table(f"{kind} documents", ("key",), ([found] for found in answer["keys"]))
    output.document(answer)


@registry.command()
@with_options
def query(text: QueryArgument, turtle: GraphOption = False, *, broker: BrokerAccess, output: Output) -> None:
    """Query the documents of the registry as an RDF graph in SPARQL. Its prefixes need no declaration.

    \b
    thinwire registry query 'SELECT ?name WHERE { ?schema a tw:EventSchema ; tw:name ?name }'
    thinwire registry query @coarse.rq --json
    """
    sparql = Path(text[1:]).read_text(encoding="utf-8") if text.startswith("@") else text
    answer = run(_read(broker, lambda bucket: query_registry(bucket, sparql)))
    if turtle and "turtle" not in answer:
        raise ConfigError("only CONSTRUCT and DESCRIBE return Turtle: omit --turtle, or change the query")
    if "turtle" in answer and not output.json:
        print(answer["turtle"], end="")
    elif "columns" in answer:
        output.table("answer", answer["columns"], answer["rows"])
    elif "answer" in answer:
        output.note("yes" if answer["answer"] else "no")
    if not answer.get("complete", True):
        print_status("the result is truncated; narrow the query, or use OFFSET and LIMIT")
    output.document(answer)


async def _read(broker: BrokerAccess, read: Callable[[Bucket], Awaitable[T]]) -> T:
    """Return what `read` returns for the bucket of the registry."""
    async with broker.bus() as bus:
        return await read(await open_registry(bus.broker))
