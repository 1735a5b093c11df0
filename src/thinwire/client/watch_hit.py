"""Hits: the notifications of a watch, with values in the units of their properties.

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
from thinwire.filters.composite.condition import Condition, Quantity
from thinwire.filters.composite.feed_sequencer import Delivery
from thinwire.topics.topic_metadata import TopicMetadata
from thinwire.topics.watches.watch_documents import WatchNotice
from thinwire.topics.watches.watch_quantities import MICROSECONDS

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class WatchPosition(NamedTuple):
    """A position in the log of a watch: the offset of a record, and the number of its notifications before it."""

    offset: int
    within: int = 0


class Hit(dict[str, Any]):
    """A notification: the delivered values by names such as `market[AAPL].price`.

    number: counts the notifications of a watch from 1; a repeated notification has the same number
    time: of the event that made the condition true, in seconds since the epoch
    conjuncts: the alternatives of the expression that were true, each as a tuple of names
    late: the event arrived after events with a later time
    standing: the values that the watch holds when a watcher joins; not a new notification
    position: in the log of the watch

    >>> hit = Hit({"rooms[12].t": 21.5}, number=3, time=1.5, position=WatchPosition(7), conjuncts=(("rooms[12].t",),))
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
        position: WatchPosition = WatchPosition(0),  # noqa: B008  # immutable
        conjuncts: tuple[tuple[str, ...], ...] = (),
        late: bool = False,
        standing: bool = False,
    ) -> None:
        super().__init__(values)
        self.number = number
        self.time = time
        self.position = position
        self.conjuncts = conjuncts
        self.late = late
        self.standing = standing

    @property
    def instant(self) -> datetime:
        """The time as a datetime."""
        return _EPOCH + timedelta(seconds=self.time)


class HitMaker:
    """Converts deliveries, whose values are ticks, to hits."""

    def __init__(self, condition: Condition, topics: Mapping[str, TopicMetadata]) -> None:
        self._names = {quantity: str(quantity) for quantity in condition.quantities}
        self._restore: dict[Quantity, Callable[[int], Any]] = {
            quantity: restorer(topics[quantity.topic].schema[quantity.property]) for quantity in condition.quantities
        }
        self._conjuncts = [
            tuple(self._names[condition.quantities[index]] for index, _ in conjunct) for conjunct in condition.conjuncts
        ]

    def make(self, delivery: Delivery, position: WatchPosition, *, standing: bool = False) -> Hit:
        """Return the hit of a delivery."""
        return Hit(
            {self._names[quantity]: self._restore[quantity](value) for quantity, value in delivery.values.items()},
            number=delivery.number,
            time=delivery.order.time / MICROSECONDS,
            position=position,
            conjuncts=tuple(self._conjuncts[index] for index in delivery.conjuncts),
            late=delivery.late,
            standing=standing,
        )


def notice_of(notice: WatchNotice) -> Notice:
    """Return the client's notice for a notice in the log of a watch. Watches request exact values: tolerance 0."""
    facts = notice.facts
    if notice.kind == "missed":
        source = facts.get("source")
        return EventsMissed(
            notice.publisher,
            None if source is None else tuple(source),
            facts.get("first"),
            facts.get("last"),
            str(facts.get("reason", "gap")),
        )
    if notice.kind == "coarser":
        return BoundExceeded(notice.publisher, str(facts.get("property", "")), facts.get("bound"), 0.0)
    if notice.kind == "unreadable":
        return MessageUnreadable(notice.publisher, facts.get("offset", 0), str(facts.get("reason", "")))
    return PublisherLost(notice.topic, notice.publisher, float(facts.get("seconds", 0.0)))
