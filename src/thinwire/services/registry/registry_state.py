"""The registry as a state machine: documents in, documents to write out. No I/O; the time is an argument.

What it writes follows from the documents alone, so a registry that was killed comes to the same conclusions when it
starts again, and several of them agree. Two things take time:

    leaving     a subscription counts for `grace` seconds after it left or asked for less: whoever comes and goes does
                not make publishers start over. To ask for more counts at once.
    silence     a subscription that is not durable and does not answer `misses` times in a row has left

What the subscriptions of a topic ask of its publishers, each demand once: very many may ask for the same.

>>> voices = DistinctDemands()
>>> for number in range(3):
...     voices.update_subscription(None, SubscriptionDocument("rooms", f"s{number}", {"t": 0.5}))
>>> before, after = (SubscriptionDocument("rooms", "s0", {"t": tolerance}) for tolerance in (0.5, 1))
>>> voices.update_subscription(before, after)
>>> [(asked.identity, asked.tolerance) for asked in voices.list_demands()]
[('s1', {'t': 0.5}), ('s0', {'t': 1})]

What the registry answers when it is asked: plain JSON values in and out, no I/O.

ping    how it is
get     {"topic": name}: everything about a topic; with "as": "turtle" its schema as Turtle, a "version" of it where
        given. {"key": key}: the document under a key
list    the topics, at most "limit" of them, those "after" a name; and what is wrong with documents
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from thinwire.brokers.protocol import BucketEntry
from thinwire.codec import resolve
from thinwire.errors import RegistryError, ThinwireError, UnknownTopic
from thinwire.schema import Schema, to_turtle
from thinwire.services.registry.document_cache import DocumentCache, TopicRecord
from thinwire.topics import document_validation as checks
from thinwire.topics import topic_settings as keys
from thinwire.topics.static_properties import factored
from thinwire.topics.tolerance_budget import Budget, between, budget, of_demand, stricter
from thinwire.topics.topic_documents import Document, SubscriptionDocument, encode, to_document
from thinwire.topics.topic_settings import ConfigDocument, Settings, demand_for


class DistinctDemands:
    """The different demands of a topic's subscriptions."""

    def __init__(self) -> None:
        self._saying: dict[str, dict[str, SubscriptionDocument]] = {}

    def update_subscription(self, before: SubscriptionDocument | None, after: SubscriptionDocument | None) -> None:
        """A subscription came, went, or asks for something else."""
        if before is not None:
            same = self._saying.get(_demand_key(before), {})
            same.pop(before.identity, None)
            if not same:
                self._saying.pop(_demand_key(before), None)
        if after is not None:
            self._saying.setdefault(_demand_key(after), {})[after.identity] = after

    def list_demands(self) -> list[SubscriptionDocument]:
        """One subscription of each demand."""
        return [next(iter(same.values())) for same in self._saying.values()]


def _demand_key(asked: SubscriptionDocument) -> str:
    """What matters to publishers."""
    return repr((asked.tolerance, asked.default_tolerance, asked.exact, asked.properties))


class Write(NamedTuple):
    """A document to store under a key, None to delete it; `revision` is the one the decision was based on."""

    key: str
    value: bytes | None
    revision: int


@dataclass
class _Watched:
    """A subscription that has to answer now and then."""

    next_probe: float
    missed: int = 0


@dataclass(frozen=True)
class _Left:
    """A subscription as it was before it left or asked for less, and until when it counts."""

    asked: SubscriptionDocument
    until: float


