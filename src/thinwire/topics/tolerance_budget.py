"""Tolerance budget: the strictest tolerance per property over all subscriptions of a topic.

A subscription with `exact` requests 0. A subscription that does not select a property does not constrain it. A property
that no subscription selects gets the loosest tolerance, because its values are not delivered. A selection of sources
has no influence: a publisher has one tolerance per property for all its sources. A property without a tolerance keeps
the idle band of its schema.

>>> rooms = Schema("rooms", [Property("t", "number", step="0.1", minimum=0, maximum=50), Property("on", "boolean")])
>>> requests = [SubscriptionDocument("rooms", "a", {"t": "1%"}), SubscriptionDocument("rooms", "b", {"t": 2})]
>>> budget(rooms, requests).demand(rooms, Settings()).tolerance
{'t': 0.5}
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from thinwire.codec import Demand
from thinwire.codec.tolerance_vector import EXACT, ToleranceVector, read_tolerance, round_down, write_tolerance
from thinwire.errors import DemandError
from thinwire.schema import Property, Schema
from thinwire.topics.topic_documents import SubscriptionDocument
from thinwire.topics.topic_settings import Settings


@dataclass(frozen=True)
class Budget:
    """What the subscriptions of a topic request of its publishers.

    wanted: publishers send events
    requested: at least one subscription, or the settings, request a tolerance
    amounts: tolerance of each property that is sent
    idle: properties with an idle band and without a requested tolerance, so that the band applies
    default: tolerance of properties without one of their own
    problems: requests that the schema cannot honour, as sentences
    """

    wanted: bool
    requested: bool
    amounts: ToleranceVector
    idle: frozenset[str] = frozenset()
    default: Fraction = EXACT
    problems: tuple[str, ...] = ()

    def demand(self, schema: Schema, settings: Settings) -> Demand:
        """The demand for publishers. Tolerances that equal the default are left out."""
        default = round_down(self.default)
        tolerance = {
            p.name: write_tolerance(self.amounts[p.name])
            for p in sent_properties(schema)
            if p.name not in self.idle
            # a tolerance of its own disables the idle band of a property
            and (p.idle_band is not None or self.amounts[p.name] != read_tolerance(p, {}, default))
        }
        return Demand(tolerance, default, **settings.encoding)


def sent_properties(schema: Schema) -> list[Property]:
    """The properties with a tolerance: those in every event. Static properties are stored once and exact."""
    return [p for p in schema.wire if not p.static]


def budget(schema: Schema, subscriptions: Iterable[SubscriptionDocument], settings: Settings | None = None) -> Budget:
    """The budget of the subscriptions and of a retained log."""
    settings = settings or Settings()
    ordered = sorted(subscriptions, key=lambda document: document.identity)
    problems = [
        f"{one.key}: no property {name}" for one in ordered for name in one.named_properties if name not in schema
    ]
    documents = [*ordered]
    if settings.has_demand:  # the retained log requests its tolerance like a subscription
        demand = settings.demand
        documents.append(SubscriptionDocument(schema.name, "log", demand.tolerance, demand.default_tolerance))
    requests = [(document, _read_request(schema, document, problems)) for document in documents]
    amounts, idle = dict[str, Fraction](), set[str]()
    for p in sent_properties(schema):
        selecting = [(document, vector) for document, vector in requests if _selects(document, p.name)]
        strictest = min((vector[p.name] for _, vector in selecting), default=None)
        loosest = max((vector[p.name] for _, vector in requests), default=EXACT)
        amounts[p.name] = loosest if strictest is None else strictest
        if requests and p.idle_band is not None and not any(_names(document, p.name) for document, _ in selecting):
            idle.add(p.name)
    default = min((Fraction(str(document.default_tolerance)) for document in documents), default=EXACT)
    wanted = bool(ordered) or settings.retain
    return Budget(wanted, bool(requests), ToleranceVector(amounts), frozenset(idle), default, tuple(problems))


def budget_of_demand(schema: Schema, demand: Demand, wanted: bool) -> Budget:
    """The budget that a demand of publishers corresponds to."""
    document = SubscriptionDocument("demand", "demand", demand.tolerance, demand.default_tolerance)
    banded = {p.name for p in sent_properties(schema) if p.idle_band is not None}
    amounts = _read_request(schema, document, [])
    default = Fraction(str(demand.default_tolerance))
    return Budget(wanted, True, amounts, frozenset(banded - demand.tolerance.keys()), default)


def nearest_budget(current: Budget, needed: Budget, with_removed: Budget) -> Budget:
    """The budget closest to `current` that satisfies all subscriptions.

    current: the budget of the stored configuration
    needed: the budget of the present subscriptions
    with_removed: the budget with recently removed subscriptions, at least as strict as `needed`

    A looser tolerance is tightened to `needed`, a stricter one is loosened to `with_removed`, and one in between stays.
    Without present subscriptions, removed ones may return within the grace period, so neither end is preferred.
    """
    wanted = needed.wanted or (with_removed.wanted and current.wanted)
    if not wanted:
        return needed
    loose = needed if needed.requested else with_removed
    lowest, highest = needed.amounts.minimum(with_removed.amounts), needed.amounts.maximum(loose.amounts)
    amounts = current.amounts.maximum(lowest).minimum(highest)
    default = min(max(current.default, min(needed.default, with_removed.default)), max(needed.default, loose.default))
    idle = (needed.idle & with_removed.idle) | (current.idle & loose.idle)
    return Budget(wanted, needed.requested, amounts, idle, default, needed.problems)


def strictest_budget(one: Budget, other: Budget) -> Budget:
    """The budget that satisfies both."""
    wanted, requested = one.wanted or other.wanted, one.requested or other.requested
    amounts, default = one.amounts.minimum(other.amounts), min(one.default, other.default)
    return Budget(wanted, requested, amounts, one.idle & other.idle, default, one.problems)


def _read_request(schema: Schema, document: SubscriptionDocument, problems: list[str]) -> ToleranceVector:
    """The tolerances of one subscription. One that the schema cannot honour counts as exact and is reported.

    A percentage can lose its declared range in a newer version of the schema. Exact values satisfy any tolerance.
    """
    amounts: dict[str, Fraction] = {}
    for p in sent_properties(schema):
        amounts[p.name] = EXACT
        if not document.is_exact(p.name):
            try:
                amounts[p.name] = read_tolerance(p, document.tolerance, document.default_tolerance)
            except DemandError as problem:
                if _selects(document, p.name):
                    problems.append(f"{document.key}: {problem}")
    return ToleranceVector(amounts)


def _selects(document: SubscriptionDocument, name: str) -> bool:
    return document.properties is None or name in document.properties or name in document.predicate_names


def _names(document: SubscriptionDocument, name: str) -> bool:
    return name in document.tolerance or document.is_exact(name)
