"""The documents of the registry: what lies under its keys, and how it is written.

Documents are JSON objects. Fields that this version does not know are left alone, so that a newer client can say more;
a field that cannot be right is refused by name, together with the key.

>>> asked = SubscriptionDocument("building.rooms", "hvac", tolerance={"temperature": 0.5}, durable="hvac")
>>> decode(asked.key, encode(asked)) == asked
True
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any, Literal

from thinwire.codec import Demand
from thinwire.codec.demand import Tolerance
from thinwire.errors import RegistryError, ThinwireError
from thinwire.filters.where import parse
from thinwire.schema import Schema
from thinwire.topics import document_validation as checks
from thinwire.topics import topic_settings as keys
from thinwire.topics.topic_settings import ConfigDocument, Key, Settings


@dataclass(frozen=True)
class TopicDocument:
    """A topic: the fingerprint (hex) of its current schema, and how it is published."""

    topic: str
    fingerprint: str
    settings: Settings = field(default_factory=Settings)

    def __post_init__(self) -> None:
        checks.topic(self.topic)
        checks.fingerprint("fingerprint", self.fingerprint)

    @property
    def key(self) -> str:
        return keys.topic_key(self.topic)


@dataclass(frozen=True)
class SubscriptionDocument:
    """What somebody wants to know of a topic, and how well.

    identity: names the subscription; it answers under `tw.alive.<identity>`
    tolerance, default_tolerance: as in `Demand`; exact: True, or the properties that must not vary at all
    properties: the ones it looks at, None for all; sources: values per dimension, None for all
    durable: the name under which it reads on later; such a subscription counts until it is forgotten
    emit: "all" events or only "changes"; since: when it was made, in seconds since the epoch
    log: it reads the log whatever it asks for, as a watch does: nobody makes a channel for it
    where: only events that match this predicate, as `thinwire.filters.where` writes it; what it names is exact
    """

    topic: str
    identity: str
    tolerance: Mapping[str, Tolerance] = field(default_factory=dict)
    default_tolerance: float = 0
    exact: bool | tuple[str, ...] = False
    properties: tuple[str, ...] | None = None
    sources: Mapping[str, Any] | None = None
    durable: str | None = None
    emit: Literal["all", "changes"] = "all"
    since: float = 0.0
    log: bool = False
    where: str | None = None

    def __post_init__(self) -> None:
        checks.topic(self.topic)
        checks.check_token("identity", self.identity)
        object.__setattr__(self, "tolerance", checks.tolerances("tolerance", self.tolerance))
        checks.number("default_tolerance", self.default_tolerance)
        if not isinstance(self.exact, bool):
            object.__setattr__(self, "exact", checks.names("exact", self.exact))
        if self.properties is not None:
            object.__setattr__(self, "properties", checks.names("properties", self.properties))
        if self.sources is not None:
            object.__setattr__(self, "sources", checks.mapping("sources", self.sources))
        if self.durable is not None:
            checks.check_token("durable", self.durable)
        checks.text("emit", self.emit, "all", "changes")
        checks.number("since", self.since)
        checks.flag("log", self.log)
        if self.where is not None:
            object.__setattr__(self, "where", checks.predicate("where", self.where))

    @property
    def key(self) -> str:
        return keys.subscription_key(self.topic, self.identity)

    @property
    def demand(self) -> Demand:
        """Its tolerances, without regard to `exact` and `where`."""
        return Demand(self.tolerance, self.default_tolerance)

    @property
    def deciding(self) -> tuple[str, ...]:
        """The properties that its predicate names."""
        return _names_in(self.where) if self.where is not None else ()

    def is_exact(self, name: str) -> bool:
        """Must this property not vary at all?"""
        exact = self.exact if isinstance(self.exact, bool) else name in self.exact
        return exact or (self.where is not None and name in self.deciding)


@dataclass(frozen=True)
class PublisherDocument:
    """Who publishes to a topic: its name, which life of it, since when, and the schema (hex) it writes."""

    topic: str
    name: str
    incarnation: int
    since: float = 0.0
    fingerprint: str = ""

    def __post_init__(self) -> None:
        checks.topic(self.topic)
        checks.check_token("name", self.name)
        checks.count("incarnation", self.incarnation)
        checks.number("since", self.since)
        if self.fingerprint:
            checks.fingerprint("fingerprint", self.fingerprint)

    @property
    def key(self) -> str:
        return keys.publisher_key(self.topic, self.name)


@lru_cache(maxsize=1 << 17)
def _names_in(where: str) -> tuple[str, ...]:
    """The properties that a predicate names: of a hundred thousand subscriptions they are asked again and again."""
    return parse(where).names


Document = TopicDocument | SubscriptionDocument | PublisherDocument | ConfigDocument


def encode(document: Document | Schema) -> bytes:
    """A document as it is stored: canonical JSON."""
    if isinstance(document, Schema):
        return checks.write_object(document.to_document())
    return checks.write_object(to_document(document))


def decode(key: str, value: bytes) -> Document | Schema:
    """The document under a key; a `RegistryError` names the key and the field where it cannot be one."""
    place = keys.parse(key)
    try:
        document = checks.read_object(value)
        return _schema(place, document) if place.kind == keys.SCHEMA else _placed(place, document)
    except ThinwireError as problem:
        raise RegistryError(f"{key}: {problem.detail}", key=key, **_facts(problem)) from None


def _placed(place: Key, document: dict[str, Any]) -> Document:
    made = _made(place, document)
    if keys.parse(made.key) != place:
        raise RegistryError("the document belongs under another key", field="topic", belongs=made.key)
    return made


def _made(place: Key, document: dict[str, Any]) -> Document:
    if place.kind == keys.SUBSCRIPTION:
        return checks.build(SubscriptionDocument, document)
    if place.kind == keys.PUBLISHER:
        return checks.build(PublisherDocument, document)
    if place.kind == keys.TOPIC:
        settings = checks.build(Settings, checks.mapping("settings", document.get("settings", {})))
        return checks.build(TopicDocument, document | {"settings": settings})
    return ConfigDocument.from_document(document)


def _schema(place: Key, document: dict[str, Any]) -> Schema:
    schema = Schema.from_document(document)
    if (schema.name, schema.fingerprint.hex()) != (place.topic, place.name):
        found = schema.fingerprint.hex()
        raise RegistryError("the schema is not the one its key names", field="fingerprint", name=schema.name, is_=found)
    return schema


def to_document(document: Any) -> dict[str, Any]:
    """All fields; mappings become objects, documents within documents too."""
    return {f.name: _value(getattr(document, f.name)) for f in fields(document)}


def _value(value: Any) -> Any:
    if isinstance(value, Settings | Demand):
        return to_document(value)
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, tuple) else value


def _facts(problem: ThinwireError) -> dict[str, Any]:
    return {name: value for name, value in problem.facts.items() if name != "key"}
