"""Documents of the registry bucket, decoded, by key and by topic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

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


class TopicRecord:
    """All documents of one topic."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._by_kind: dict[DocumentKind, dict[str, Any]] = {kind: {} for kind in DocumentKind}
        self.schemas: dict[str, Schema] = self._by_kind[DocumentKind.SCHEMA]
        self.subscriptions: dict[str, SubscriptionDocument] = self._by_kind[DocumentKind.SUBSCRIPTION]
        self.publishers: dict[str, PublisherDocument] = self._by_kind[DocumentKind.PUBLISHER]

    @property
    def document(self) -> TopicDocument | None:
        """The document of the topic itself."""
        return self._by_kind[DocumentKind.TOPIC].get("")

    @property
    def config(self) -> ConfigDocument | None:
        """The configuration of its publishers."""
        return self._by_kind[DocumentKind.CONFIG].get("")

    @property
    def schema(self) -> Schema | None:
        """The current schema."""
        return self.schemas.get(self.document.fingerprint) if self.document is not None else None

    @property
    def is_empty(self) -> bool:
        return not any(self._by_kind.values())

    def find(self, key: RegistryKey) -> RegistryDocument | Schema | None:
        """Return the document under a key of this topic."""
        document: RegistryDocument | Schema | None = self._by_kind[key.kind].get(key.name)
        return document

    def put(self, key: RegistryKey, document: RegistryDocument | Schema | None) -> None:
        """Store a document under a key of this topic; None removes it."""
        if document is None:
            self._by_kind[key.kind].pop(key.name, None)
        else:
            self._by_kind[key.kind][key.name] = document


class DocumentCache:
    """The newest entry of every key, decoded.

    topics: records by topic
    problems: by key, why the key is invalid or its document cannot be decoded
    """

    def __init__(self) -> None:
        self.topics: dict[str, TopicRecord] = {}
        self.problems: dict[str, str] = {}
        self._revisions: dict[str, int] = {}
        self._present: set[str] = set()

    def __iter__(self) -> Iterator[TopicRecord]:
        """Iterate over the records, ordered by topic."""
        return (self.topics[name] for name in sorted(self.topics))

    def revision(self, key: str) -> int:
        """Return the revision that a conditional write to a key must state."""
        return self._revisions[key] if key in self._present else NOTHING

    def last_revision(self, key: str) -> int:
        """Return the revision of the last change to a key, including its deletion."""
        return self._revisions.get(key, NOTHING)

    def find(self, key: str) -> RegistryDocument | Schema | None:
        """Return the document under a key; None if there is no valid one."""
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
        record.put(key, self._decode(entry))
        if record.is_empty:
            del self.topics[key.topic]
        return key.topic

    def _decode(self, entry: BucketEntry) -> RegistryDocument | Schema | None:
        try:
            return None if entry.value is None else decode(entry.key, entry.value)
        except RegistryError as problem:
            self.problems[entry.key] = str(problem)
            return None
