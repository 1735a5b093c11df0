"""What the publishers, subscribers and services of a service world are: drawn from the seed of the world."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Any

from random_events import draw_tolerance

from thinwire.dictionaries import Dictionary
from thinwire.dictionaries.policies import Keep, Prolong, Proposal, Replace
from thinwire.dictionaries.policies.policy import DictionaryPolicy
from thinwire.dictionaries.policies.policy_catalogue import register_policy
from thinwire.dictionaries.topology import Topology
from thinwire.filters.where.where_grammar import parse_where
from thinwire.schema import Kind, Schema
from thinwire.schema.kind import TOLERANT_KINDS
from thinwire.topics.topic_documents import SubscriptionDocument

_CONDITIONS: dict[Kind, tuple[str, ...]] = {
    Kind.NUMBER: ("{} > 0", "{} between -5 and 8", "not {} < 2", "{} != 0"),
    Kind.INTEGER: ("{} >= 1", "{} in (0, 1, 3)", "{} < 4"),
    Kind.FLOAT: ("{} > 20", "{} not between 0 and 15.5"),
    Kind.BOOLEAN: ("{} = true", "{} != true"),
    Kind.ENUM: ("{} in ('on', 'auto')", "{} != 'fault 7'"),
    Kind.STRING: ("{} < 'note 5'",),
}


def draw_settings(random: Random) -> dict[str, Any]:
    """Return settings of a topic."""
    return {
        "retain": random.random() < 0.8,
        "format": random.choice(("compact", "compact", "json")),
        "key_frame_interval": random.choice((3.0, 10.0, 60.0)),
        "max_silence": random.choice((1.5, 4.0)),
        "audit_every": random.choice((0, 0, 5)),
        "mode": random.choice(("predict", "hold")),
        "predictor": random.choice(("auto", "last", "last", "linear", "trend", "cadence")),
    }


@dataclass(frozen=True)
class SubscriberPlan:
    """One subscriber.

    joins, leaves: in seconds; None if it stays; pause: seconds that it spends on one message in ten
    """

    document: SubscriptionDocument
    start: str
    joins: float
    leaves: float | None
    pause: float

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of `Bus.subscribe`."""
        document = self.document
        return {
            "tolerance": document.tolerance,
            "default_tolerance": document.default_tolerance,
            "properties": document.properties,
            "sources": document.sources,
            "where": document.where,
            "emit": document.emit,
            "exact": document.exact,
            "durable": document.durable,
            "start": self.start,
        }


def draw_subscriber(schema: Schema, random: Random, identity: str, seconds: float) -> SubscriberPlan:
    """Return a subscriber that the schema can serve."""
    document = draw_document(schema, random, identity)
    if random.random() < 0.35:
        document = add_predicate(document, schema, random)
    return SubscriberPlan(
        document,
        random.choice(("latest", "latest", "earliest")),
        joins=random.choice((0.0, 0.0, random.uniform(0, seconds))),
        leaves=random.uniform(seconds / 2, seconds) if random.random() < 0.2 else None,
        pause=random.choice((0.0, 0.0, 0.2, 1.0)),
    )


def draw_document(schema: Schema, random: Random, identity: str) -> SubscriptionDocument:
    """Return a subscription without a predicate."""
    measured = [p for p in schema.wire if p is not schema.time]
    properties = None
    if random.random() < 0.3:
        properties = tuple(p.name for p in random.sample(measured, random.randint(1, len(measured))))
    selected = [p for p in measured if properties is None or p.name in properties]
    tolerant = [p for p in selected if p.kind in TOLERANT_KINDS]
    tolerances = {p.name: draw_tolerance(p, random) for p in tolerant if random.random() < 0.6}
    exact = tuple(p.name for p in selected if p.name not in tolerances) if random.random() < 0.1 else False
    sources = None
    if schema.dimensions and random.random() < 0.3:
        sources = {"sensor": random.choice((["s0"], ["s0", "s1"], ["s1", "s5"]))}
    return SubscriptionDocument(
        schema.name,
        identity,
        tolerances,
        default_tolerance=random.choice((0, 0.5, 2, 5)),
        exact=exact,
        properties=properties,
        sources=sources,
        emit=random.choice(("all", "all", "changes")),
        durable=identity if random.random() < 0.5 else None,
    )


def add_predicate(document: SubscriptionDocument, schema: Schema, random: Random) -> SubscriptionDocument:
    """Return the subscription with a predicate on one or two properties, if any can be compared."""
    comparable = [p for p in schema.wire if p.kind in _CONDITIONS and p is not schema.time]
    if not comparable:
        return document
    chosen = random.sample(comparable, random.randint(1, min(2, len(comparable))))
    conditions = [random.choice(_CONDITIONS[p.kind]).format(p.name) for p in chosen]
    if random.random() < 0.3:
        conditions.append(random.choice(("sensor != 's0'", "sensor in ('s0', 's2')")))
    where = random.choice((" and ", " or ")).join(conditions)
    names = parse_where(where).names
    tolerance = {name: value for name, value in document.tolerance.items() if name not in names}
    return replace(document, tolerance=tolerance, where=where)


class RandomPolicy(DictionaryPolicy):
    """Keeps, prolongs, replaces and withdraws dictionaries at random.

    trained: every dictionary that it has proposed, by hash
    """

    name = "random"
    current: tuple[Random, dict[bytes, Dictionary]] = (Random(0), {})
    """arguments of the policies of the world that runs"""

    def __init__(self, random: Random, trained: dict[bytes, Dictionary]) -> None:
        self.trained = trained
        self._random = random
        self._latest: list[bytes] = []

    def offer(self, message: bytes) -> None:
        self._latest = [*self._latest, message][-8:]

    def propose(self) -> Proposal:
        draw = self._random.random()
        if draw < 0.3 and self._latest:
            codec = self._random.choice(("zstd", "zlib"))
            dictionary = Dictionary(b"".join(self._latest), codec, self._random.choice((3, 6)), largest=256)
            self.trained[dictionary.hash] = dictionary
            return Replace(dictionary, self._random.choice((None, 10, 100)), {"draw": draw})
        if draw < 0.4:
            return Prolong(self._random.choice((None, 10, 100)), {"draw": draw})
        return Replace(None, None, {"draw": draw}) if draw < 0.45 else Keep()


def create_random_policy(topology: Topology, budget: float) -> RandomPolicy:
    """Create the policy with the random numbers and the record of the world that runs."""
    return RandomPolicy(*RandomPolicy.current)


register_policy(RandomPolicy.name, create_random_policy)
