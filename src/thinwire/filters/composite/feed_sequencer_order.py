"""The one order in which all events of a watch are looked at, whoever published them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from thinwire.filters.composite.condition_predicates import Quantity


class Feed(NamedTuple):
    """The log of one publisher of one topic: what arrives in order, and tells watermarks of its own."""

    topic: str
    publisher: str


class Order(NamedTuple):
    """The place of an event among all: by time, and where times are equal by who published it, and when.

    time: of the event, in any whole unit that all feeds share; never before the event of its source that came before
    life, ordinal: which life of the publisher, and the number of the event within its source
    source: whose, in writing; it decides between events of two sources that are equal in everything else

    >>> Order(5, "market", "feed", ordinal=1) < Order(5, "market", "feed", ordinal=2) < Order(6, "a", "a")
    True
    """

    time: int
    topic: str = ""
    publisher: str = ""
    life: int = 0
    ordinal: int = 0
    source: str = ""

    @property
    def feed(self) -> Feed:
        return Feed(self.topic, self.publisher)

    @property
    def number(self) -> tuple[int, int]:
        """Life and ordinal: what orders the events of one source of a feed."""
        return self.life, self.ordinal


@dataclass(frozen=True, slots=True)
class Reading:
    """What an event says of the quantities of a watch.

    values: in ticks; a quantity that is null or not in the event is left out, and stays what it was
    """

    order: Order
    values: dict[Quantity, int]


@dataclass(frozen=True, slots=True)
class Entry:
    """One message of a feed's log, read as a whole: places in the log are counted in messages.

    offset: its place
    readings: of its events, those that speak of a quantity of the watch
    complete: the watermark that holds behind it, where it tells one: no event up to this time follows
    """

    feed: Feed
    offset: int
    readings: tuple[Reading, ...] = ()
    complete: int | None = None


@dataclass(frozen=True, slots=True)
class Delivery:
    """A notification: the condition was true, and these are the quantities that made it so.

    number: 1 for the first of a watch, then one more each
    order: the event behind which the condition was true
    values: in ticks; what the subscriber holds from now on
    late: the event came behind others that should have come later; it was looked at when it came
    conjuncts: those of the condition that were true, by their places
    """

    number: int
    order: Order
    values: dict[Quantity, int]
    late: bool = False
    conjuncts: tuple[int, ...] = field(default=(), compare=False)