class Registry:
    """Draws the conclusions.

    grace: seconds a subscription counts after it left; probe_every: seconds between two probes of a subscription;
    misses: probes without an answer after which it has left

    >>> from thinwire.schema import Property
    >>> from thinwire.topics.topic_documents import TopicDocument, decode
    >>> rooms = Schema("rooms", [Property("t", "number", step="0.1")])
    >>> registry = Registry()
    >>> registry.apply(BucketEntry(keys.schema_key("rooms", rooms.fingerprint), encode(rooms), 1), now=0.0)
    >>> registry.apply(BucketEntry("topic.rooms", encode(TopicDocument("rooms", rooms.fingerprint.hex())), 2), now=0.0)
    >>> asked = SubscriptionDocument("rooms", "a", {"t": 0.5})
    >>> registry.apply(BucketEntry(asked.key, encode(asked), 3), now=0.0)
    >>> [write] = registry.decide(now=0.0)
    >>> decode(write.key, write.value).demand.tolerance
    {'t': 0.5}
    """

    def __init__(self, *, grace: float = 10.0, probe_every: float = 5.0, misses: int = 2) -> None:
        self.grace = grace
        self.probe_every = probe_every
        self.misses = misses
        self.shelf = DocumentCache()
        self._hold_until: float | None = None
        self._inherited: dict[str, int] = {}
        self._left: dict[str, dict[bytes, _Left]] = {}
        self._watched: dict[str, _Watched] = {}
        self._versions: dict[str, int] = {}
        self._open: set[str] = set()
        self._later: dict[str, float] = {}
        self._conclusions: dict[str, tuple[str, ...]] = {}
        self._demands: dict[str, DistinctDemands] = {}

    def apply(self, entry: BucketEntry, now: float) -> None:
        """A document was stored or deleted."""
        before = self._subscription(entry.key)
        topic = self.shelf.put(entry)
        if topic is None:
            return
        self._open.add(topic)
        after = self._subscription(entry.key)
        self._demands.setdefault(topic, DistinctDemands()).update_subscription(before, after)
        if before is not None and before != after:
            same = encode(replace(before, since=0))  # who flaps leaves one trace, not one per change
            self._left.setdefault(topic, {})[same] = _Left(before, now + self.grace)
        self._watch(entry.key, after, now)
        config = self.shelf.topics[topic].config if topic in self.shelf.topics else None
        if config is not None:
            self._versions[topic] = max(config.version, self._versions.get(topic, 0))

    def decide(self, now: float) -> list[Write]:
        """What is to be written now; the same again until it was applied.

        Ask for the first time when all documents have been applied that there are.
        """
        if self._hold_until is None:
            self._hold_until = now + self.grace
            self._inherited = {name: self.shelf.revision(keys.config_key(name)) for name in self.shelf.topics}
        writes = [
            Write(key, None, self.shelf.revision(key))
            for key, watched in sorted(self._watched.items())
            if watched.missed >= self.misses
        ]
        self._open |= {name for name, due in self._later.items() if due <= now}
        for name in sorted(self._open):
            write = self._configuration(name, now)
            if write is not None:
                writes.append(write)
            else:
                self._clear_pending(name, now)
        return writes

    def probes(self, now: float) -> list[SubscriptionDocument]:
        """The subscriptions that are to be asked now whether they are still there."""
        due = [key for key, watched in sorted(self._watched.items()) if watched.next_probe <= now]
        for key in due:
            self._watched[key].next_probe = now + self.probe_every
        asked = (self._subscription(key) for key in due)
        return [subscription for subscription in asked if subscription is not None]

    def record_probe(self, probed: SubscriptionDocument, answered: bool) -> None:
        """Whether a subscription answered; not called where that could not be found out."""
        watched = self._watched.get(probed.key)
        if watched is not None and self._subscription(probed.key) == probed:
            watched.missed = 0 if answered else watched.missed + 1

    def problems(self) -> dict[str, str]:
        """What is wrong with documents, in words, by key."""
        found = dict(self.shelf.problems)
        for name, sentences in self._conclusions.items():
            found.update({keys.config_key(name): "; ".join(sentences)} if sentences else {})
        return found

    def _subscription(self, key: str) -> SubscriptionDocument | None:
        kind, _, rest = key.partition(".")
        topic, _, identity = rest.rpartition(".")
        if kind != keys.SUBSCRIPTION or topic not in self.shelf.topics:
            return None
        return self.shelf.topics[topic].subscriptions.get(identity)

    def _watch(self, key: str, asked: SubscriptionDocument | None, now: float) -> None:
        if asked is None or asked.durable is not None:
            self._watched.pop(key, None)
        else:
            self._watched[key] = _Watched(now + self.probe_every)

    def _configuration(self, name: str, now: float) -> Write | None:
        """The configuration of a topic, where it differs from what publishers have been told."""
        left = self._recently_left(name, now)
        topic = self.shelf.topics.get(name)
        self._conclusions.pop(name, None)
        if topic is None or topic.document is None:
            return None
        if topic.schema is None:
            self._conclusions[name] = (f"the schema {topic.document.fingerprint} of the topic is missing",)
            return None
        try:
            wanted = self._wanted(topic, topic.schema, topic.document.settings, left, now)
        except ThinwireError as problem:
            self._conclusions[name] = (*self._conclusions.get(name, ()), str(problem))
            return None
        if topic.config is not None and replace(wanted, version=topic.config.version) == topic.config:
            return None
        return Write(wanted.key, encode(wanted), self.shelf.revision(wanted.key))

    def _wanted(
        self, topic: TopicRecord, schema: Schema, settings: Settings, left: list[SubscriptionDocument], now: float
    ) -> ConfigDocument:
        share = self._budget(topic, schema, settings, left, now)
        self._conclusions[topic.name] = share.problems
        on_wire = factored(schema)
        demand = demand_for(on_wire, share.demand(schema, settings))
        resolve(on_wire, demand)
        version = self._next_version(topic)
        return ConfigDocument(
            topic.name, version, share.wanted, demand, dictionaries=settings.dictionaries, **settings.link
        )

    def _budget(
        self, topic: TopicRecord, schema: Schema, settings: Settings, left: list[SubscriptionDocument], now: float
    ) -> Budget:
        asking = self._demands[topic.name].list_demands()
        needed = budget(schema, asking, settings)
        if topic.config is None:
            return needed
        told = of_demand(schema, topic.config.demand, topic.config.wanted)
        held = budget(schema, [*asking, *left], settings) if left else needed
        if self._is_inherited(topic.name, now) and told.wanted:
            # who left just before this registry started is not known: publishers go on as they were told for a while
            held = stricter(held, told)
        return between(told, needed, held)

    def _is_inherited(self, name: str, now: float) -> bool:
        """Is the configuration one that was there when this registry started, not long ago?"""
        recent = self._hold_until is not None and now < self._hold_until
        return recent and self._inherited.get(name) == self.shelf.revision(keys.config_key(name))

    def _next_version(self, topic: TopicRecord) -> int:
        """One more than ever before; a configuration that was lost was not written more often than its key changed."""
        lost = 0 if topic.config is not None else self.shelf.last_revision(keys.config_key(topic.name))
        return max(self._versions.get(topic.name, 0), lost) + 1

    def _recently_left(self, name: str, now: float) -> list[SubscriptionDocument]:
        left = self._left.pop(name, {})
        recent = {same: one for same, one in left.items() if one.until > now}
        if recent:
            self._left[name] = recent
        return [one.asked for one in recent.values()]

    def _clear_pending(self, name: str, now: float) -> None:
        """A topic needs no more attention until it changes, or somebody who left no longer counts."""
        self._open.discard(name)
        self._later.pop(name, None)
        ends = [one.until for one in self._left.get(name, {}).values()]
        if self._hold_until is not None and self._is_inherited(name, now):
            ends.append(self._hold_until)
        if ends:
            self._later[name] = min(ends)


