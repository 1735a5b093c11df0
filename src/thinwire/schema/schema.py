"""Schemas: the ordered properties of a topic's events, under one fingerprint.

The events of a topic without a schema are bytes. Internally it has the opaque schema, with one property for the bytes.

>>> opaque("machine.raw").wire[0].name, is_opaque(opaque("machine.raw"))
('payload', True)
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from hashlib import sha256
from typing import Any

from thinwire.errors import SchemaError, UnknownProperty
from thinwire.schema.kind import Kind
from thinwire.schema.property import MAX_NAME, Property, Role

MAX_PROPERTIES = 1_024
IDENTIFYING_KINDS = frozenset({Kind.BOOLEAN, Kind.INTEGER, Kind.ENUM, Kind.STRING})
"""kinds of dimensions"""


@dataclass(frozen=True)
class Schema:
    """The properties of a topic's events.

    >>> rooms = Schema("building.rooms", [
    ...     Property("time", "timestamp", "header", form="iso:T0"),
    ...     Property("sensor", "string", "dimension"),
    ...     Property("temperature", "number", step="0.1", minimum=0, maximum=50),
    ... ])
    >>> rooms.dimensions[0].name, rooms.wire[1].name, rooms.time.name
    ('sensor', 'temperature', 'time')
    """

    name: str
    properties: tuple[Property, ...]
    version: int = 1

    def __init__(self, name: str, properties: Sequence[Property], version: int = 1) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "properties", tuple(properties))
        object.__setattr__(self, "version", version)
        self._check()

    def __iter__(self) -> Iterator[Property]:
        return iter(self.properties)

    def __getitem__(self, name: str) -> Property:
        try:
            return self._by_name[name]
        except KeyError:
            raise UnknownProperty(property=name, schema=self.name, known=sorted(self._by_name)) from None

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    @cached_property
    def _by_name(self) -> dict[str, Property]:
        return {p.name: p for p in self.properties}

    @cached_property
    def dimensions(self) -> tuple[Property, ...]:
        """The properties that identify a source."""
        return tuple(p for p in self.properties if p.role is Role.DIMENSION)

    @cached_property
    def wire(self) -> tuple[Property, ...]:
        """The properties that frames can contain: all but dimensions and confidential ones, in order."""
        return tuple(p for p in self.properties if p.role is not Role.DIMENSION and not p.confidential)

    @cached_property
    def time(self) -> Property | None:
        """The first timestamp among the header properties, if any."""
        stamps = (p for p in self.wire if p.kind is Kind.TIMESTAMP and p.role is Role.HEADER)
        return next(stamps, None)

    @cached_property
    def nested(self) -> bool:
        """Whether a property is inside a nested object."""
        return any("." in p.name for p in self.properties)

    @cached_property
    def tree(self) -> dict[str, Any]:
        """The property names as nested dicts; the value of a leaf is its path."""
        root: dict[str, Any] = {}
        for p in self.properties:
            *objects, leaf = p.name.split(".")
            reduce(lambda node, part: node.setdefault(part, {}), objects, root)[leaf] = p.name
        return root

    @cached_property
    def fingerprint(self) -> bytes:
        """Eight bytes that identify the schema on the wire."""
        return sha256(self.to_json().encode()).digest()[:8]

    def select(self, names: Iterable[str]) -> Schema:
        """Return the schema with only these properties, in its own order; the same object if none is omitted.

        >>> rooms = Schema("rooms", [Property("id", "string", "dimension"), Property("oil.level", "float"),
        ...                          Property("oil.heat", "float")])
        >>> [p.name for p in rooms.select(["oil.heat", "id"])]
        ['id', 'oil.heat']
        """
        chosen = {self[name].name for name in names}
        if len(chosen) == len(self.properties):
            return self
        return Schema(self.name, [p for p in self.properties if p.name in chosen], self.version)

    def to_document(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "version": self.version,
            "properties": [p.to_document() for p in self.properties],
        }

    def to_json(self) -> str:
        """Return canonical JSON: equal schemas have equal texts."""
        return json.dumps(self.to_document(), sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Schema:
        try:
            properties = [Property.from_document(p) for p in document["properties"]]
            return cls(document["name"], properties, document.get("version", 1))
        except (KeyError, TypeError, AttributeError) as problem:
            raise SchemaError(f"not a schema document: {problem}") from None

    def _check(self) -> None:
        if not isinstance(self.name, str) or not 0 < len(self.name) <= MAX_NAME:
            raise SchemaError("a schema needs a name of 1 to 256 characters", name=self.name, limit=MAX_NAME)
        if not isinstance(self.version, int) or isinstance(self.version, bool) or self.version < 1:
            raise SchemaError("a version is a whole number, 1 or larger", schema=self.name, version=self.version)
        if not 0 < len(self.properties) <= MAX_PROPERTIES:
            raise SchemaError(
                "number of properties outside its limit", count=len(self.properties), limit=MAX_PROPERTIES
            )
        names = [p.name for p in self.properties]
        double = next((name for name, count in Counter(names).items() if count > 1), None)
        if double is not None:
            raise SchemaError("a property is declared twice", property=double)
        objects = {name[:dot] for name in names for dot, character in enumerate(name) if character == "."}
        inner = next((name for name in names if name in objects), None)
        if inner is not None:
            raise SchemaError("a property cannot also be an object that contains others", property=inner)
        for p in self.properties:
            if p.role is Role.DIMENSION and p.kind not in IDENTIFYING_KINDS:
                raise SchemaError(f"a {p.kind.value} cannot identify a source", property=p.name)


PAYLOAD = "payload"
"""name of the only property of an opaque schema"""


def opaque(topic: str) -> Schema:
    """Return the schema of a topic whose events are bytes."""
    return Schema(topic, [Property(PAYLOAD, Kind.OPAQUE)])


def is_opaque(schema: Schema) -> bool:
    """Return whether the events of a schema are only bytes."""
    return [(p.name, p.kind) for p in schema.wire] == [(PAYLOAD, Kind.OPAQUE)] and len(schema.properties) == 1
