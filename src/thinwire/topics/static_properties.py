"""Static properties: their values are stored once under a key, and events contain the key.

A property declared `static` (the make of a sensor, the name of its building) describes the source and does not change
from event to event. On the wire, one text property replaces all of them. It is always predicted, so after the first
event of a source it adds no bytes.

>>> rooms = Schema("rooms", [Property("room", "string", "dimension"), Property("make", "string", static=True),
...                          Property("t", "number", step="0.1")])
>>> factoring = Factoring(rooms)
>>> on_wire, key, facts = factoring.split({"room": "11.1", "make": "Acme 7", "t": 20.5})
>>> on_wire, facts
({'room': '11.1', 't': 20.5, 'facts': 'dd2a0c53924b8818'}, {'make': 'Acme 7'})
>>> factoring.split({"room": "11.2", "make": "Acme 7", "t": 21.0})[2] is None
True
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

from thinwire.codec.value_conversion import converter
from thinwire.errors import RegistryError, SchemaError, TooLarge, UnknownFacts
from thinwire.schema import Event, Property, Schema, flatten, nest
from thinwire.topics.names import check_name_token, check_topic

FACTS_PROPERTY = "facts"
MAX_CACHED = 65_536
"""sets of facts that a publisher or reader caches"""
MAX_FACTS_BYTES = 262_144

Facts = Mapping[str, Any]
FindFacts = Callable[[str], Facts | None]
"""returns the facts under a key, or None"""


def factored(schema: Schema) -> Schema:
    """The schema on the wire: one reference replaces all static properties."""
    if not any(p.static for p in schema):
        return schema
    taken = next((p.name for p in schema if p.name.split(".")[0] == FACTS_PROPERTY), None)
    if taken is not None:
        raise SchemaError(
            "the name 'facts' is reserved for the reference to static properties: rename the property", property=taken
        )
    kept = [p for p in schema if not p.static]
    return Schema(schema.name, [*kept, Property(FACTS_PROPERTY, "string")], schema.version)


def facts_key(topic: str, key: str) -> str:
    """Key of facts in their bucket."""
    return f"{check_topic(topic)}.{check_name_token(key, 'key')}"


def encode_facts(facts: Facts) -> bytes:
    """Encode facts as canonical JSON. Their key is a hash of it."""
    value = json.dumps(dict(facts), sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    if len(value) > MAX_FACTS_BYTES:
        raise TooLarge("static properties above the limit", size=len(value), limit=MAX_FACTS_BYTES)
    return value


def decode_facts(key: str, value: bytes) -> dict[str, Any]:
    """Decode facts; `RegistryError` if their hash is not the key."""
    try:
        facts = json.loads(value) if len(value) <= MAX_FACTS_BYTES else None
    except (ValueError, RecursionError):
        facts = None
    if not isinstance(facts, dict) or key_of(facts) != key:
        raise RegistryError("the hash of the facts is not their key", key=key, size=len(value))
    return facts


def key_of(facts: Facts) -> str:
    """The key of facts: equal facts have equal keys."""
    return sha256(encode_facts(facts)).hexdigest()[:16]


class Factoring:
    """Replaces the static properties of events by a reference, and restores them.

    Events have nested objects on both sides. An instance serves one publisher or one reader. It caches the keys of
    `MAX_CACHED` sets of facts; `split` returns evicted facts again.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.wire_schema = factored(schema)
        self._static = [p for p in schema if p.static]
        self._names = {p.name for p in self._static}
        self._converters = [(p.name, converter(p)) for p in self._static]
        self._keys: OrderedDict[tuple[Any, ...], str] = OrderedDict()

    def split(self, event: Mapping[str, Any]) -> tuple[Mapping[str, Any], str, dict[str, Any] | None]:
        """The event on the wire, the key of its facts, and the facts if they are not stored yet.

        Returned facts count as stored: store them, or call `mark_unstored`.
        """
        flat = flatten(event, self.schema)
        facts = {p.name: flat.pop(p.name, None) for p in self._static}
        flat[FACTS_PROPERTY], is_new = self._find_key(facts)
        return nest(flat), flat[FACTS_PROPERTY], facts if is_new else None

    def mark_unstored(self, key: str) -> None:
        """Record that storing the facts failed; `split` returns them again."""
        self._keys = OrderedDict((values, known) for values, known in self._keys.items() if known != key)

    def join(self, event: Event, find: FindFacts) -> Event:
        """The event with its facts; `UnknownFacts` if `find` does not return them."""
        key = event.get(FACTS_PROPERTY)
        facts = find(key) if isinstance(key, str) else None
        if facts is None:
            raise UnknownFacts(topic=self.schema.name, key=key)
        if facts.keys() != self._names:
            detail = "the facts do not match the schema"
            raise UnknownFacts(detail, topic=self.schema.name, key=key, expected=sorted(self._names))
        return self._restore(event, facts)

    def _restore(self, event: Event, facts: Facts) -> Event:
        flat = flatten({name: value for name, value in event.items() if name != FACTS_PROPERTY}, self.wire_schema)
        flat |= facts
        bound = dict(event.bound)
        bound |= dict.fromkeys(self._names, bound.pop(FACTS_PROPERTY, None))  # exact, or without a bound
        values = nest({p.name: flat[p.name] for p in self.schema if p.name in flat})
        return event.like(values, bound, tuple(name for name in event.flags if name != FACTS_PROPERTY))

    def _find_key(self, facts: dict[str, Any]) -> tuple[str, bool]:
        """The key of facts, and whether it is new in the cache."""
        values = tuple((type(facts[name]), facts[name]) for name, _ in self._converters)
        try:
            known = self._keys.get(values)
        except TypeError:  # not hashable; the converter below raises the error that names the property
            known = None
        if known is not None:
            self._keys.move_to_end(values)
            return known, False
        for name, convert in self._converters:
            convert(facts[name])
        key = self._keys[values] = key_of(facts)
        if len(self._keys) > MAX_CACHED:
            self._keys.popitem(last=False)
        return key, True
