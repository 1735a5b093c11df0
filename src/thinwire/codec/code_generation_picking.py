"""Picking a schema's values out of an event that a decoder handed out, which may carry more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from thinwire.codec.code_generation import define
from thinwire.schema import Schema


def place(path: str) -> str:
    """Where a value stands in an event with its objects, as an expression.

    >>> place("oil.level")
    "event['oil']['level']"
    """
    return "event" + "".join(f"[{part!r}]" for part in path.split("."))


def picker(schema: Schema) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    """The function from an event to the schema's values by path; confidential ones are not there to be had.

    >>> from thinwire.schema import Property
    >>> pick = picker(Schema("plant", [Property("oil.level", "integer")]))
    >>> pick({"oil": {"level": 3, "colour": "red"}, "speed": 7})
    {'oil.level': 3}
    """
    if not schema.nested:
        return lambda event: event
    items = ", ".join(f"{p.name!r}: {place(p.name)}" for p in schema if not p.confidential)
    code: Callable[[Mapping[str, Any]], Mapping[str, Any]] = define("pick", f"def pick(event): return {{{items}}}", {})
    return code
