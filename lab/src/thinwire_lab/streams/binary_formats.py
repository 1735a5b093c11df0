"""Avro: the binary body of one record an event, without schema or file header.

What a property becomes in a format with types of its own; Avro and Thrift agree on it.

Thrift's binary protocol: a struct whose fields carry a type, a number and a value.

Written by hand after the protocol's specification, so that no code generator is needed: per field one byte of type and
two of field number, numbers big-endian, texts behind a four-byte length, one zero byte at the end of the struct.
"""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from thinwire.errors import MissingExtra, WrongType
from thinwire.schema import Kind, Property, Schema
from thinwire.schema.event import flatten
from thinwire_lab.errors import FullEventsOnly
from thinwire_lab.streams import text_formats as plain_json

if TYPE_CHECKING:
    from types import ModuleType


T = TypeVar("T")

_KEPT = 64


class FormatType(Enum):
    """The types that a schema language offers for a property."""

    BOOLEAN = auto()
    LONG = auto()
    DOUBLE = auto()
    MEMBER = auto()
    """an enum whose members are all known"""
    TEXT = auto()
    INSTANT = auto()
    """a datetime, in microseconds"""
    DOUBLES = auto()
    BYTES = auto()
    """bytes as they are, any other value as JSON"""


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


def shape(p: Property) -> FormatType:
    """The type a user would naturally choose.

    A number is a double, as it is in every program that reads it. An enum that may grow has to be a text.

    >>> shape(Property("temperature", "number", step="0.1")), shape(Property("mode", "enum", members=["ON"]))
    (<FormatType.DOUBLE: 3>, <FormatType.TEXT: 5>)
    """
    if p.kind is Kind.ENUM:
        return FormatType.MEMBER if p.closed else FormatType.TEXT
    if p.kind is Kind.TIMESTAMP:
        return _instant(p)
    return _OF_KIND[p.kind]


def _instant(p: Property) -> FormatType:
    if p.form == "datetime":
        return FormatType.INSTANT
    if p.form and p.form.startswith("iso"):
        return FormatType.TEXT
    return FormatType.LONG if p.step is None or p.step.denominator == 1 else FormatType.DOUBLE


def once_per_schema(prepare: Callable[[Schema], T]) -> Callable[[Schema], T]:
    """Keep what was prepared for a schema under its fingerprint: preparing costs far more than writing an event."""
    kept: dict[bytes, T] = {}

    @wraps(prepare)
    def prepared(schema: Schema) -> T:
        if schema.fingerprint not in kept:
            if len(kept) >= _KEPT:
                kept.clear()
            kept[schema.fingerprint] = prepare(schema)
        return kept[schema.fingerprint]

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
    """per property its path, the name of its field and its shape"""


def to_avro(event: Mapping[str, Any], schema: Schema) -> bytes:
    """The event as the record `record_type` describes.

    An event with all its values is a plain record. One with values missing is a record of unions with null, a byte
    more for every property of the schema; whoever reads must know which of the two a stream carries.
    """
    flat = flatten(event, schema)
    writer = _writer(schema)
    body = io.BytesIO()
    try:
        datum = {field: _value(flat.get(path), kind) for path, field, kind in writer.fields}
        parsed = writer.partial if None in datum.values() else writer.full
        _fastavro().schemaless_writer(body, parsed, datum)
    except (TypeError, ValueError, OverflowError, AttributeError) as problem:
        raise WrongType(f"Avro cannot carry this event: {problem}", schema=schema.name) from None
    return body.getvalue()


def record_type(schema: Schema, *, partial: bool = False) -> dict[str, Any]:
    """The Avro schema: a field for every property, in order; for partial events each may be null.

    >>> record_type(Schema("rooms", [Property("heat", "number", step="0.1")]), partial=True)["fields"]
    [{'name': 'heat', 'type': ['null', 'double']}]
    """
    fields = []
    for place, p in enumerate(schema):
        name = p.name if _WORD.fullmatch(p.name) else f"{re.sub('[^A-Za-z0-9_]', '_', p.name)}_{place}"
        name = name if _WORD.fullmatch(name) else f"_{name}"
        kind = _type(p, place)
        fields.append({"name": name, "type": ["null", kind] if partial else kind})
    return {"type": "record", "name": "Event", "fields": fields}


def _type(p: Property, place: int) -> Any:
    if shape(p) is not FormatType.MEMBER:
        return _TYPES[shape(p)]
    if all(map(_WORD.fullmatch, p.members)):
        return {"type": "enum", "name": f"Members{place}", "symbols": list(p.members)}
    return "string"


def _value(value: Any, kind: FormatType) -> Any:
    if kind is FormatType.DOUBLES and value is not None:
        return list(value)
    if kind is FormatType.BYTES and value is not None and not isinstance(value, bytes):
        return plain_json.text(value).encode()
    return value


@once_per_schema
def _writer(schema: Schema) -> _Writer:
    parse = _fastavro().parse_schema
    full = record_type(schema)
    fields = tuple((p.name, field["name"], shape(p)) for p, field in zip(schema, full["fields"], strict=True))
    return _Writer(parse(full), parse(record_type(schema, partial=True)), fields)


def _fastavro() -> ModuleType:
    try:
        import fastavro
    except ImportError:
        raise MissingExtra("Avro sizes need fastavro", extra="lab") from None
    return fastavro


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
    """The event as a struct; fields are numbered from 1 in the order of the schema. Full events only.

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
        except (struct.error, TypeError, ValueError, AttributeError, OverflowError) as problem:
            raise WrongType(f"Thrift cannot carry this value: {problem}", property=name, value=value) from None
    return b"".join(parts) + STOP


@once_per_schema
def _fields(schema: Schema) -> list[tuple[str, bytes, Callable[[Any], bytes]]]:
    """Per property its path, the bytes before its value and the function that writes the value."""
    heads = [struct.pack(">bh", _TYPES_THRIFT[shape(p)], number) for number, p in enumerate(schema, 1)]
    return [(p.name, head, _value_writer(p)) for p, head in zip(schema, heads, strict=True)]


def _value_writer(p: Property) -> Callable[[Any], bytes]:
    if shape(p) is FormatType.MEMBER:
        return lambda value: struct.pack(">i", p.members.index(value))
    return _WRITERS[shape(p)]


def _instant_thrift(value: datetime) -> bytes:
    return struct.pack(">q", (value - _EPOCH) // timedelta(microseconds=1))


def _doubles(values: Sequence[float]) -> bytes:
    return struct.pack(f">bi{len(values)}d", DOUBLE, len(values), *values)


def _text(value: str) -> bytes:
    return _counted(value.encode())


def _opaque(value: Any) -> bytes:
    return _counted(value if isinstance(value, bytes) else plain_json.text(value).encode())


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
