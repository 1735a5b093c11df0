"""The `json` format of partial events.

    {"@": [3, 0], "time": "2018-01-23T11:20:17", "temperature": 10.1}

`@` contains the alias of the source and the number of suppressed events. A property that is not listed has its
predicted value; null means that the value is absent. A second `@` escapes a name that starts with `@`. Bytes and times
are objects with one member, `{"$bytes": base64}` or `{"$time": ISO 8601}`. An opaque value that is an object of this
form is wrapped: `{"$": value}`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from datetime import datetime
from json.encoder import encode_basestring
from types import NoneType
from typing import Any

from thinwire.errors import CorruptFrame
from thinwire.schema import Schema
from thinwire.wire.partial_event import ExplicitValues

MAX_DEPTH = 72
"""nested lists and objects; an opaque value may have 64"""

_POSITION = "@"
_BYTES, _TIME, _WRAPPED = "$bytes", "$time", "$"


class JsonFormat:
    """The format for one schema; names are encoded once.

    >>> from thinwire.schema import Property
    >>> rooms = JsonFormat(Schema("rooms", [Property("t", "number", step="0.1")]))
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
        parts = [f'{{"@":[{source},{skip}]']
        for index, value in values.items():
            write = _WRITERS.get(value.__class__, _write_any)
            parts += (self._openings[index], write(value))
        parts.append("}")
        return "".join(parts).encode()

    def decode(self, body: bytes, sources: int) -> ExplicitValues:
        """Return the values of a body. Their kinds are checked by the decoder."""
        try:
            document = _READER.decode(body.decode())
            position = document.pop(_POSITION, None) if isinstance(document, dict) else None
            values = document if position is not None else {}
            simple = _SIMPLE.issuperset(map(type, values.values()))
            if not simple:
                values = {name: from_json_value(value) for name, value in values.items()}
        except (ValueError, RecursionError) as problem:
            raise CorruptFrame(f"body is not JSON: {problem}") from None
        source, skip = position if isinstance(position, list) and len(position) == 2 else (None, None)
        if type(source) is not int or type(skip) is not int or source < 0 or skip < 0:
            raise CorruptFrame("body without source and skip")
        if source >= sources:
            raise CorruptFrame("unknown alias", alias=source, sources=sources)
        if not simple and any(_is_deep(value) for value in values.values()):
            raise CorruptFrame("values nested too deep", limit=MAX_DEPTH)
        indexes = self._indexes
        try:
            return ExplicitValues(source, skip, {indexes[name]: value for name, value in values.items()})
        except KeyError as unknown:
            raise CorruptFrame("unknown property", property=unknown.args[0]) from None


def _is_deep(value: Any, depth: int = MAX_DEPTH) -> bool:
    """Return whether values are nested too deep. The limit of the JSON parser differs between Python versions."""
    if not depth or not isinstance(value, list | dict):
        return not depth
    return any(_is_deep(inner, depth - 1) for inner in (value.values() if isinstance(value, dict) else value))


def _encode_name(name: str) -> str:
    return _POSITION + name if name.startswith(_POSITION) else name


def to_json_value(value: Any) -> Any:
    """Return a value in JSON types."""
    if isinstance(value, bytes):
        return {_BYTES: base64.b64encode(value).decode("ascii")}
    if isinstance(value, datetime):
        return {_TIME: value.isoformat()}
    return {_WRAPPED: value} if _is_marked(value) else value


def from_json_value(value: Any) -> Any:
    """Inverse of `to_json_value`; raise ValueError for an unknown mark."""
    if not _is_marked(value):
        return value
    ((mark, inner),) = value.items()
    if mark == _BYTES and isinstance(inner, str):
        return base64.b64decode(inner, validate=True)
    if mark == _TIME and isinstance(inner, str):
        return datetime.fromisoformat(inner)
    if mark != _WRAPPED:
        raise ValueError(f"unknown mark {mark!r}")
    return inner


def _is_marked(value: Any) -> bool:
    return isinstance(value, dict) and len(value) == 1 and next(iter(value)).startswith("$")


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_READER = json.JSONDecoder(parse_constant=_no_constant)
_write = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def _write_any(value: Any) -> str:
    return _write(to_json_value(value))


_SIMPLE = frozenset({int, float, str, bool, NoneType})
"""types that need no conversion"""
_WRITERS: dict[type, Callable[[Any], str]] = {
    int: int.__repr__,
    float: float.__repr__,
    str: encode_basestring,
}
