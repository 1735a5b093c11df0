"""The documents of a registry as they are read: by key, and by topic. What cannot be read is kept as a problem."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from thinwire.brokers.protocol import NOTHING, BucketEntry
from thinwire.errors import RegistryError
from thinwire.schema import Schema
from thinwire.topics import topic_settings as keys
from thinwire.topics.topic_documents import Document, PublisherDocument, SubscriptionDocument, TopicDocument, decode
from thinwire.topics.topic_settings import ConfigDocument


@dataclass
class TopicRecord:
    """Everything about one topic."""

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
    def empty(self) -> bool:
        parts = (self.document, self.config, self.schemas, self.subscriptions, self.publishers)
        return not any(parts)


class DocumentCache:
    """The newest entry of every key, decoded.

    problems: per key why its document cannot be read
    """

    def __init__(self) -> None:
        self.topics: dict[str, TopicRecord] = {}
        self.problems: dict[str, str] = {}
        self._revisions: dict[str, int] = {}
        self._present: set[str] = set()

    def __iter__(self) -> Iterator[TopicRecord]:
        return (self.topics[name] for name in sorted(self.topics))

    def known(self) -> set[str]:
        """The keys under which there is something."""
        return set(self._present)

    def revision(self, key: str) -> int:
        """What a write to this key must insist on."""
        return self._revisions[key] if key in self._present else NOTHING

    def last_revision(self, key: str) -> int:
        """The last change to a key, a deletion counted."""
        return self._revisions.get(key, NOTHING)

    def document(self, key: str) -> Document | Schema | None:
        """The document under a key, if there is one that can be read."""
        kind, _, rest = key.partition(".")
        name = rest if kind in (keys.TOPIC, keys.CONFIG) else rest.rpartition(".")[0]
        topic = self.topics.get(name)
        if topic is None or kind not in keys.KINDS:
            return None
        if kind in (keys.TOPIC, keys.CONFIG):
            return topic.document if kind == keys.TOPIC else topic.config
        return _named(topic, kind).get(rest.rpartition(".")[2])

    def put(self, entry: BucketEntry) -> str | None:
        """Take an entry in; the topic that it concerns, None where it says nothing new."""
        if entry.revision <= self._revisions.get(entry.key, NOTHING):
            return None
        self._revisions[entry.key] = entry.revision
        (self._present.discard if entry.value is None else self._present.add)(entry.key)
        self.problems.pop(entry.key, None)
        try:
            place = keys.parse(entry.key)
        except RegistryError as problem:
            if entry.value is not None:
                self.problems[entry.key] = str(problem)
            return None
        self._place(place, self._read(entry))
        return place.topic

    def _read(self, entry: BucketEntry) -> Document | Schema | None:
        try:
            return None if entry.value is None else decode(entry.key, entry.value)
        except RegistryError as problem:
            self.problems[entry.key] = str(problem)
            return None

    def _place(self, place: keys.Key, document: Document | Schema | None) -> None:
        topic = self.topics.setdefault(place.topic, TopicRecord(place.topic))
        if place.kind == keys.TOPIC:
            topic.document = document if isinstance(document, TopicDocument) else None
        elif place.kind == keys.CONFIG:
            topic.config = document if isinstance(document, ConfigDocument) else None
        elif isinstance(document, Schema):
            topic.schemas[place.name] = document
        elif isinstance(document, SubscriptionDocument):
            topic.subscriptions[place.name] = document
        elif isinstance(document, PublisherDocument):
            topic.publishers[place.name] = document
        else:
            _named(topic, place.kind).pop(place.name, None)
        if topic.empty:
            del self.topics[place.topic]


def _named(
    topic: TopicRecord, kind: str
) -> dict[str, Schema] | dict[str, SubscriptionDocument] | dict[str, PublisherDocument]:
    if kind == keys.SCHEMA:
        return topic.schemas
    return topic.subscriptions if kind == keys.SUBSCRIPTION else topic.publishers
