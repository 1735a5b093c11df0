"""What a watcher is handed: the values that moved, in their own units, and what is known about it.

What a watch tells beside notifications, as its watcher knows it from subscriptions.

>>> notice_of(WatchNotice("missed", "rooms", "p1", {"source": ["11.1"], "first": 3, "last": 7, "reason": "gap"}))
EventsMissed(publisher='p1', source=('11.1',), first=3, last=7, reason='gap')
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from thinwire.client.notices import BoundExceeded, MessageUnreadable, Notice, PublisherLost
from thinwire.codec import EventsMissed
from thinwire.codec.value_conversion import restorer
from thinwire.filters.composite import Condition, Delivery, Quantity
from thinwire.topics.topic import TopicMetadata
from thinwire.topics.watches.watch_documents import WatchNotice
from thinwire.topics.watches.watch_quantities import MICROSECONDS

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class WatchPosition(NamedTuple):
    """A place in the log of a watch: the offset of a record, and how many of its notifications come before."""

    offset: int
    within: int = 0


class Hit(dict[str, Any]):
    """A notification: a dict of the values that were delivered, under names such as `market[AAPL].price`.

    number: 1 for the first of a watch, then one more each: equal for the same notification when it comes again
    time: of the event that made the condition true, in seconds since the epoch
    conjuncts: the alternatives of the expression that were true, each as the names in it
    late: the event came behind others that happened later
    standing: not news, but what the watch has told before; where a watcher begins that joins others
    position: its place in the log of the watch; None where the watch is evaluated here

    >>> hit = Hit({"rooms[12].t": 21.5}, number=3, time=1.5, conjuncts=(("rooms[12].t",),))
    >>> hit["rooms[12].t"], hit.number, hit.instant.isoformat()
    (21.5, 3, '1970-01-01T00:00:01.500000+00:00')
    """

    __slots__ = ("conjuncts", "late", "number", "position", "standing", "time")

    def __init__(
        self,
        values: Mapping[str, Any],
        *,
        number: int,
        time: float,
        conjuncts: tuple[tuple[str, ...], ...] = (),
        late: bool = False,
        standing: bool = False,
        position: WatchPosition | None = None,
    ) -> None:
        super().__init__(values)
        self.number = number
        self.time = time
        self.conjuncts = conjuncts
        self.late = late
        self.standing = standing
        self.position = position

    @property
    def instant(self) -> datetime:
        """The time as a date."""
        return _EPOCH + timedelta(seconds=self.time)


class HitMaker:
    """From deliveries, which count in ticks, to hits."""

    def __init__(self, condition: Condition, topics: Mapping[str, TopicMetadata]) -> None:
        self._names = {quantity: str(quantity) for quantity in condition.quantities}
        self._restore: dict[Quantity, Callable[[int], Any]] = {
            quantity: restorer(topics[quantity.topic].schema[quantity.property]) for quantity in condition.quantities
        }
        self._conjuncts = [
            tuple(self._names[condition.quantities[place]] for place, _ in conjunct) for conjunct in condition.conjuncts
        ]

    def hit(self, delivery: Delivery, position: WatchPosition | None = None, *, standing: bool = False) -> Hit:
        """A notification as its watcher sees it."""
        return Hit(
            {self._names[quantity]: self._restore[quantity](value) for quantity, value in delivery.values.items()},
            number=delivery.number,
            time=delivery.order.time / MICROSECONDS,
            conjuncts=tuple(self._conjuncts[place] for place in delivery.conjuncts),
            late=delivery.late,
            standing=standing,
            position=position,
        )


def notice_of(told: WatchNotice) -> Notice:
    """The notice; exact is what a watch asks for, so its tolerance is 0."""
    facts = told.facts
    if told.kind == "missed":
        source = facts.get("source")
        whose = None if source is None else tuple(source)
        return EventsMissed(
            told.publisher, whose, facts.get("first"), facts.get("last"), str(facts.get("reason", "gap"))
        )
    if told.kind == "coarser":
        return BoundExceeded(told.publisher, str(facts.get("property", "")), facts.get("bound"), 0.0)
    if told.kind == "unreadable":
        return MessageUnreadable(told.publisher, facts.get("offset", 0), str(facts.get("reason", "")))
    return PublisherLost(told.topic, told.publisher, float(facts.get("seconds", 0.0)))
