"""What the options of `thinwire sub` mean: where to begin, and which sources."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from thinwire.cli.connection_options_live import names
from thinwire.client.bus import Bus
from thinwire.errors import ConfigError, UnknownTopic
from thinwire.schema import Kind, Schema
from thinwire.topics.registry_client import current_schema, open_registry

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
