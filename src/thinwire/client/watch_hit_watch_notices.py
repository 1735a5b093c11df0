"""What a watch tells beside notifications, as its watcher knows it from subscriptions.

>>> notice_of(WatchNotice("missed", "rooms", "p1", {"source": ["11.1"], "first": 3, "last": 7, "reason": "gap"}))
Missed(publisher='p1', source=('11.1',), first=3, last=7, reason='gap')
"""

from __future__ import annotations

from thinwire.client.notices import Coarser, Gone, Notice, Unreadable
from thinwire.codec import Missed
from thinwire.topics.watches.watch_documents_notices import WatchNotice


def notice_of(told: WatchNotice) -> Notice:
    """The notice; exact is what a watch asks for, so its tolerance is 0."""
    facts = told.facts
    if told.kind == "missed":
        source = facts.get("source")
        whose = None if source is None else tuple(source)
        return Missed(told.publisher, whose, facts.get("first"), facts.get("last"), str(facts.get("reason", "gap")))
    if told.kind == "coarser":
        return Coarser(told.publisher, str(facts.get("property", "")), facts.get("bound"), 0.0)
    if told.kind == "unreadable":
        return Unreadable(told.publisher, facts.get("offset", 0), str(facts.get("reason", "")))
    return Gone(told.topic, told.publisher, float(facts.get("seconds", 0.0)))
