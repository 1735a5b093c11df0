"""`thinwire registry get | list | query`: what the registry knows of topics, schemas, subscribers and publishers."""

from __future__ import annotations

import json as json_text
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from thinwire.brokers.protocol import Broker
from thinwire.cli.connection_options import DEFAULT_URL, NOBODY, Access, Identity, UrlOption, identified
from thinwire.cli.main import PEER_FAULT
from thinwire.cli.output import JsonOption, Output, plain
from thinwire.cli.terminal import run
from thinwire.errors import ConfigError, NobodyAnswers
from thinwire.services.registry import Registry
from thinwire.services.registry import registry_state as verbs
from thinwire.topics import topic_settings as keys
from thinwire.topics.registry_client import ask, open_registry

KINDS = (keys.TOPIC, keys.SCHEMA, keys.CONFIG, keys.SUBSCRIPTION, keys.PUBLISHER)
COLUMNS = ("topic", "version", "properties", "subscriptions", "publishers", "wanted")

registry = typer.Typer(add_completion=False, no_args_is_help=True, help="What the registry knows.")

NameArgument = Annotated[str, typer.Argument(metavar="TOPIC|KEY", help="A topic, or a key such as topic.plant.")]
KindArgument = Annotated[
    str | None, typer.Argument(metavar="KIND", help=f"Keys of one kind: {', '.join(KINDS)}. Else the topics.")
]
QueryArgument = Annotated[str, typer.Argument(metavar="SPARQL", help="The query, or @FILE.")]
TurtleOption = Annotated[bool, typer.Option("--turtle", help="The topic's schema as RDF in Turtle.")]
GraphOption = Annotated[bool, typer.Option("--turtle", help="Insist on Turtle: for CONSTRUCT and DESCRIBE.")]


@registry.command()
@identified
def get(
    name: NameArgument,
    turtle: TurtleOption = False,
    to: UrlOption = DEFAULT_URL,
    who: Identity = NOBODY,
) -> None:
    """Print everything about a topic, or the document under a key, as JSON.

    \b
    thinwire registry get building.rooms
    thinwire registry get building.rooms --turtle > rooms.ttl
    """
    is_key = name.partition(".")[0] in KINDS and not turtle
    body = {"key": name} if is_key else {"topic": name, **({"as": "turtle"} if turtle else {})}
    answer = run(_ask_or_read(Access(to, who), "get", body))
    print(answer["turtle"] if turtle else json_text.dumps(plain(answer), indent=2, ensure_ascii=False))


@registry.command("list")
@identified
def list_(
    kind: KindArgument = None,
    to: UrlOption = DEFAULT_URL,
    who: Identity = NOBODY,
    json: JsonOption = False,
) -> None:
    """List the topics, or the keys of one kind of document.

    \b
    thinwire registry list
    thinwire registry list subscription
    """
    output = Output(json)
    access = Access(to, who)
    if kind is None:
        answer = run(_topics(access))
        output.table("topics", COLUMNS, map(_cells, answer["topics"]))
        for where, problem in answer["problems"].items():
            output.note(f"{where}: {problem}")
    else:
        if kind not in KINDS:
            raise ConfigError("no such kind of document", kind=kind, choose_from=list(KINDS))
        answer = {"keys": run(_keys(access, kind))}
        output.table(f"{kind} documents", ("key",), ([found] for found in answer["keys"]))
    output.document(answer)


@registry.command()
@identified
def query(
    text: QueryArgument,
    turtle: GraphOption = False,
    to: UrlOption = DEFAULT_URL,
    who: Identity = NOBODY,
    json: JsonOption = False,
) -> None:
    """Ask the registry's graph in SPARQL; its prefixes need not be declared.

    Needs a registry that runs; leaves with 3 where none answers.

    \b
    thinwire registry query 'SELECT ?name WHERE { ?schema a tw:EventSchema ; tw:name ?name }'
    thinwire registry query @coarse.rq --json
    """
    output = Output(json)
    access = Access(to, who)
    answer = run(_query(access, _text(text)))
    if turtle and "turtle" not in answer:
        raise ConfigError("Turtle is the answer to CONSTRUCT and DESCRIBE: leave out --turtle, or ask for a graph")
    if "turtle" in answer and not json:
        print(answer["turtle"], end="")
    elif "columns" in answer:
        output.table("answer", answer["columns"], answer["rows"])
    elif "answer" in answer:
        output.note("yes" if answer["answer"] else "no")
    if not answer.get("complete", True):
        print("thinwire: the answer was cut; ask for less, or use OFFSET and LIMIT", file=sys.stderr)
    output.document(answer)


def _cells(topic: Mapping[str, Any]) -> list[Any]:
    wanted = {True: "yes", False: "no"}.get(topic["wanted"], "-")
    return [wanted if column == "wanted" else topic[column] for column in COLUMNS]


def _text(query: str) -> str:
    return Path(query[1:]).read_text(encoding="utf-8") if query.startswith("@") else query


async def _topics(access: Access) -> dict[str, Any]:
    """All topics; the registry tells them in portions."""
    answer = await _ask_or_read(access, "list", {})
    while not answer["complete"]:
        more = await _ask_or_read(access, "list", {"after": answer["topics"][-1]["topic"]})
        answer = {**more, "topics": answer["topics"] + more["topics"]}
    return answer


async def _keys(access: Access, kind: str) -> list[str]:
    async with access.bus() as bus:
        return sorted(entry.key for entry in await (await open_registry(bus.broker)).entries(f"{kind}.>"))


async def _query(access: Access, text: str) -> dict[str, Any]:
    async with access.bus() as bus:
        try:
            return await ask(bus.broker, "query", {"query": text})
        except NobodyAnswers:
            print(f"thinwire: no registry answers: start it with `thinwire up --to {access.shown}`", file=sys.stderr)
            raise typer.Exit(PEER_FAULT) from None


async def _ask_or_read(access: Access, verb: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """The registry's answer; where none runs, the one it would give."""
    async with access.bus() as bus:
        try:
            return await ask(bus.broker, verb, body)
        except NobodyAnswers:
            print("thinwire: no registry answers; this is read from its documents", file=sys.stderr)
            return await _read(bus.broker, verb, body)


async def _read(broker: Broker, verb: str, body: Mapping[str, Any]) -> dict[str, Any]:
    stand_in = Registry()
    for entry in await (await open_registry(broker)).entries():
        stand_in.apply(entry, now=0.0)
    return verbs.get(stand_in, body) if verb == "get" else verbs.listed(stand_in, body)
