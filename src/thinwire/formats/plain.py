"""The `json` format: a partial anybody can read.

    {"@": [3, 0], "time": "2018-01-23T11:20:17", "temperature": 10.1}

`@` holds the source's alias and the events passed over; a property not named is as expected, null is absent. A
property whose own name begins with `@` gets a second one. What JSON has no word for is an object with one name:
`{"$bytes": base64}` or `{"$time": ISO 8601}`; an opaque value that looks like one is wrapped as `{"$": value}`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from thinwire.errors import CorruptFrame
from thinwire.events import Schema
from thinwire.formats.partial import Given

MAX_DEPTH = 72
"""lists and objects in one another; an opaque value may have 64"""

_PLACE = "@"
_BYTES, _INSTANT, _ITSELF = "$bytes", "$time", "$"


def encode(source: int, skip: int, values: Mapping[int, Any], schema: Schema) -> bytes:
    """The JSON of the values that travel."""
    wire = schema.wire
    document: dict[str, Any] = {_PLACE: [source, skip]}
    for index, value in values.items():
        document[_told_name(wire[index].name)] = told(value)
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def decode(body: bytes, schema: Schema, sources: int) -> Given:
    """The values of a body. Their kinds are checked where they are used."""
    try:
        document = json.loads(body, parse_constant=_no_constant)
        place = document.pop(_PLACE, None) if isinstance(document, dict) else None
        values = {name: meant(value) for name, value in document.items()} if place is not None else {}
    except (ValueError, RecursionError) as problem:
        raise CorruptFrame(f"body is not JSON: {problem}") from None
    if not isinstance(place, list) or len(place) != 2 or not all(type(n) is int and n >= 0 for n in place):
        raise CorruptFrame("body without source and skip")
    if place[0] >= sources:
        raise CorruptFrame("alias of no source", alias=place[0], sources=sources)
    if any(_deep(value) for value in values.values()):
        raise CorruptFrame("values nested too deep", limit=MAX_DEPTH)
    indexes = {_told_name(p.name): index for index, p in enumerate(schema.wire)}
    unknown = next((name for name in values if name not in indexes), None)
    if unknown is not None:
        raise CorruptFrame("a property the schema does not have", property=unknown)
    return Given(place[0], place[1], {indexes[name]: value for name, value in values.items()})


def _deep(value: Any) -> bool:
    """Do lists or objects lie in one another deeper than any value may? Pythons differ in how deep they read."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for thing in level if isinstance(thing, list | dict) for inner in _inside(thing)]
        if not level:
            return False
    return True


def _inside(thing: list[Any] | dict[str, Any]) -> Iterable[Any]:
    return thing.values() if isinstance(thing, dict) else thing


def _told_name(name: str) -> str:
    return _PLACE + name if name.startswith(_PLACE) else name


def told(value: Any) -> Any:
    """A value in JSON's own types."""
    if isinstance(value, bytes):
        return {_BYTES: base64.b64encode(value).decode("ascii")}
    if isinstance(value, datetime):
        return {_INSTANT: value.isoformat()}
    return {_ITSELF: value} if _is_marked(value) else value


def meant(value: Any) -> Any:
    """The way back; ValueError where a mark is none of ours."""
    if not _is_marked(value):
        return value
    ((mark, inner),) = value.items()
    if mark == _BYTES and isinstance(inner, str):
        return base64.b64decode(inner, validate=True)
    if mark == _INSTANT and isinstance(inner, str):
        return datetime.fromisoformat(inner)
    if mark != _ITSELF:
        raise ValueError(f"an object marked {mark!r}")
    return inner


def _is_marked(value: Any) -> bool:
    return isinstance(value, dict) and len(value) == 1 and next(iter(value)).startswith("$")


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