MAX_LISTED = 1_000
MAX_PROBLEMS = 100


def ping(registry: Registry) -> dict[str, Any]:
    """How many of everything there are."""
    topics = list(registry.shelf)
    return {
        "topics": len(topics),
        "subscriptions": sum(len(topic.subscriptions) for topic in topics),
        "publishers": sum(len(topic.publishers) for topic in topics),
        "problems": len(registry.problems()),
    }


def get(registry: Registry, body: Mapping[str, Any]) -> dict[str, Any]:
    """A topic, or one document."""
    if "key" in body:
        checks.text("key", body["key"])
        document = registry.shelf.document(body["key"])
        if document is None:
            why = registry.shelf.problems.get(body["key"], "there is no document under this key")
            raise RegistryError(why, key=body["key"])
        return {"key": body["key"], "document": _plain(document)}
    checks.topic(body.get("topic"))
    topic = registry.shelf.topics.get(body["topic"])
    if topic is None:
        raise UnknownTopic(topic=body["topic"])
    if body.get("as", "json") == "turtle":
        return {"topic": topic.name, "turtle": to_turtle(_version(topic, body.get("version")))}
    checks.text("as", body.get("as", "json"), "json", "turtle")
    return _described(topic)


def listed(registry: Registry, body: Mapping[str, Any]) -> dict[str, Any]:
    """The topics in the order of their names, in portions."""
    after, limit = body.get("after", ""), body.get("limit", MAX_LISTED)
    checks.text("after", after)
    checks.count("limit", limit, MAX_LISTED)
    names = [topic for topic in registry.shelf if topic.name > after]
    problems = sorted(registry.problems().items())
    return {
        "topics": [_line(topic) for topic in names[:limit]],
        "complete": len(names) <= limit,
        "problems": dict(problems[:MAX_PROBLEMS]),
    }


def _line(topic: TopicRecord) -> dict[str, Any]:
    schema = topic.schema
    return {
        "topic": topic.name,
        "version": schema.version if schema is not None else None,
        "fingerprint": topic.document.fingerprint if topic.document is not None else None,
        "properties": len(schema.properties) if schema is not None else None,
        "subscriptions": len(topic.subscriptions),
        "publishers": len(topic.publishers),
        "wanted": topic.config.wanted if topic.config is not None else None,
    }


def _described(topic: TopicRecord) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "settings": to_document(topic.document)["settings"] if topic.document is not None else None,
        "schema": topic.schema.to_document() if topic.schema is not None else None,
        "config": to_document(topic.config) if topic.config is not None else None,
        "versions": sorted((schema.version, name) for name, schema in topic.schemas.items()),
        "subscriptions": [to_document(asked) for _, asked in sorted(topic.subscriptions.items())],
        "publishers": [to_document(one) for _, one in sorted(topic.publishers.items())],
    }


def _version(topic: TopicRecord, version: Any) -> Schema:
    found = topic.schema if version is None else None
    if version is not None:
        checks.count("version", version)
        found = next((schema for schema in topic.schemas.values() if schema.version == version), None)
    if found is None:
        known = sorted(schema.version for schema in topic.schemas.values())
        raise RegistryError("the topic has no such schema", topic=topic.name, version=version, known=known)
    return found


def _plain(document: Document | Schema) -> dict[str, Any]:
    return document.to_document() if isinstance(document, Schema) else to_document(document)
