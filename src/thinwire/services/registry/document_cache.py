"""Documents of the registry bucket, decoded, by key and by topic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from thinwire.brokers.protocol import NOTHING, BucketEntry
from thinwire.errors import RegistryError
from thinwire.schema import Schema
from thinwire.topics.names import DocumentKind, RegistryKey, parse_registry_key
from thinwire.topics.topic_documents import (
    PublisherDocument,
    RegistryDocument,
    SubscriptionDocument,
    TopicDocument,
    decode,
)
from thinwire.topics.topic_settings import ConfigDocument


@dataclass
class TopicRecord:
    """All documents of one topic."""

    name: str
    document: TopicDocument | None = None
    config: ConfigDocument | None = None
    schemas: dict[str, Schema] = field(default_factory=dict)
    subscriptions: dict[str, SubscriptionDocument] = field(default_factory=dict)
    publishers: dict[str, PublisherDocument] = field(default_factory=dict)

    @property
    def schema(self) -> Schema | None:
        """The current schema."""
        return self.schemas.get(self.document.fingerprint) if self.document is not None else None

    @property
    def is_empty(self) -> bool:
        return not any((self.document, self.config, self.schemas, self.subscriptions, self.publishers))

    def find(self, key: RegistryKey) -> RegistryDocument | Schema | None:
        """The document under a key of this topic."""
        match key.kind:
            case DocumentKind.TOPIC:
                return self.document
            case DocumentKind.CONFIG:
                return self.config
            case DocumentKind.SCHEMA:
                return self.schemas.get(key.name)
            case DocumentKind.SUBSCRIPTION:
                return self.subscriptions.get(key.name)
            case DocumentKind.PUBLISHER:
                return self.publishers.get(key.name)

    def remove(self, key: RegistryKey) -> None:
        match key.kind:
            case DocumentKind.TOPIC:
                self.document = None
            case DocumentKind.CONFIG:
                self.config = None
            case DocumentKind.SCHEMA:
                self.schemas.pop(key.name, None)
            case DocumentKind.SUBSCRIPTION:
                self.subscriptions.pop(key.name, None)
            case DocumentKind.PUBLISHER:
                self.publishers.pop(key.name, None)

    def put(self, name: str, document: RegistryDocument | Schema) -> None:
        """Store a document; `name` is the last part of its key."""
        match document:
            case TopicDocument():
                self.document = document
            case ConfigDocument():
                self.config = document
            case Schema():
                self.schemas[name] = document
            case SubscriptionDocument():
                self.subscriptions[name] = document
            case PublisherDocument():
                self.publishers[name] = document


class DocumentCache:
    """The newest entry of every key, decoded.

    topics: records by topic
    problems: reason why the document under a key cannot be decoded
    """

    def __init__(self) -> None:
        self.topics: dict[str, TopicRecord] = {}
        self.problems: dict[str, str] = {}
        self._revisions: dict[str, int] = {}
        self._present: set[str] = set()

    def __iter__(self) -> Iterator[TopicRecord]:
        return (self.topics[name] for name in sorted(self.topics))

    def __contains__(self, key: str) -> bool:
        """Return True if the key has a value, valid or not."""
        return key in self._present

    def revision(self, key: str) -> int:
        """The revision that a conditional write to a key must state."""
        return self._revisions[key] if key in self._present else NOTHING

    def last_revision(self, key: str) -> int:
        """The revision of the last change to a key, including its deletion."""
        return self._revisions.get(key, NOTHING)

    def find(self, key: str) -> RegistryDocument | Schema | None:
        """The document under a key; None if there is no valid one."""
        try:
            parsed = parse_registry_key(key)
        except RegistryError:
            return None
        record = self.topics.get(parsed.topic)
        return record.find(parsed) if record is not None else None

    def put(self, entry: BucketEntry) -> str | None:
        """Apply an entry of the bucket. Return the topic of its key; None for an outdated entry or an invalid key."""
        if entry.revision <= self._revisions.get(entry.key, NOTHING):
            return None
        self._revisions[entry.key] = entry.revision
        (self._present.discard if entry.value is None else self._present.add)(entry.key)
        self.problems.pop(entry.key, None)
        try:
            key = parse_registry_key(entry.key)
        except RegistryError as problem:
            if entry.value is not None:
                self.problems[entry.key] = str(problem)
            return None
        record = self.topics.setdefault(key.topic, TopicRecord(key.topic))
        document = self._decode(entry)
        if document is not None:
            record.put(key.name, document)
        else:
            record.remove(key)
        if record.is_empty:
            del self.topics[key.topic]
        return key.topic

    def _decode(self, entry: BucketEntry) -> RegistryDocument | Schema | None:
        try:
            return None if entry.value is None else decode(entry.key, entry.value)
        except RegistryError as problem:
            self.problems[entry.key] = str(problem)
            return None
