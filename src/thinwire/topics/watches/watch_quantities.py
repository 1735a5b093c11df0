"""From events to readings: what the events of one topic say of a watch's quantities, in ticks.

Values that are not exact say nothing: how far off they are depends on what others asked for at the time. They are
passed over, and told once for each publisher.

From an expression to its condition and the topics it speaks of, as the registry has them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from thinwire.brokers.protocol import Broker, Bucket, Stored
from thinwire.codec import Delivery, EventsMissed, Watermark
from thinwire.errors import ConfigError, EventRejected, RegistryError, UnknownName
from thinwire.filters.composite import (
    Condition,
    EventReadings,
    Expression,
    LogEntry,
    Order,
    Quantity,
    Term,
    WatchInput,
    parse,
    resolve,
    ticks_of,
)
from thinwire.filters.composite.expression import fold
from thinwire.schema import Event, Property, Schema
from thinwire.schema.timestamps import ticks_per_second
from thinwire.topics.names import REGISTRY, check_topic
from thinwire.topics.registry_client import find_schema, topic_document
from thinwire.topics.topic import TopicMetadata
from thinwire.topics.topic_documents import TopicDocument, decode
from thinwire.topics.watches.watch_documents import WatchNotice, missed

MICROSECONDS = 1_000_000
"""in a second: the unit in which all feeds of a watch tell the time"""


class TopicReadings(NamedTuple):
    """What a message of a topic's log says to a watch."""

    entry: LogEntry
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

    def read_message(
        self, publisher: str, stored: Stored, found: Iterable[Delivery], standing: Iterable[Event] = ()
    ) -> TopicReadings:
        """What a message brings; standing: where sources stand behind it, of which it may not have told an event."""
        readings: list[EventReadings] = []
        notices: list[WatchNotice] = []
        complete: int | None = None
        at = int(stored.time * MICROSECONDS)
        for thing in (*found, *standing):
            if isinstance(thing, Event):
                reading = self._reading(publisher, thing, at, notices)
                readings += [reading] if reading is not None else []
            elif isinstance(thing, Watermark):
                complete = int(thing.time * MICROSECONDS)
            elif isinstance(thing, EventsMissed) and (thing.source is None or thing.source in self._wanted):
                notices.append(missed(self.topic, thing))
        # the log tells times of its own in order: whatever comes next was stored no earlier than this
        complete = complete if self._time is not None else at - 1
        return TopicReadings(
            LogEntry(WatchInput(self.topic, publisher), stored.offset, tuple(readings), complete), notices
        )

    def _reading(self, publisher: str, event: Event, stored: int, notices: list[WatchNotice]) -> EventReadings | None:
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
        return EventReadings(Order(stored if time is None else time, self.topic, *own), values)

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


MAX_SHOWN = 64
"""topics that are looked at to find a name like one that is unknown"""
AT_ONCE = 32


class Resolved(NamedTuple):
    """A condition, and its topics by name."""

    condition: Condition
    topics: Mapping[str, TopicMetadata]


async def resolve_live(broker: Broker, expression: str, given: Iterable[Schema] = ()) -> Resolved:
    """What an expression says over the topics that the registry knows, and those whose schemas are given.

    Raises ExpressionError, with the place, for what cannot be read or does not fit the topics.
    """
    parsed = parse(expression)
    bucket = await broker.bucket(REGISTRY)
    own = {schema.name: schema for schema in given}
    known = own | await _schemas(bucket, [name for name in _candidates(parsed) if name not in own])
    try:
        condition = resolve(parsed, known)
    except UnknownName:
        resolve(parsed, known | await _schemas(bucket, await _some_topics(bucket)))  # knows what it may have meant
        raise
    names = sorted({quantity.topic for quantity in condition.quantities})
    found = [await TopicMetadata.find(broker, bucket, name, own.get(name)) for name in names]
    return Resolved(condition, {topic.name: topic for topic in found})


def _candidates(expression: Expression) -> list[str]:
    """The names that may be topics: without brackets every beginning of the path."""
    return sorted(fold(expression.root, _paths, lambda parts: set().union(*parts), lambda parts: set().union(*parts)))


def _paths(term: Term) -> set[str]:
    if term.property is not None:
        return {term.path}
    words = term.path.split(".")
    return {".".join(words[:length]) for length in range(1, len(words))}


async def _schemas(bucket: Bucket, names: Iterable[str]) -> dict[str, Schema]:
    """The current schemas of those names that are topics."""
    places = asyncio.Semaphore(AT_ONCE)

    async def one(name: str) -> Schema | None:
        async with places:
            with suppress(ConfigError, RegistryError):
                document = await topic_document(bucket, check_topic(name))
                return await find_schema(bucket, name, document.fingerprint) if document is not None else None
            return None

    found = await asyncio.gather(*(one(name) for name in names))
    return {schema.name: schema for schema in found if schema is not None}


async def _some_topics(bucket: Bucket) -> list[str]:
    names: list[str] = []
    for entry in (await bucket.entries("topic.>"))[:MAX_SHOWN]:
        with suppress(RegistryError):
            document = decode(entry.key, entry.value) if entry.value is not None else None
            if isinstance(document, TopicDocument):
                names.append(document.topic)
    return names
