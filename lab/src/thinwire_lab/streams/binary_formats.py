"""Avro: the binary body of one record an event, without schema or file header."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from thinwire.errors import MissingExtra, WrongType
from thinwire.schema import Property, Schema
from thinwire.schema.event_paths import flatten
from thinwire_lab.streams import text_formats_plain_json as plain_json
from thinwire_lab.streams.binary_formats_shapes import Shape, once_per_schema, shape

if TYPE_CHECKING:
    from types import ModuleType

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TYPES: dict[Shape, Any] = {
    Shape.BOOLEAN: "boolean",
    Shape.LONG: "long",
    Shape.DOUBLE: "double",
    Shape.TEXT: "string",
    Shape.INSTANT: {"type": "long", "logicalType": "timestamp-micros"},
    Shape.DOUBLES: {"type": "array", "items": "double"},
    Shape.BYTES: "bytes",
}


class _Writer(NamedTuple):
    full: Any
    partial: Any
    fields: tuple[tuple[str, str, Shape], ...]
    """per property its path, the name of its field and its shape"""


def encode(event: Mapping[str, Any], schema: Schema) -> bytes:
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
    if shape(p) is not Shape.MEMBER:
        return _TYPES[shape(p)]
    if all(map(_WORD.fullmatch, p.members)):
        return {"type": "enum", "name": f"Members{place}", "symbols": list(p.members)}
    return "string"


def _value(value: Any, kind: Shape) -> Any:
    if kind is Shape.DOUBLES and value is not None:
        return list(value)
    if kind is Shape.BYTES and value is not None and not isinstance(value, bytes):
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
        raise MissingExtra("Avro sizes need fastavro", extra="evaluation") from None
    return fastavro
