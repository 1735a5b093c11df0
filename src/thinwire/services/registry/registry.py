"""The registry as a state machine: bucket entries in, documents to write out. No I/O; the time is an argument.

The result follows from the documents alone: a restarted registry writes the same configurations, and several registries
agree. Two rules depend on time:

    grace       a removed or relaxed subscription counts for `grace` seconds, so that a subscription that restarts does
                not change the configuration of publishers. A stricter request applies immediately.
    liveness    a subscription that is not durable is removed after `misses` probes without an answer
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from thinwire.brokers.protocol import Bucket, BucketEntry
from thinwire.codec import resolve
from thinwire.errors import ThinwireError
from thinwire.schema import Schema
from thinwire.services.demand_index import DemandIndex
from thinwire.services.registry.document_cache import DocumentCache, TopicRecord
from thinwire.topics.names import config_key
from thinwire.topics.static_properties import factored
from thinwire.topics.tolerance_budget import Budget, budget, budget_of_demand, nearest_budget, strictest_budget
from thinwire.topics.topic_documents import SubscriptionDocument, TopicDocument, encode
from thinwire.topics.topic_settings import ConfigDocument, demand_for


class Write(NamedTuple):
    """A document to store under a key, None to delete it, if the key still has `revision`."""

    key: str
    value: bytes | None
    revision: int


def make_demand_index() -> DemandIndex[None]:
    """Return an index of subscriptions by what they request of publishers."""
    return DemandIndex(_demand_key, lambda _: None)


def _demand_key(document: SubscriptionDocument) -> str:
    exact = document.exact, document.predicate_names
    return repr((document.tolerance, document.default_tolerance, exact, document.properties))


@dataclass
class _Probe:
    due: float
    missed: int = 0


class SubscriptionProbes:
    """Liveness of the subscriptions that are not durable.

    interval: seconds between two probes of a subscription
    misses: probes without an answer after which it is removed
    """

    def __init__(self, interval: float, misses: int) -> None:
        self.interval = interval
        self.misses = misses
        self._probes: dict[str, _Probe] = {}

    def update(self, key: str, document: SubscriptionDocument | None, now: float) -> None:
        """Start, restart or end the probes of a subscription."""
        if document is None or document.durable is not None:
            self._probes.pop(key, None)
        else:
            self._probes[key] = _Probe(now + self.interval)

    def take_due(self, now: float) -> list[str]:
        """Return the keys of the subscriptions to probe now; each is due again after the interval."""
        due = [key for key, probe in sorted(self._probes.items()) if probe.due <= now]
        for key in due:
            self._probes[key].due = now + self.interval
        return due

    def record(self, key: str, answered: bool) -> None:
        probe = self._probes.get(key)
        if probe is not None:
            probe.missed = 0 if answered else probe.missed + 1

    def list_missing(self) -> list[str]:
        """Return the keys of the subscriptions to remove."""
        return [key for key, probe in sorted(self._probes.items()) if probe.missed >= self.misses]


class _Removed(NamedTuple):
    """A subscription before it was removed or changed, and the end of its grace period."""

    document: SubscriptionDocument
    until: float


@dataclass
class _TopicState:
    """What the registry holds of a topic beside its documents.

    demands: demands of the present subscriptions; removed: those in their grace period, each demand once
    version: highest version of the configuration so far
    next_decision: time of the next decision; None until a document changes
    inherited_revision: revision of the configuration that existed when the registry started
    problems: requests and settings that cannot be honoured
    """

    demands: DemandIndex[None] = field(default_factory=make_demand_index)
    removed: dict[bytes, _Removed] = field(default_factory=dict)
    version: int = 0
    next_decision: float | None = None
    inherited_revision: int | None = None
    problems: tuple[str, ...] = ()

    def is_due(self, now: float) -> bool:
        return self.next_decision is not None and self.next_decision <= now


class Registry:
    """Derives the configuration of each topic from its settings and subscriptions.

    grace: seconds that a removed subscription counts
    probe_every: seconds between two probes of a subscription
    misses: probes without an answer after which it is removed

    >>> from thinwire.schema import Property
    >>> from thinwire.topics.names import schema_key
    >>> from thinwire.topics.topic_documents import decode
    >>> rooms = Schema("rooms", [Property("t", "number", step="0.1")])
    >>> registry = Registry()
    >>> registry.apply(BucketEntry(schema_key("rooms", rooms.fingerprint), encode(rooms), 1), now=0.0)
    >>> registry.apply(BucketEntry("topic.rooms", encode(TopicDocument("rooms", rooms.fingerprint.hex())), 2), now=0.0)
    >>> document = SubscriptionDocument("rooms", "a", {"t": 0.5})
    >>> registry.apply(BucketEntry(document.key, encode(document), 3), now=0.0)
    >>> [write] = registry.decide(now=0.0)
    >>> decode(write.key, write.value).demand.tolerance
    {'t': 0.5}
    """

    def __init__(self, *, grace: float = 10.0, probe_every: float = 5.0, misses: int = 2) -> None:
        self.grace = grace
        self.documents = DocumentCache()
        self._probes = SubscriptionProbes(probe_every, misses)
        self._topics: dict[str, _TopicState] = {}
        self._inherited_until: float | None = None

    def apply(self, entry: BucketEntry, now: float) -> None:
        """Apply a change of the bucket."""
        before = self._find_subscription(entry.key)
        topic = self.documents.put(entry)
        if topic is None:
            return
        after = self._find_subscription(entry.key)
        state = self._topics.setdefault(topic, _TopicState())
        state.next_decision = -math.inf
        subscription = after or before
        if subscription is not None:
            state.demands.update(subscription.identity, after)
        if before is not None and before != after:
            demand = encode(replace(before, since=0))  # equal for every restart of a subscription
            state.removed[demand] = _Removed(before, now + self.grace)
        self._probes.update(entry.key, after, now)
        record = self.documents.topics.get(topic)
        if record is not None and record.config is not None:
            state.version = max(record.config.version, state.version)

    def decide(self, now: float) -> list[Write]:
        """Return the writes that are due. They are returned again until they are applied.

        Call it after all present documents have been applied: a missing document counts as removed.
        """
        if self._inherited_until is None:
            self._inherited_until = now + self.grace
            for name in self.documents.topics:
                self._topics[name].inherited_revision = self.documents.revision(config_key(name))
        writes = [Write(key, None, self.documents.revision(key)) for key in self._probes.list_missing()]
        for name in sorted(name for name, state in self._topics.items() if state.is_due(now)):
            state = self._topics[name]
            write = self._decide_topic(name, state, now)
            if write is not None:
                writes.append(write)
            else:
                state.next_decision = self._find_next_decision(name, state, now)
        return writes

    def take_due_probes(self, now: float) -> list[SubscriptionDocument]:
        """Return the subscriptions to probe now; each is due again after the interval."""
        found = (self._find_subscription(key) for key in self._probes.take_due(now))
        return [document for document in found if document is not None]

    def record_probe(self, probed: SubscriptionDocument, answered: bool) -> None:
        """Record the result of a probe. A probe that failed for another reason than no answer is not recorded."""
        if self._find_subscription(probed.key) == probed:
            self._probes.record(probed.key, answered)

    def problems(self) -> dict[str, str]:
        """Invalid documents and requests that cannot be honoured, as sentences by key."""
        budgets = {
            config_key(name): "; ".join(state.problems) for name, state in self._topics.items() if state.problems
        }
        return self.documents.problems | budgets

    def _find_subscription(self, key: str) -> SubscriptionDocument | None:
        document = self.documents.find(key)
        return document if isinstance(document, SubscriptionDocument) else None

    def _decide_topic(self, name: str, state: _TopicState, now: float) -> Write | None:
        """Write the configuration of a topic if it differs from the stored one."""
        state.removed = {demand: removed for demand, removed in state.removed.items() if removed.until > now}
        state.problems = ()
        record = self.documents.topics.get(name)
        if record is None or record.document is None:
            return None
        if record.schema is None:
            state.problems = (f"the schema {record.document.fingerprint} of the topic is missing",)
            return None
        try:
            config = self._make_config(record, record.document, record.schema, state, now)
        except ThinwireError as problem:
            state.problems = (*state.problems, str(problem))
            return None
        if record.config is not None and replace(config, version=record.config.version) == record.config:
            return None
        return Write(config.key, encode(config), self.documents.revision(config.key))

    def _make_config(
        self, record: TopicRecord, document: TopicDocument, schema: Schema, state: _TopicState, now: float
    ) -> ConfigDocument:
        topic_budget = self._make_budget(record, document, schema, state, now)
        state.problems = topic_budget.problems
        wire_schema, settings = factored(schema), document.settings
        demand = demand_for(wire_schema, topic_budget.demand(schema, settings))
        resolve(wire_schema, demand)
        return ConfigDocument(
            record.name,
            self._next_version(record, state),
            topic_budget.wanted,
            demand,
            dictionaries=settings.dictionaries,
            unknown=record.config.unknown if record.config is not None else {},
            **settings.stream,
        )

    def _make_budget(
        self, record: TopicRecord, document: TopicDocument, schema: Schema, state: _TopicState, now: float
    ) -> Budget:
        demands = [group.oldest for group in state.demands.groups()]
        needed = budget(schema, demands, document.settings)
        if record.config is None:
            return needed
        removed = [removed.document for removed in state.removed.values()]
        with_removed = budget(schema, [*demands, *removed], document.settings) if removed else needed
        current = budget_of_demand(schema, record.config.demand, record.config.wanted)
        if self._is_inherited(record.name, state, now) and current.wanted:
            # subscriptions removed before this registry started are unknown and have their grace period as well
            with_removed = strictest_budget(with_removed, current)
        return nearest_budget(current, needed, with_removed)

    def _is_inherited(self, name: str, state: _TopicState, now: float) -> bool:
        """Return True within `grace` seconds of the start, if the configuration has not changed since."""
        recent = self._inherited_until is not None and now < self._inherited_until
        return recent and state.inherited_revision == self.documents.revision(config_key(name))

    def _next_version(self, record: TopicRecord, state: _TopicState) -> int:
        """Return a version above all earlier ones. The version of a deleted document was not above its revision."""
        revision = 0 if record.config is not None else self.documents.last_revision(config_key(record.name))
        return max(state.version, revision) + 1

    def _find_next_decision(self, name: str, state: _TopicState, now: float) -> float | None:
        ends = [removed.until for removed in state.removed.values()]
        if self._inherited_until is not None and self._is_inherited(name, state, now):
            ends.append(self._inherited_until)
        return min(ends, default=None)


async def load_registry(bucket: Bucket, now: float = 0.0) -> Registry:
    """Return a registry with all documents of the bucket, to list and describe them."""
    registry = Registry()
    for entry in await bucket.entries():
        registry.apply(entry, now)
    registry.decide(now)
    return registry
