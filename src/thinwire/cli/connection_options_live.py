"""What the verbs on a live broker share: where it is, who calls, and what the common options say.

>>> pairs(["temperature=0.5", "humidity=1%"], "--tolerance")
{'temperature': '0.5', 'humidity': '1%'}
>>> tolerances(["temperature=0.5", "humidity=1%"])
{'temperature': 0.5, 'humidity': '1%'}
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from thinwire.brokers.broker_url import read_url
from thinwire.cli.connection_options import NOBODY, Identity
from thinwire.client.bus import Bus, connect
from thinwire.errors import ConfigError
from thinwire.schema import Schema
from thinwire.topics.topic_plan import schema_in

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
