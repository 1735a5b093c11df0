"""The subscriptions of a topic by what they ask for: a hundred thousand of them may form a thousand classes.

>>> crowd = SubscriptionGroups()
>>> for number, t in enumerate((0.5, 1, "0.50")):
...     subscription = SubscriptionDocument("rooms", f"s{number}", {"t": t}, since=9.0 - number)
...     crowd.update_subscription(f"s{number}", subscription)
>>> [asked.tolerance for asked in crowd.classes()]
[{'t': 0.5}, {'t': 1}]

Which classes of a topic have a channel: what is asked, what the log already is, and how many there may be.

A class is opened as soon as it asks for something that the log is not, and stays open for `grace` seconds after its
last subscriber left, or after the log has become what it asks: whoever comes and goes does not make anybody start over.
No I/O; the time is an argument.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from thinwire.errors import ThinwireError
from thinwire.schema import Schema
from thinwire.services.registry.document_cache import TopicRecord
from thinwire.topics.channel_documents import State
from thinwire.topics.demand_class import MAX_CLASSES, DemandClass
from thinwire.topics.static_properties import factored
from thinwire.topics.topic_documents import SubscriptionDocument
from thinwire.topics.topic_settings import ConfigDocument, demand_for

First = tuple[float, str]
"""since when a subscription is there, and its identity"""


@dataclass(slots=True)
class _Class:
    """Those who ask for the same; first: the one of them who was there first; texts: how they say it."""

    asked: DemandClass
    members: dict[str, float] = field(default_factory=dict)
    first: First = (math.inf, "")
    texts: set[str] = field(default_factory=set)


class SubscriptionGroups:
    """Who asks for what.

    moved: has a class come or gone, or has another one been there first?
    """

    def __init__(self) -> None:
        self.moved = False
        self._heard: dict[str, tuple[SubscriptionDocument, _Class]] = {}
        self._classes: dict[str, _Class] = {}
        self._written: dict[str, _Class] = {}

    @property
    def identities(self) -> Set[str]:
        """Of all who ask."""
        return self._heard.keys()

    def classes(self) -> list[DemandClass]:
        """What is asked for, the first to ask first."""
        return [one.asked for one in sorted(self._classes.values(), key=lambda one: one.first)]

    def update_subscription(self, identity: str, asked: SubscriptionDocument | None) -> None:
        """What a subscription asks for now; None where it is gone."""
        before = self._heard.get(identity)
        if before is not None and before[0] is asked:
            return
        if before is not None:
            del self._heard[identity]
            self._leave(identity, before[1])
        if asked is not None:
            self._heard[identity] = asked, self._join(identity, asked)

    def _join(self, identity: str, asked: SubscriptionDocument) -> _Class:
        found = self._class(asked)
        found.members[identity] = asked.since
        if (asked.since, identity) < found.first:
            found.first, self.moved = (asked.since, identity), True
        return found

    def _leave(self, identity: str, left: _Class) -> None:
        since = left.members.pop(identity)
        if not left.members:
            del self._classes[left.asked.id]
            for text in left.texts:
                del self._written[text]
            self.moved = True
        elif left.first == (since, identity):
            left.first = min((when, who) for who, when in left.members.items())
            self.moved = True

    def _class(self, asked: SubscriptionDocument) -> _Class:
        """Those who ask for the same. To work out what that is takes a while, and most say it as others do."""
        fields = (asked.tolerance, asked.default_tolerance, asked.exact, asked.properties, asked.sources, asked.emit)
        text = repr((*fields, asked.where))
        found = self._written.get(text)
        if found is None:
            demand = DemandClass.of(asked)
            found = self._written[text] = self._classes.setdefault(demand.id, _Class(demand))
            found.texts.add(text)
        return found


_MAX_REASON = 240

_THE_LOG = "the log is what it asks for"
_UNKNOWN = "publishers have not been told what to do yet"
_THINNED = "publishers leave events out (min_interval): only the log says which"


class ServingDecision(NamedTuple):
    """How a class shall be served."""

    asked: DemandClass
    state: State
    reason: str = ""


class ChannelDecider:
    """Says of every class of a topic whether it needs a channel; what it has looked at once it remembers.

    A hundred thousand subscriptions may ask: only those are looked at that have changed.
    """

    def __init__(self) -> None:
        self._groups = SubscriptionGroups()
        self._verdicts: dict[str, ServingDecision] = {}
        self._told: tuple[Schema | None, ConfigDocument | None] = (None, None)

    def verdicts(self, topic: TopicRecord, changed: Iterable[str] | None = None) -> dict[str, ServingDecision]:
        """Every class that is asked for, "open" where it needs a channel; the first to ask stand first.

        changed: the identities of subscriptions that came, went or ask for something else since the last time; None
            where anybody may have. The same answer as before is the same object
        """
        for identity in self._groups.identities | topic.subscriptions.keys() if changed is None else changed:
            asked = topic.subscriptions.get(identity)
            self._groups.update_subscription(identity, asked if asked is not None and not asked.log else None)
        moved, self._groups.moved = self._groups.moved, False
        if (topic.schema, topic.config) != self._told:
            self._told = topic.schema, topic.config
            self._verdicts, moved = {}, True
        if moved:
            self._verdicts = {asked.id: self._verdict(topic, asked) for asked in self._groups.classes()}
        return self._verdicts

    def _verdict(self, topic: TopicRecord, asked: DemandClass) -> ServingDecision:
        known = self._verdicts.get(asked.id)
        return known if known is not None else _judge(topic, asked)


class ChannelPlan:
    """The classes of one topic, and how each is to be served.

    grace: seconds that a channel stays open when it is no longer needed
    """

    def __init__(self, grace: float) -> None:
        self.grace = grace
        self._open: dict[str, DemandClass] = {}
        self._taken = Counter[str]()
        self._until: dict[str, float] = {}

    def resume(self, classes: Iterable[DemandClass]) -> None:
        """These had a channel already; they come before those that ask for one now."""
        for asked in classes:
            self._keep(asked)

    def decide(self, asked: Mapping[str, ServingDecision], now: float) -> dict[str, ServingDecision]:
        """How each class is to be served now, by what is asked; a class that is not in it is served no longer."""
        self._outlive(asked, now)
        served = {name: self._place(one) for name, one in asked.items()}
        for name, one in self._open.items():
            served[name] = ServingDecision(one, "open")
        return served

    @property
    def idle(self) -> bool:
        """Has no class a channel?"""
        return not self._open

    @property
    def settled(self) -> bool:
        """Is everything as it is going to be, while the same is asked?"""
        return not self._until

    def _outlive(self, asked: Mapping[str, ServingDecision], now: float) -> None:
        """Close what has not been needed for a while."""
        for name in list(self._open):
            if name in asked and asked[name].state == "open":
                self._until.pop(name, None)
            elif self._until.setdefault(name, now + self.grace) <= now:
                self._taken[self._open.pop(name).mode] -= 1
                del self._until[name]

    def _place(self, one: ServingDecision) -> ServingDecision:
        if one.state != "open" or one.asked.id in self._open:
            return one
        mode = one.asked.mode
        if self._taken[mode] >= MAX_CLASSES[mode]:
            return ServingDecision(one.asked, "refused", _advice(mode))
        self._keep(one.asked)
        return one

    def _keep(self, asked: DemandClass) -> None:
        self._taken[asked.mode] += asked.id not in self._open
        self._open[asked.id] = asked


def _judge(topic: TopicRecord, asked: DemandClass) -> ServingDecision:
    if topic.schema is None or topic.config is None or not topic.config.wanted:
        return ServingDecision(asked, "log", _UNKNOWN)
    if topic.config.demand.min_interval:
        return ServingDecision(asked, "log", _THINNED)
    travelling = factored(topic.schema)
    try:
        asked.check()
        is_log = asked.is_log(travelling, demand_for(travelling, topic.config.demand))
    except ThinwireError as problem:
        return ServingDecision(asked, "log", str(problem)[:_MAX_REASON])
    return ServingDecision(asked, "log", _THE_LOG) if is_log else ServingDecision(asked, "open")


def _advice(mode: str) -> str:
    limit = MAX_CLASSES[mode]
    if mode == "predict":
        return (
            f"{limit} classes of this topic have a channel, the most there may be: ask for tolerances that others ask "
            "for, or emit='changes'. Until then it reads the log"
        )
    return (
        f"{limit} classes of this topic have a channel, the most there may be: ask for tolerances that others ask for. "
        "Until then it reads the log"
    )
