"""Avro and Thrift, as baselines: the binary body of one record or struct per event, without schema or file header.

Thrift's binary protocol is implemented here, so that no code generator is needed: for each field one byte of type and
two bytes of field number, big-endian numbers, a four-byte length before text, and a zero byte at the end of the struct.
"""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from functools import wraps
from typing import Any, NamedTuple, TypeVar

import fastavro

from thinwire.errors import WrongType
from thinwire.schema import Kind, Property, Schema
from thinwire.schema.event import flatten
from thinwire_lab.errors import FullEventsOnly
from thinwire_lab.streams.text_formats import to_text

T = TypeVar("T")

_CACHED = 64
"""schemas whose writers are cached"""


class FormatType(Enum):
    """The types that a schema language offers for a property."""

    BOOLEAN = auto()
    LONG = auto()
    DOUBLE = auto()
    MEMBER = auto()
    """an enum with a closed list of members"""
    TEXT = auto()
    INSTANT = auto()
    """a datetime, in microseconds"""
    DOUBLES = auto()
    BYTES = auto()
    """bytes; any other value as JSON"""


_OF_KIND = {
    Kind.BOOLEAN: FormatType.BOOLEAN,
    Kind.INTEGER: FormatType.LONG,
    Kind.NUMBER: FormatType.DOUBLE,
    Kind.FLOAT: FormatType.DOUBLE,
    Kind.STRING: FormatType.TEXT,
    Kind.GEO: FormatType.DOUBLES,
    Kind.ARRAY: FormatType.DOUBLES,
    Kind.OPAQUE: FormatType.BYTES,
}


def format_type(p: Property) -> FormatType:
    """Return the type that a user would choose: double for a number, text for an enum that may grow.

    >>> format_type(Property("t", "number", step="0.1")), format_type(Property("mode", "enum", members=["ON"]))
    (<FormatType.DOUBLE: 3>, <FormatType.TEXT: 5>)
    """
    if p.kind is Kind.ENUM:
        return FormatType.MEMBER if p.closed else FormatType.TEXT
    if p.kind is Kind.TIMESTAMP:
        return _timestamp_type(p)
    return _OF_KIND[p.kind]


def _timestamp_type(p: Property) -> FormatType:
    if p.form == "datetime":
        return FormatType.INSTANT
    if p.form and p.form.startswith("iso"):
        return FormatType.TEXT
    return FormatType.LONG if p.step is None or p.step.denominator == 1 else FormatType.DOUBLE


def once_per_schema(prepare: Callable[[Schema], T]) -> Callable[[Schema], T]:
    """Cache the result for each schema, because preparing costs far more than writing an event."""
    cache: dict[bytes, T] = {}

    @wraps(prepare)
    def prepared(schema: Schema) -> T:
        if schema.fingerprint not in cache:
            if len(cache) >= _CACHED:
                cache.clear()
            cache[schema.fingerprint] = prepare(schema)
        return cache[schema.fingerprint]

    return prepared


_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TYPES: dict[FormatType, Any] = {
    FormatType.BOOLEAN: "boolean",
    FormatType.LONG: "long",
    FormatType.DOUBLE: "double",
    FormatType.TEXT: "string",
    FormatType.INSTANT: {"type": "long", "logicalType": "timestamp-micros"},
    FormatType.DOUBLES: {"type": "array", "items": "double"},
    FormatType.BYTES: "bytes",
}


class _Writer(NamedTuple):
    full: Any
    partial: Any
    fields: tuple[tuple[str, str, FormatType], ...]
    """path, field name and type of each property"""


def to_avro(event: Mapping[str, Any], schema: Schema) -> bytes:
    """Return the event as a record of `record_type`.

    A partial event is a record of unions with null, one byte more for every property; a reader must know which of the
    two a stream contains.
    """
    flat = flatten(event, schema)
    writer = _writer(schema)
    body = io.BytesIO()
    try:
        datum = {field: _value(flat.get(path), kind) for path, field, kind in writer.fields}
        parsed = writer.partial if None in datum.values() else writer.full
        fastavro.schemaless_writer(body, parsed, datum)
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        raise WrongType(f"Avro cannot encode this event: {error}", schema=schema.name) from None
    return body.getvalue()


