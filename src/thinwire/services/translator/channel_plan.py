"""Decides which demand classes of a topic have a channel. No I/O; the time is an argument.

A class gets a channel as soon as its demand differs from what the log contains. The channel stays open for `grace`
seconds after its last subscription left or the log became sufficient, so that a short interruption does not restart it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from thinwire.errors import ThinwireError
from thinwire.schema import Schema
from thinwire.services.demand_index import DemandIndex
from thinwire.services.registry.document_cache import TopicRecord
from thinwire.topics.channel_documents import State
from thinwire.topics.demand_class import MAX_CLASSES, DemandClass
from thinwire.topics.static_properties import factored
from thinwire.topics.topic_documents import SubscriptionDocument
from thinwire.topics.topic_settings import ConfigDocument

_MAX_REASON = 240

_LOG_SUFFICIENT = "the log satisfies the demand"
_NOT_CONFIGURED = "publishers have no configuration yet"
_HAS_MIN_INTERVAL = "publishers omit events (min_interval), so a channel could not guarantee a tolerance"


class ServingDecision(NamedTuple):
    """How a class is served: by a channel ("open"), by the log, or refused with a reason."""

    demand: DemandClass
    state: State
    reason: str = ""


class ChannelDecider:
    """Decides for every class of a topic whether it needs a channel.

    Decisions are cached: an update costs time in proportion to the changed subscriptions.

    decisions: the last ones
    """

    def __init__(self) -> None:
        self.decisions: dict[str, ServingDecision] = {}
        self._index = DemandIndex(_demand_text, DemandClass.of)
        self._decided_for: tuple[Schema | None, ConfigDocument | None] = (None, None)

    def decide(self, topic: TopicRecord, changed: Iterable[str] | None = None) -> dict[str, ServingDecision]:
        """Return the decision for every class, ordered by the age of its oldest subscription.

        changed: identities of subscriptions that were added, removed or changed since the last call; None for all.
            Without a change the same object is returned
        """
        for identity in self._index.identities | topic.subscriptions.keys() if changed is None else changed:
            document = topic.subscriptions.get(identity)
            self._index.update(identity, document if document is not None and not document.log else None)
        has_changed, self._index.changed = self._index.changed, False
        if (topic.schema, topic.config) != self._decided_for:
            self._decided_for = topic.schema, topic.config
            self.decisions, has_changed = {}, True
        if has_changed:
            self.decisions = {
                demand.id: self.decisions.get(demand.id) or _decide_class(topic, demand) for demand in self._classes()
            }
        return self.decisions

    def _classes(self) -> list[DemandClass]:
        """Return the distinct classes; different texts such as 0.5 and 0.50 may describe the same one."""
        groups = sorted(self._index.groups(), key=lambda group: (group.oldest.since, group.oldest.identity))
        distinct: dict[str, DemandClass] = {}
        for group in groups:
            distinct.setdefault(group.value.id, group.value)
        return list(distinct.values())


class ChannelPlan:
    """The classes of one topic that have a channel.

    grace: seconds that a channel stays open after it is no longer needed
    """

    def __init__(self, grace: float) -> None:
        self.grace = grace
        self._open: dict[str, DemandClass] = {}
        self._open_by_mode = Counter[str]()
        self._close_at: dict[str, float] = {}

    def resume(self, classes: Iterable[DemandClass]) -> None:
        """Set the classes that have a channel already. They take precedence over new ones at the limit."""
        for demand in classes:
            self._add(demand)

    def update(self, decisions: Mapping[str, ServingDecision], now: float) -> dict[str, ServingDecision]:
        """Return how each class is served now. A class that is not in the result is no longer served."""
        self._close_expired(decisions, now)
        served = {class_id: self._admit(decision) for class_id, decision in decisions.items()}
        for class_id, demand in self._open.items():
            served[class_id] = ServingDecision(demand, "open")
        return served

    @property
    def is_idle(self) -> bool:
        """Report whether no class has a channel."""
        return not self._open

    @property
    def is_stable(self) -> bool:
        """Report whether the result stays the same until the decisions change."""
        return not self._close_at

    def _close_expired(self, decisions: Mapping[str, ServingDecision], now: float) -> None:
        for class_id in list(self._open):
            if class_id in decisions and decisions[class_id].state == "open":
                self._close_at.pop(class_id, None)
            elif self._close_at.setdefault(class_id, now + self.grace) <= now:
                self._open_by_mode[self._open.pop(class_id).mode] -= 1
                del self._close_at[class_id]

    def _admit(self, decision: ServingDecision) -> ServingDecision:
        if decision.state != "open" or decision.demand.id in self._open:
            return decision
        mode = decision.demand.mode
        if self._open_by_mode[mode] >= MAX_CLASSES[mode]:
            return ServingDecision(decision.demand, "refused", _limit_reason(mode))
        self._add(decision.demand)
        return decision

    def _add(self, demand: DemandClass) -> None:
        self._open_by_mode[demand.mode] += demand.id not in self._open
        self._open[demand.id] = demand


def _demand_text(document: SubscriptionDocument) -> str:
    fields = document.tolerance, document.default_tolerance, document.exact, document.properties
    return repr((*fields, document.sources, document.emit, document.where))


def _decide_class(topic: TopicRecord, demand: DemandClass) -> ServingDecision:
    if topic.schema is None or topic.config is None or not topic.config.wanted:
        return ServingDecision(demand, "log", _NOT_CONFIGURED)
    if topic.config.demand.min_interval:
        return ServingDecision(demand, "log", _HAS_MIN_INTERVAL)
    wire_schema = factored(topic.schema)
    try:
        demand.check()
        is_log = demand.is_log_sufficient(wire_schema, topic.config.demand)
    except ThinwireError as problem:
        return ServingDecision(demand, "log", str(problem)[:_MAX_REASON])
    return ServingDecision(demand, "log", _LOG_SUFFICIENT) if is_log else ServingDecision(demand, "open")


def _limit_reason(mode: str) -> str:
    alternative = " or emit='changes'" if mode == "predict" else ""
    return (
        f"the topic has the maximum of {MAX_CLASSES[mode]} channels: use tolerances of other "
        f"subscriptions{alternative}. Until then the subscription reads the log"
    )
