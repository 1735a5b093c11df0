"""Event factorisation: static facts are stored once under a key, and events carry the key.

A property declared `static` (the make of a sensor, the name of its building) belongs to the source, not to the moment.
On the wire one short text stands in for all of them; it never changes, so after the first event it costs nothing.

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
MAX_KNOWN = 65_536
"""sets of facts that one end keeps in mind"""
MAX_FACTS_BYTES = 262_144

Facts = Mapping[str, Any]
Lookup = Callable[[str], Facts | None]


def factored(schema: Schema) -> Schema:
    """The schema of what travels: one reference in place of all static properties."""
    if not any(p.static for p in schema):
        return schema
    taken = next((p.name for p in schema if p.name.split(".")[0] == FACTS_PROPERTY), None)
    if taken is not None:
        raise SchemaError("the name 'facts' is taken by the reference to static properties: rename it", property=taken)
    kept = [p for p in schema if not p.static]
    return Schema(schema.name, [*kept, Property(FACTS_PROPERTY, "string")], schema.version)


def facts_key(topic: str, key: str) -> str:
    """Where the facts lie in their bucket."""
    return f"{check_topic(topic)}.{check_name_token(key, 'key')}"


def encode_facts(facts: Facts) -> bytes:
    """Facts as they are stored: canonical JSON, of which the key is a digest."""
    value = json.dumps(dict(facts), sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    if len(value) > MAX_FACTS_BYTES:
        raise TooLarge("all static properties together", size=len(value), limit=MAX_FACTS_BYTES)
    return value


def decode_facts(key: str, value: bytes) -> dict[str, Any]:
    """The facts under a key; refuses those that are not the ones the key names."""
    try:
        facts = json.loads(value) if len(value) <= MAX_FACTS_BYTES else None
    except (ValueError, RecursionError):
        facts = None
    if not isinstance(facts, dict) or key_of(facts) != key:
        raise RegistryError("the facts are not those that their key names", key=key, size=len(value))
    return facts


def key_of(facts: Facts) -> str:
    """The key of some facts: equal facts have equal keys."""
    return sha256(encode_facts(facts)).hexdigest()[:16]


class Factoring:
    """Takes the static facts out of a topic's events, and puts them back.

    Events go in and come out as their publisher holds them, objects nested. One object serves one publisher or one
    reader; what it keeps in mind is bounded, and a set of facts that was forgotten is told again.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.on_wire = factored(schema)
        self._static = [p for p in schema if p.static]
        self._names = {p.name for p in self._static}
        self._converters = [(p.name, converter(p)) for p in self._static]
        self._told: OrderedDict[str, None] = OrderedDict()
        self._keys: OrderedDict[tuple[Any, ...], str] = OrderedDict()

    def split(self, event: Mapping[str, Any]) -> tuple[Mapping[str, Any], str, dict[str, Any] | None]:
        """The event as it travels, the key of its facts, and the facts themselves where they have yet to be told.

        They count as told from here on: store them, or call `untold`.
        """
        if not self._names:
            return event, "", None
        flat = flatten(event, self.schema)
        facts = {p.name: flat.pop(p.name, None) for p in self._static}
        key = self._key(facts)
        flat[FACTS_PROPERTY] = key
        new = _remember(self._told, key, None)
        return nest(flat), key, facts if new else None

    def mark_unsent(self, key: str) -> None:
        """The facts could not be stored: they come out of `split` again."""
        self._told.pop(key, None)

    def join(self, event: Event, lookup: Lookup) -> Event:
        """The event with its facts; `UnknownFacts` where `lookup` does not have them."""
        if not self._names:
            return event
        key = event.get(FACTS_PROPERTY)
        facts = lookup(key) if isinstance(key, str) else None
        if facts is None:
            raise UnknownFacts(topic=self.schema.name, key=key)
        if facts.keys() != self._names:
            detail = "they do not fit the schema"
            raise UnknownFacts(detail, topic=self.schema.name, key=key, expected=sorted(self._names))
        return self._joined(event, facts)

    def _joined(self, event: Event, facts: Facts) -> Event:
        flat = flatten({name: value for name, value in event.items() if name != FACTS_PROPERTY}, self.on_wire)
        flat |= facts
        bound = dict(event.bound)
        # a reference is never off; where nothing is claimed of it, nothing is claimed of what it stands for
        claimed = bound.pop(FACTS_PROPERTY, None)
        bound |= dict.fromkeys(self._names, claimed)
        values = nest({p.name: flat[p.name] for p in self.schema if p.name in flat})
        return event.like(values, bound, tuple(name for name in event.flags if name != FACTS_PROPERTY))

    def _key(self, facts: dict[str, Any]) -> str:
        values = tuple((type(facts[name]), facts[name]) for name, _ in self._converters)
        try:
            known = self._keys.get(values)
        except TypeError:  # a list cannot be a fact
            known = None
        if known is None:
            for name, convert in self._converters:
                convert(facts[name])
            known = key_of(facts)
            _remember(self._keys, values, known)
        return known


def _remember(known: OrderedDict[Any, Any], key: Any, value: Any) -> bool:
    """Keep something in mind; True if it was new."""
    new = key not in known
    known[key] = value
    known.move_to_end(key)
    if len(known) > MAX_KNOWN:
        known.popitem(last=False)
    return new
