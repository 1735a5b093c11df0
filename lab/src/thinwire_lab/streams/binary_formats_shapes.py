"""What a property becomes in a format with types of its own; Avro and Thrift agree on it."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from functools import wraps
from typing import TypeVar

from thinwire.schema import Kind, Property, Schema

T = TypeVar("T")

_KEPT = 64


class Shape(Enum):
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
    Kind.BOOLEAN: Shape.BOOLEAN,
    Kind.INTEGER: Shape.LONG,
    Kind.NUMBER: Shape.DOUBLE,
    Kind.FLOAT: Shape.DOUBLE,
    Kind.STRING: Shape.TEXT,
    Kind.GEO: Shape.DOUBLES,
    Kind.ARRAY: Shape.DOUBLES,
    Kind.OPAQUE: Shape.BYTES,
}


def shape(p: Property) -> Shape:
    """The type a user would naturally choose.

    A number is a double, as it is in every program that reads it. An enum that may grow has to be a text.

    >>> shape(Property("temperature", "number", step="0.1")), shape(Property("mode", "enum", members=["ON"]))
    (<Shape.DOUBLE: 3>, <Shape.TEXT: 5>)
    """
    if p.kind is Kind.ENUM:
        return Shape.MEMBER if p.closed else Shape.TEXT
    if p.kind is Kind.TIMESTAMP:
        return _instant(p)
    return _OF_KIND[p.kind]


def _instant(p: Property) -> Shape:
    if p.form == "datetime":
        return Shape.INSTANT
    if p.form and p.form.startswith("iso"):
        return Shape.TEXT
    return Shape.LONG if p.step is None or p.step.denominator == 1 else Shape.DOUBLE


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
