"""Options that commands share: the broker's URL, credentials, tolerances, schema files, start positions.

>>> read_tolerances(["temperature=0.5", "humidity=1%"])
{'temperature': 0.5, 'humidity': '1%'}
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from thinwire.brokers.broker_url import open_broker, read_url
from thinwire.brokers.protocol import Broker
from thinwire.cli.option_groups import option
from thinwire.client.bus import Bus, connect
from thinwire.errors import ConfigError, UnknownTopic
from thinwire.schema import Kind, Schema
from thinwire.topics.registry_client import current_schema, open_registry
from thinwire.topics.topic_plan import read_schema_file

TOKEN_VARIABLE = "THINWIRE_TOKEN"
"""environment variable with the token; there is no option for it, because the process list would show its value"""
_FILE: dict[str, Any] = {"metavar": "FILE", "rich_help_panel": "Credentials"}


@dataclass(frozen=True)
class Credentials:
    """Files with the credentials of a client and the certificate authority of the broker."""

    token_file: Path | None = option(None, f"File with the token; default ${TOKEN_VARIABLE}.", **_FILE)
    creds: Path | None = option(None, "NATS credentials file.", **_FILE)
    ca: Path | None = option(None, "Certificate authority of the broker (PEM).", **_FILE)
    cert: Path | None = option(None, "Client certificate (PEM).", **_FILE)
    key: Path | None = option(None, "Private key of the client certificate (PEM).", **_FILE)

    def options(self) -> dict[str, str]:
        """Return the credentials as keyword arguments of `connect`."""
        options = {
            "token": self._token(),
            "credentials": self.creds,
            "ca": self.ca,
            "certificate": self.cert,
            "key": self.key,
        }
        return {name: str(value) for name, value in options.items() if value}

    def _token(self) -> str:
        if self.token_file is None:
            return os.environ.get(TOKEN_VARIABLE, "")
        token = self.token_file.read_text().strip()
        if not token:
            raise ConfigError("the token file is empty", token_file=str(self.token_file))
        return token


NO_CREDENTIALS = Credentials()
DEFAULT_URL = "nats://127.0.0.1:4222"
_URL: dict[str, Any] = {"metavar": "URL", "envvar": "THINWIRE_URL"}


@dataclass(frozen=True)
class BrokerAccess:
    url: str = option(DEFAULT_URL, "The broker.", "--to", **_URL)
    credentials: Credentials = NO_CREDENTIALS

    @property
    def redacted_url(self) -> str:
        return read_url(self.url).shown

    def bus(self, name: str = "") -> Bus:
        """Return a bus for this broker, not opened yet."""
        return connect(self.url, name=name, **self.options())

    async def open(self, name: str, stack: AsyncExitStack) -> Broker:
        """Connect to the broker. The stack closes the connection."""
        broker, _ = await open_broker(read_url(self.url), {"name": name, **self.options()}, stack)
        return broker

    def options(self) -> dict[str, Any]:
        """Return the keyword arguments of `connect`."""
        return self.credentials.options()

    def check_running(self, option: str) -> None:
        """Raise `ConfigError` unless the URL is the address of a running broker."""
        if read_url(self.url).scheme not in ("nats", "tls"):
            detail = "give the URL of a running broker: nats://host:4222 or tls://host:4222"
            raise ConfigError(detail, **{option: self.redacted_url})


@dataclass(frozen=True)
class ServersAccess(BrokerAccess):
    """Broker of a command whose option `--to` names a topic, table or folder."""

    url: str = option(DEFAULT_URL, "The broker.", "--servers", "--url", **_URL)


TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="For example building.rooms.")]
TolerancesOption = Annotated[
    list[str] | None,
    typer.Option("--tolerance", metavar="NAME=X", help="Largest error of a property; repeat for others."),
]
SchemaFileOption = Annotated[
    Path | None, typer.Option("--schema", metavar="FILE", help="Schema file: Turtle, or JSON if it ends in .json.")
]
SecondsOption = Annotated[float | None, typer.Option("--seconds", help="Exit after this many seconds.", min=0)]


@dataclass(frozen=True)
class ToleranceOptions:
    tolerance: TolerancesOption = None
    default_tolerance: float = option(0, "Tolerance of all other measurements.", metavar="X", min=0)

    def tolerances(self) -> dict[str, Any]:
        """Return the keyword arguments of publishers and subscriptions."""
        return {"tolerance": read_tolerances(self.tolerance), "default_tolerance": self.default_tolerance}

    @property
    def has_tolerances(self) -> bool:
        return any(self.tolerances().values())


def read_pairs(texts: Iterable[str] | None, option: str) -> dict[str, str]:
    """Parse repeated NAME=VALUE options.

    >>> read_pairs(["room=11.1"], "--sources")
    {'room': '11.1'}
    """
    pairs = {}
    for text in texts or ():
        name, sign, value = (part.strip() for part in text.partition("="))
        if not (name and sign and value):
            raise ConfigError("write NAME=VALUE", **{option.lstrip("-"): text})
        pairs[name] = value
    return pairs


def read_tolerances(texts: Iterable[str] | None) -> dict[str, float | str]:
    """Parse `--tolerance` options: numbers, or percentages of a property's range."""
    tolerances: dict[str, float | str] = {}
    for name, value in read_pairs(texts, "--tolerance").items():
        try:
            tolerances[name] = value if value.endswith("%") else float(value)
        except ValueError:
            raise ConfigError("a tolerance is a number, or a percentage such as 1%", **{name: value}) from None
    return tolerances


