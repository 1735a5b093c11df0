"""Thrift's binary protocol: a struct whose fields carry a type, a number and a value.

Written by hand after the protocol's specification, so that no code generator is needed: per field one byte of type and
two of field number, numbers big-endian, texts behind a four-byte length, one zero byte at the end of the struct.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from thinwire.errors import FullEventsOnly, WrongType
from thinwire.schema import Property, Schema
from thinwire.schema.event_paths import flatten
from thinwire_lab.streams import text_formats_plain_json as plain_json
from thinwire_lab.streams.binary_formats_shapes import Shape, once_per_schema, shape

BOOL, DOUBLE, I32, I64, STRING, LIST = 2, 4, 8, 10, 11, 15
STOP = b"\x00"

_TYPES = {
    Shape.BOOLEAN: BOOL,
    Shape.LONG: I64,
    Shape.DOUBLE: DOUBLE,
    Shape.MEMBER: I32,
    Shape.TEXT: STRING,
    Shape.INSTANT: I64,
    Shape.DOUBLES: LIST,
    Shape.BYTES: STRING,
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def encode(event: Mapping[str, Any], schema: Schema) -> bytes:
    """The event as a struct; fields are numbered from 1 in the order of the schema. Full events only.

    >>> encode({"on": True, "heat": 20.5}, Schema("rooms", [Property("on", "boolean"),
    ...     Property("heat", "number", step="0.1")])).hex(" ", 3)
    '02 000101 040002 403480 000000 000000'
    """
    flat = flatten(event, schema)
    parts = []
    for name, head, write in _fields(schema):
        value = flat.get(name)
        if value is None:
            raise FullEventsOnly(format="thrift", property=name, schema=schema.name)
        try:
            parts.append(head + write(value))
        except (struct.error, TypeError, ValueError, AttributeError, OverflowError) as problem:
            raise WrongType(f"Thrift cannot carry this value: {problem}", property=name, value=value) from None
    return b"".join(parts) + STOP


@once_per_schema
def _fields(schema: Schema) -> list[tuple[str, bytes, Callable[[Any], bytes]]]:
    """Per property its path, the bytes before its value and the function that writes the value."""
    heads = [struct.pack(">bh", _TYPES[shape(p)], number) for number, p in enumerate(schema, 1)]
    return [(p.name, head, _value_writer(p)) for p, head in zip(schema, heads, strict=True)]


def _value_writer(p: Property) -> Callable[[Any], bytes]:
    if shape(p) is Shape.MEMBER:
        return lambda value: struct.pack(">i", p.members.index(value))
    return _WRITERS[shape(p)]


def _instant(value: datetime) -> bytes:
    return struct.pack(">q", (value - _EPOCH) // timedelta(microseconds=1))


def _doubles(values: Sequence[float]) -> bytes:
    return struct.pack(f">bi{len(values)}d", DOUBLE, len(values), *values)


def _text(value: str) -> bytes:
    return _counted(value.encode())


def _opaque(value: Any) -> bytes:
    return _counted(value if isinstance(value, bytes) else plain_json.text(value).encode())


def _counted(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


_WRITERS: dict[Shape, Callable[[Any], bytes]] = {
    Shape.BOOLEAN: struct.Struct(">?").pack,
    Shape.LONG: struct.Struct(">q").pack,
    Shape.DOUBLE: struct.Struct(">d").pack,
    Shape.TEXT: _text,
    Shape.INSTANT: _instant,
    Shape.DOUBLES: _doubles,
    Shape.BYTES: _opaque,
}
