"""The subscriptions of a topic by what they ask for: a hundred thousand of them may form a thousand classes.

>>> crowd = Crowd()
>>> for number, t in enumerate((0.5, 1, "0.50")):
...     crowd.hear(f"s{number}", SubscriptionDocument("rooms", f"s{number}", {"t": t}, since=9.0 - number))
>>> [asked.tolerance for asked in crowd.classes()]
[{'t': 0.5}, {'t': 1}]
"""

from __future__ import annotations

import math
from collections.abc import Set
from dataclasses import dataclass, field

from thinwire.topics.demand_class import DemandClass
from thinwire.topics.topic_documents import SubscriptionDocument

First = tuple[float, str]
"""since when a subscription is there, and its identity"""


@dataclass(slots=True)
class _Class:
    """Those who ask for the same; first: the one of them who was there first; texts: how they say it."""

    asked: DemandClass
    members: dict[str, float] = field(default_factory=dict)
    first: First = (math.inf, "")
    texts: set[str] = field(default_factory=set)


class Crowd:
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

    def hear(self, identity: str, asked: SubscriptionDocument | None) -> None:
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