def read_names(text: str | None) -> list[str] | None:
    """Parse a comma-separated list."""
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def read_schema(path: Path | None) -> Schema | None:
    """Read the schema in a file; None without a file."""
    return None if path is None else read_schema_file(path)


def read_start(text: str) -> str | int | datetime:
    """Parse a start position.

    >>> read_start("earliest"), read_start("17"), read_start("2024-05-01T10:00:00Z").year
    ('earliest', 17, 2024)
    """
    if text in ("latest", "earliest"):
        return text
    try:
        return int(text) if text.isdigit() else datetime.fromisoformat(text)
    except ValueError:
        detail = "start is latest, earliest, an offset, or a time such as 2024-05-01T10:00:00Z"
        raise ConfigError(detail, start=text) from None


async def fetch_schema(bus: Bus, topic: str) -> Schema:
    """Fetch the registered schema of a topic."""
    try:
        return await current_schema(await open_registry(bus.broker), topic)
    except UnknownTopic:
        advice = (
            "register one with `thinwire pub TOPIC --infer`, or pass --schema FILE; "
            "`thinwire registry list` lists the registered topics"
        )
        raise UnknownTopic(advice, topic=topic) from None


def read_sources(schema: Schema, sources: Mapping[str, str]) -> dict[str, list[Any]]:
    """Convert dimension values from command-line text to the types of the schema.

    >>> from thinwire.schema import Property
    >>> rooms = Schema("rooms", [Property("floor", "integer", "dimension"), Property("t", "number", step="0.1")])
    >>> read_sources(rooms, {"floor": "1,2"})
    {'floor': [1, 2]}
    """
    values: dict[str, list[Any]] = {}
    for name, text in sources.items():
        kind = schema[name].kind if name in schema else Kind.STRING
        values[name] = [_read_value(kind, name, part) for part in read_names(text) or ()]
    return values


def _read_value(kind: Kind, name: str, text: str) -> Any:
    if kind is Kind.BOOLEAN and text in ("true", "false"):
        return text == "true"
    if kind is not Kind.INTEGER:
        return text
    try:
        return int(text)
    except ValueError:
        raise ConfigError("this dimension is an integer", sources=f"{name}={text}") from None
