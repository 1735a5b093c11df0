"""From events to readings: what the events of one topic say of a watch's quantities, in ticks.

Values that are not exact say nothing: how far off they are depends on what others asked for at the time. They are
passed over, and told once for each publisher.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from thinwire.brokers.protocol_broker import Stored
from thinwire.codec import Delivery, Missed, Watermark
from thinwire.errors import EventRejected
from thinwire.filters.composite import Condition, Entry, Feed, Order, Quantity, Reading, ticks_of
from thinwire.schema import Event, Property, Schema
from thinwire.schema.timestamps import ticks_per_second
from thinwire.topics.watches.watch_documents_notices import WatchNotice, missed

MICROSECONDS = 1_000_000
"""in a second: the unit in which all feeds of a watch tell the time"""


class Told(NamedTuple):
    """What a message of a topic's log says to a watch."""

    entry: Entry
    notices: list[WatchNotice]


class _Wanted(NamedTuple):
    quantity: Quantity
    path: tuple[str, ...]
    ticks: Callable[[Any], int | None]


class TopicQuantities:
    """The quantities of a condition that belong to one topic.

    The time of an event is its own where the schema says how it is written (`iso:...`, `datetime`), else the one at
    which the broker stored it.

    names: the properties that are looked at; sources: whose
    """

    def __init__(self, topic: str, schema: Schema, condition: Condition) -> None:
        self.topic = topic
        self._wanted: dict[tuple[Any, ...], list[_Wanted]] = {}
        for quantity in condition.quantities:
            if quantity.topic == topic:
                name = quantity.property
                one = _Wanted(quantity, tuple(name.split(".")), ticks_of(schema[name]))
                self._wanted.setdefault(quantity.source, []).append(one)
        self.names = sorted({one.quantity.property for wanted in self._wanted.values() for one in wanted})
        self._time = _time_of(schema.time)
        self._coarse: set[tuple[str, str]] = set()

    def told(self, publisher: str, stored: Stored, found: Iterable[Delivery], standing: Iterable[Event] = ()) -> Told:
        """What a message brings; standing: where sources stand behind it, of which it may not have told an event."""
        readings: list[Reading] = []
        notices: list[WatchNotice] = []
        complete: int | None = None
        at = int(stored.time * MICROSECONDS)
        for thing in (*found, *standing):
            if isinstance(thing, Event):
                reading = self._reading(publisher, thing, at, notices)
                readings += [reading] if reading is not None else []
            elif isinstance(thing, Watermark):
                complete = int(thing.time * MICROSECONDS)
            elif isinstance(thing, Missed) and (thing.source is None or thing.source in self._wanted):
                notices.append(missed(self.topic, thing))
        # the log tells times of its own in order: whatever comes next was stored no earlier than this
        complete = complete if self._time is not None else at - 1
        return Told(Entry(Feed(self.topic, publisher), stored.offset, tuple(readings), complete), notices)

    def _reading(self, publisher: str, event: Event, stored: int, notices: list[WatchNotice]) -> Reading | None:
        wanted = self._wanted.get(event.source)
        if wanted is None:
            return None
        values: dict[Quantity, int] = {}
        for quantity, path, ticks in wanted:
            value = _at(event, path)
            if value is None:
                continue
            if event.bound.get(quantity.property, 0) != 0:
                self._note_coarse(publisher, quantity.property, event, notices)
                continue
            found = ticks(value)
            if found is not None:
                values[quantity] = found
        if not values:
            return None
        time = self._time(event) if self._time is not None else None
        own = publisher, event.incarnation, event.ordinal, repr(event.source)
        return Reading(Order(stored if time is None else time, self.topic, *own), values)

    def _note_coarse(self, publisher: str, name: str, event: Event, notices: list[WatchNotice]) -> None:
        if (publisher, name) not in self._coarse:
            self._coarse.add((publisher, name))
            notices.append(
                WatchNotice("coarser", self.topic, publisher, {"property": name, "bound": event.bound[name]})
            )


def _time_of(stamp: Property | None) -> Callable[[Event], int | None] | None:
    """The function from an event to its time; None where the schema does not say what its times mean."""
    per_second = ticks_per_second(stamp.form) if stamp is not None else None
    if stamp is None or per_second is None:
        return None
    path, ticks = tuple(stamp.name.split(".")), ticks_of(stamp)

    def time(event: Event) -> int | None:
        try:
            found = ticks(_at(event, path))
        except EventRejected:  # an event of another version of the schema, with times written in another way
            return None
        return None if found is None else found * MICROSECONDS // per_second

    return time


def _at(event: Event, path: tuple[str, ...]) -> Any:
    """The value under a path; None where there is none."""
    value: Any = event
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value
