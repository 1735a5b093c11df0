"""Who calls: the options by which a verb says so at a broker, written once for all verbs.

A verb takes them as one argument, `who`, and `identified` turns that into options of the command line:

>>> import inspect
>>> @identified
... def greet(to: str, who: Identity = NOBODY) -> None: ...
>>> list(inspect.signature(greet).parameters)
['to', 'token_file', 'creds', 'ca', 'cert', 'key']

What the verbs on a live broker share: where it is, who calls, and what the common options say.

>>> pairs(["temperature=0.5", "humidity=1%"], "--tolerance")
{'temperature': '0.5', 'humidity': '1%'}
>>> tolerances(["temperature=0.5", "humidity=1%"])
{'temperature': 0.5, 'humidity': '1%'}

What the options of `thinwire sub` mean: where to begin, and which sources.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from thinwire.brokers.broker_url import read_url
from thinwire.client.bus import Bus, connect
from thinwire.errors import ConfigError, UnknownTopic
from thinwire.schema import Kind, Schema
from thinwire.topics.registry_client import current_schema, open_registry
from thinwire.topics.topic_plan import schema_in

TOKEN_VARIABLE = "THINWIRE_TOKEN"
"""names the variable; a token on the command line would show in the list of processes"""
_FILE: dict[str, Any] = {"metavar": "FILE", "rich_help_panel": "Who you are"}
_OPTIONS = {
    "token_file": typer.Option("--token-file", help=f"A file with the token, else ${TOKEN_VARIABLE}.", **_FILE),
    "creds": typer.Option("--creds", help="A NATS credentials file.", **_FILE),
    "ca": typer.Option("--ca", help="Who signed the broker's certificate (PEM).", **_FILE),
    "cert": typer.Option("--cert", help="The certificate to show (PEM).", **_FILE),
    "key": typer.Option("--key", help="Its private key (PEM).", **_FILE),
}
_WHO = "who"


@dataclass(frozen=True)
class Identity:
    """Files that say who somebody is, and whom to believe."""

    token_file: Path | None = None
    creds: Path | None = None
    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None

    def options(self) -> dict[str, str]:
        """What a connection is told of it."""
        given = {
            "token": self._token(),
            "credentials": self.creds,
            "ca": self.ca,
            "certificate": self.cert,
            "key": self.key,
        }
        return {name: str(value) for name, value in given.items() if value}

    def _token(self) -> str:
        if self.token_file is None:
            return os.environ.get(TOKEN_VARIABLE, "")
        token = self.token_file.read_text().strip()
        if not token:
            raise ConfigError("there is no token in it", token_file=str(self.token_file))
        return token


NOBODY = Identity()


def identified(verb: Callable[..., None]) -> Callable[..., None]:
    """The verb with an option for each part of its argument `who`."""
    taken = inspect.signature(verb, eval_str=True)

    @wraps(verb)
    def with_options(**given: Any) -> None:
        verb(who=Identity(**{name: given.pop(name) for name in _OPTIONS}), **given)

    shown = taken.replace(parameters=list(_spread(taken)))
    with_options.__signature__ = shown  # type: ignore[attr-defined]
    with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in shown.parameters.values()}
    return with_options


def _spread(taken: inspect.Signature) -> Iterator[inspect.Parameter]:
    for parameter in taken.parameters.values():
        if parameter.name == _WHO:
            yield from (
                parameter.replace(name=name, annotation=Annotated[Path | None, option], default=None)
                for name, option in _OPTIONS.items()
            )
        else:
            yield parameter


DEFAULT_URL = "nats://127.0.0.1:4222"

UrlOption = Annotated[str, typer.Option("--to", metavar="URL", envvar="THINWIRE_URL", help="The broker.")]
TolerancesOption = Annotated[
    list[str] | None,
    typer.Option("--tolerance", metavar="NAME=X", help="How far this property may be off; repeat it for others."),
]
DefaultToleranceOption = Annotated[
    float, typer.Option("--default-tolerance", metavar="X", min=0, help="The same for all other measurements.")
]
SchemaFileOption = Annotated[
    Path | None, typer.Option("--schema", metavar="FILE", help="The schema, in Turtle, or JSON if it ends in .json.")
]


@dataclass(frozen=True)
class Access:
    """Where the broker is, and how to be known there."""

    url: str
    who: Identity = NOBODY

    @property
    def shown(self) -> str:
        """The address without secrets."""
        return read_url(self.url).shown

    def bus(self, name: str = "") -> Bus:
        """A bus there, not open yet."""
        return connect(self.url, name=name, **self.options())

    def options(self) -> dict[str, Any]:
        """What the connection is told beside its address."""
        return self.who.options()


def pairs(texts: Iterable[str] | None, option: str) -> dict[str, str]:
    """What NAME=VALUE options say."""
    found = {}
    for text in texts or ():
        name, sign, value = (part.strip() for part in text.partition("="))
        if not (name and sign and value):
            raise ConfigError("write NAME=VALUE", **{option.lstrip("-"): text})
        found[name] = value
    return found


def tolerances(texts: Iterable[str] | None) -> dict[str, float | str]:
    """What `--tolerance` options say: numbers, or percentages of a property's range."""
    found: dict[str, float | str] = {}
    for name, value in pairs(texts, "--tolerance").items():
        try:
            found[name] = value if value.endswith("%") else float(value)
        except ValueError:
            raise ConfigError("a tolerance is a number, or a percentage such as 1%", **{name: value}) from None
    return found


def names(text: str | None) -> list[str] | None:
    """A list joined by commas."""
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def read_schema(path: Path | None) -> Schema | None:
    """The schema in a file; None where no file is given."""
    return None if path is None else schema_in(path)


_STARTS = "latest, earliest, an offset, or a time as in 2024-05-01T10:00:00Z"


def read_start(text: str) -> str | int | datetime:
    """Where to begin.

    >>> read_start("earliest"), read_start("17"), read_start("2024-05-01T10:00:00Z").year
    ('earliest', 17, 2024)
    """
    if text in ("latest", "earliest"):
        return text
    try:
        return int(text) if text.isdigit() else datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"start is {_STARTS}", start=text) from None


async def schema_of(bus: Bus, topic: str) -> Schema:
    """The registered schema of a topic."""
    try:
        return await current_schema(await open_registry(bus.broker), topic)
    except UnknownTopic:
        way = "`thinwire pub TOPIC --infer` registers one, --schema FILE gives it, `thinwire registry list` shows all"
        raise UnknownTopic(way, topic=topic) from None


def chosen_sources(schema: Schema, sources: Mapping[str, str]) -> dict[str, list[Any]]:
    """Values of dimensions as events have them: on the command line everything is text.

    >>> from thinwire.schema import Property
    >>> rooms = Schema("rooms", [Property("floor", "integer", "dimension"), Property("t", "number", step="0.1")])
    >>> chosen_sources(rooms, {"floor": "1,2"})
    {'floor': [1, 2]}
    """
    found: dict[str, list[Any]] = {}
    for name, text in sources.items():
        kind = schema[name].kind if name in schema else Kind.STRING
        found[name] = [_value(kind, name, part) for part in names(text) or ()]
    return found


def _value(kind: Kind, name: str, text: str) -> Any:
    if kind is Kind.BOOLEAN and text in ("true", "false"):
        return text == "true"
    if kind is not Kind.INTEGER:
        return text
    try:
        return int(text)
    except ValueError:
        raise ConfigError("this dimension is a whole number", sources=f"{name}={text}") from None
