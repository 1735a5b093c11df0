"""The `json` format: a partial anybody can read.

    {"@": [3, 0], "time": "2018-01-23T11:20:17", "temperature": 10.1}

`@` holds the source's alias and the events passed over; a property not named is as expected, null is absent.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from thinwire.errors import CorruptFrame
from thinwire.events import Schema
from thinwire.formats.partial import Given

_PLACE = "@"
_BYTES = "$bytes"
_INSTANT = "$time"


def encode(source: int, skip: int, values: Mapping[int, Any], schema: Schema) -> bytes:
    """The JSON of the values that travel."""
    wire = schema.wire
    document: dict[str, Any] = {_PLACE: [source, skip]}
    for index, value in values.items():
        document[wire[index].name] = value
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False, default=_other).encode()


def decode(body: bytes, schema: Schema, sources: int) -> Given:
    """The values of a body. Their kinds are checked where they are used."""
    try:
        document = json.loads(body, object_hook=_back, parse_constant=_no_constant)
    except (ValueError, RecursionError) as problem:
        raise CorruptFrame(f"body is not JSON: {problem}") from None
    place = document.pop(_PLACE, None) if isinstance(document, dict) else None
    if not isinstance(place, list) or len(place) != 2 or not all(type(n) is int and n >= 0 for n in place):
        raise CorruptFrame("body without source and skip")
    if place[0] >= sources:
        raise CorruptFrame("alias of no source", alias=place[0], sources=sources)
    indexes = {p.name: index for index, p in enumerate(schema.wire)}
    unknown = next((name for name in document if name not in indexes), None)
    if unknown is not None:
        raise CorruptFrame("a property the schema does not have", property=unknown)
    return Given(place[0], place[1], {indexes[name]: value for name, value in document.items()})


def _other(value: Any) -> Any:
    if isinstance(value, bytes):
        return {_BYTES: base64.b64encode(value).decode("ascii")}
    if isinstance(value, datetime):
        return {_INSTANT: value.isoformat()}
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _back(document: dict[str, Any]) -> Any:
    if len(document) == 1:
        ((name, value),) = document.items()
        if name == _BYTES and isinstance(value, str):
            return base64.b64decode(value, validate=True)
        if name == _INSTANT and isinstance(value, str):
            return datetime.fromisoformat(value)
    return document


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
