"""The `json` format: a partial anybody can read.

    {"@": [3, 0], "time": "2018-01-23T11:20:17", "temperature": 10.1}

`@` holds the source's alias and the events passed over; a property not named is as expected, null is absent. A
property whose own name begins with `@` gets a second one. What JSON has no word for is an object with one name:
`{"$bytes": base64}` or `{"$time": ISO 8601}`; an opaque value that looks like one is wrapped as `{"$": value}`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from json.encoder import encode_basestring
from types import NoneType
from typing import Any

from thinwire.errors import CorruptFrame
from thinwire.schema import Schema
from thinwire.wire.partial_event import ExplicitValues

MAX_DEPTH = 72
"""lists and objects in one another; an opaque value may have 64"""

_PLACE = "@"
_BYTES, _INSTANT, _ITSELF = "$bytes", "$time", "$"


class Spelling:
    """The format for one schema, whose names are looked at once.

    >>> from thinwire.schema import Property
    >>> rooms = Spelling(Schema("rooms", [Property("t", "number", step="0.1")]))
    >>> rooms.encode(3, 0, {0: 10.1})
    b'{"@":[3,0],"t":10.1}'
    >>> rooms.decode(b'{"@":[3,0],"t":10.1}', sources=4)
    ExplicitValues(source=3, skip=0, values={0: 10.1})
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._indexes = {_encode_name(p.name): index for index, p in enumerate(schema.wire)}
        self._openings = [f",{encode_basestring(name)}:" for name in self._indexes]

    def encode(self, source: int, skip: int, values: Mapping[int, Any]) -> bytes:
        """The JSON of the values that travel."""
        parts = [f'{{"@":[{source},{skip}]']
        for index, value in values.items():
            write = _WRITERS.get(value.__class__, _write_any)
            parts += (self._openings[index], write(value))
        parts.append("}")
        return "".join(parts).encode()

    def decode(self, body: bytes, sources: int) -> ExplicitValues:
        """The values of a body. Their kinds are checked where they are used."""
        try:
            document = _document(body)
            place = document.pop(_PLACE, None) if isinstance(document, dict) else None
            values = document if place is not None else {}
            simple = _SIMPLE.issuperset(map(type, values.values()))
            if not simple:
                values = {name: meant(value) for name, value in values.items()}
        except (ValueError, RecursionError) as problem:
            raise CorruptFrame(f"body is not JSON: {problem}") from None
        source, skip = place if isinstance(place, list) and len(place) == 2 else (None, None)
        if type(source) is not int or type(skip) is not int or source < 0 or skip < 0:
            raise CorruptFrame("body without source and skip")
        if source >= sources:
            raise CorruptFrame("alias of no source", alias=source, sources=sources)
        if not simple and any(_deep(value) for value in values.values()):
            raise CorruptFrame("values nested too deep", limit=MAX_DEPTH)
        indexes = self._indexes
        try:
            return ExplicitValues(source, skip, {indexes[name]: value for name, value in values.items()})
        except KeyError as unknown:
            raise CorruptFrame("a property the schema does not have", property=unknown.args[0]) from None


def _document(body: bytes) -> Any:
    """What the JSON says; the usual way is short, because it is taken so often."""
    try:
        text = body.decode()
        document, end = _read(text)
        if end == len(text):
            return document
    except ValueError:
        pass  # not a usual one: in another encoding, or broken
    return json.loads(body, parse_constant=_no_constant)


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


def _encode_name(name: str) -> str:
    return _PLACE + name if name.startswith(_PLACE) else name


def to_json_value(value: Any) -> Any:
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


_read = json.JSONDecoder(parse_constant=_no_constant).raw_decode
_write = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def _write_any(value: Any) -> str:
    return _write(to_json_value(value))


_SIMPLE = frozenset({int, float, str, bool, NoneType})
"""what JSON values are nearly always, and mean themselves"""
_WRITERS: dict[type, Callable[[Any], str]] = {
    int: int.__repr__,
    float: float.__repr__,
    str: encode_basestring,
}
