"""Documents of the registry: topics, subscriptions and publishers, and the encoding of all registry documents.

>>> wanted = SubscriptionDocument("building.rooms", "hvac", tolerance={"temperature": 0.5}, durable="hvac")
>>> decode(wanted.key, encode(wanted)) == wanted
True
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Any, Literal, TypeVar

from thinwire.brokers.protocol import BucketEntry
from thinwire.codec import Demand
from thinwire.errors import RegistryError, ThinwireError
from thinwire.filters.where.where_grammar import parse_where
from thinwire.schema import Schema
from thinwire.topics.document import Document, decode_object, encode_object, name_key
from thinwire.topics.document_fields import (
    Count,
    Entries,
    Fingerprint,
    Names,
    Number,
    Predicate,
    Token,
    Tolerances,
    Topic,
    check_fingerprint,
    check_names,
    or_empty,
)
from thinwire.topics.names import (
    DocumentKind,
    RegistryKey,
    parse_registry_key,
    publisher_key,
    subscription_key,
    topic_key,
)
from thinwire.topics.topic_settings import ConfigDocument, Settings


@dataclass(frozen=True)
class TopicDocument(Document):
    """A topic: the fingerprint of its current schema and its settings."""

    topic: Topic
    fingerprint: Fingerprint
    settings: Settings = field(default_factory=Settings)

    @property
    def key(self) -> str:
        return topic_key(self.topic)


def _check_exact(field: str, value: Any) -> bool | tuple[str, ...]:
    return value if isinstance(value, bool) else check_names(field, value)


@dataclass(frozen=True)
class SubscriptionDocument(Document):
    """What a subscription requests of a topic.

    identity: name of the subscription; it answers liveness probes on `tw.alive.<identity>`
    tolerance, default_tolerance: as in `Demand`
    exact: True, or the properties that must be delivered as published
    properties: the ones to deliver, None for all
    sources: values per dimension, None for all
    durable: name under which the subscription resumes; it counts until it is removed
    emit: "all" events, or only "changes"
    since: time of its creation, in seconds since the epoch
    log: it reads the topic log, so that no channel is made for it
    where: predicate that events must match; the properties in it are exact
    """

    topic: Topic
    identity: Token
    tolerance: Tolerances = field(default_factory=dict)
    default_tolerance: Number = 0
    exact: Annotated[bool | tuple[str, ...], _check_exact] = False
    properties: Names | None = None
    sources: Entries | None = None
    durable: Token | None = None
    emit: Literal["all", "changes"] = "all"
    since: Number = 0.0
    log: bool = False
    where: Predicate | None = None

    @property
    def key(self) -> str:
        return subscription_key(self.topic, self.identity)

    @property
    def demand(self) -> Demand:
        """The tolerances, without `exact` and `where`."""
        return Demand(self.tolerance, self.default_tolerance)

    @property
    def predicate_names(self) -> tuple[str, ...]:
        """The properties in the predicate."""
        return _names_in(self.where) if self.where is not None else ()

    @property
    def named_properties(self) -> list[str]:
        """The properties that have a tolerance, are exact, are selected, or occur in the predicate."""
        exact = () if isinstance(self.exact, bool) else self.exact
        return [*self.tolerance, *exact, *(self.properties or ()), *self.predicate_names]

    def is_exact(self, name: str) -> bool:
        """Return True if a property must be delivered as published."""
        exact = self.exact if isinstance(self.exact, bool) else name in self.exact
        return exact or (self.where is not None and name in self.predicate_names)


@dataclass(frozen=True)
class PublisherDocument(Document):
    """A running publisher of a topic and the fingerprint of the schema it writes."""

    topic: Topic
    name: Token
    incarnation: Count
    since: Number = 0.0
    fingerprint: Annotated[str, or_empty(check_fingerprint)] = ""

    @property
    def key(self) -> str:
        return publisher_key(self.topic, self.name)


@lru_cache(maxsize=1 << 17)
def _names_in(where: str) -> tuple[str, ...]:
    """Parsed once per predicate: with 100,000 subscriptions, parsing would dominate each budget."""
    return parse_where(where).names


RegistryDocument = TopicDocument | SubscriptionDocument | PublisherDocument | ConfigDocument
_KINDS: dict[DocumentKind, type[RegistryDocument]] = {
    DocumentKind.TOPIC: TopicDocument,
    DocumentKind.CONFIG: ConfigDocument,
    DocumentKind.SUBSCRIPTION: SubscriptionDocument,
    DocumentKind.PUBLISHER: PublisherDocument,
}
D = TypeVar("D", TopicDocument, ConfigDocument, Schema)


def encode(document: RegistryDocument | Schema) -> bytes:
    """Encode a document of the registry bucket as canonical JSON."""
    return encode_object(document.to_document())


def decode(key: str, value: bytes) -> RegistryDocument | Schema:
    """Decode the document under a key of the registry bucket. A `RegistryError` names the key and the field."""
    parsed = parse_registry_key(key)
    try:
        document = decode_object(value)
        return _read_schema(parsed, document) if parsed.kind is DocumentKind.SCHEMA else _read(parsed, document)
    except ThinwireError as problem:
        raise name_key(problem, key) from None


def decode_entry(entry: BucketEntry | None, kind: type[D]) -> D | None:
    """Decode an entry of the registry bucket; None if there is no document."""
    if entry is None or entry.value is None:
        return None
    document = decode(entry.key, entry.value)
    assert isinstance(document, kind), "the kind of a document is in its key"
    return document


def _read(key: RegistryKey, document: dict[str, Any]) -> RegistryDocument:
    found = _KINDS[key.kind].from_document(document)
    if parse_registry_key(found.key) != key:
        raise RegistryError("the document belongs under another key", field="topic", belongs=found.key)
    return found


def _read_schema(key: RegistryKey, document: dict[str, Any]) -> Schema:
    schema = Schema.from_document(document)
    fingerprint = schema.fingerprint.hex()
    if (schema.name, fingerprint) != (key.topic, key.name):
        detail = "the fingerprint of the schema is not the one in its key"
        raise RegistryError(detail, field="fingerprint", name=schema.name, fingerprint=fingerprint)
    return schema