def record_type(schema: Schema, *, partial: bool = False) -> dict[str, Any]:
    """Return the Avro schema: a field for every property, in order; for partial events each can be null.

    >>> record_type(Schema("rooms", [Property("heat", "number", step="0.1")]), partial=True)["fields"]
    [{'name': 'heat', 'type': ['null', 'double']}]
    """
    fields = []
    for index, p in enumerate(schema):
        name = p.name if _WORD.fullmatch(p.name) else f"{re.sub('[^A-Za-z0-9_]', '_', p.name)}_{index}"
        name = name if _WORD.fullmatch(name) else f"_{name}"
        kind = _type(p, index)
        fields.append({"name": name, "type": ["null", kind] if partial else kind})
    return {"type": "record", "name": "Event", "fields": fields}


def _type(p: Property, index: int) -> Any:
    if format_type(p) is not FormatType.MEMBER:
        return _TYPES[format_type(p)]
    if all(map(_WORD.fullmatch, p.members)):
        return {"type": "enum", "name": f"Members{index}", "symbols": list(p.members)}
    return "string"


def _value(value: Any, kind: FormatType) -> Any:
    if kind is FormatType.DOUBLES and value is not None:
        return list(value)
    if kind is FormatType.BYTES and value is not None and not isinstance(value, bytes):
        return to_text(value).encode()
    return value


@once_per_schema
def _writer(schema: Schema) -> _Writer:
    parse = fastavro.parse_schema
    full = record_type(schema)
    fields = tuple((p.name, field["name"], format_type(p)) for p, field in zip(schema, full["fields"], strict=True))
    return _Writer(parse(full), parse(record_type(schema, partial=True)), fields)


BOOL, DOUBLE, I32, I64, STRING, LIST = 2, 4, 8, 10, 11, 15
STOP = b"\x00"

_TYPES_THRIFT = {
    FormatType.BOOLEAN: BOOL,
    FormatType.LONG: I64,
    FormatType.DOUBLE: DOUBLE,
    FormatType.MEMBER: I32,
    FormatType.TEXT: STRING,
    FormatType.INSTANT: I64,
    FormatType.DOUBLES: LIST,
    FormatType.BYTES: STRING,
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_thrift(event: Mapping[str, Any], schema: Schema) -> bytes:
    """Return the event as a struct, with fields numbered from 1 in the order of the schema. Full events only.

    >>> to_thrift({"on": True, "heat": 20.5}, Schema("rooms", [Property("on", "boolean"),
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
        except (struct.error, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise WrongType(f"Thrift cannot encode this value: {error}", property=name, value=value) from None
    return b"".join(parts) + STOP


@once_per_schema
def _fields(schema: Schema) -> list[tuple[str, bytes, Callable[[Any], bytes]]]:
    """Return path, bytes before the value and writer of the value for each property."""
    heads = [struct.pack(">bh", _TYPES_THRIFT[format_type(p)], number) for number, p in enumerate(schema, 1)]
    return [(p.name, head, _value_writer(p)) for p, head in zip(schema, heads, strict=True)]


def _value_writer(p: Property) -> Callable[[Any], bytes]:
    if format_type(p) is FormatType.MEMBER:
        return lambda value: struct.pack(">i", p.members.index(value))
    return _WRITERS[format_type(p)]


def _instant_thrift(value: datetime) -> bytes:
    return struct.pack(">q", (value - _EPOCH) // timedelta(microseconds=1))


def _doubles(values: Sequence[float]) -> bytes:
    return struct.pack(f">bi{len(values)}d", DOUBLE, len(values), *values)


def _text(value: str) -> bytes:
    return _counted(value.encode())


def _opaque(value: Any) -> bytes:
    return _counted(value if isinstance(value, bytes) else to_text(value).encode())


def _counted(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


_WRITERS: dict[FormatType, Callable[[Any], bytes]] = {
    FormatType.BOOLEAN: struct.Struct(">?").pack,
    FormatType.LONG: struct.Struct(">q").pack,
    FormatType.DOUBLE: struct.Struct(">d").pack,
    FormatType.TEXT: _text,
    FormatType.INSTANT: _instant_thrift,
    FormatType.DOUBLES: _doubles,
    FormatType.BYTES: _opaque,
}
