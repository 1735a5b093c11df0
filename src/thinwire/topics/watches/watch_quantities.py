"""Resolution of a watch expression against the registry, and extraction of its quantities from events, in ticks.

A value with a bound above zero is skipped, with one notice per publisher and property. Its bound depends on the other
subscriptions at that time, and the result of a watch must not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from thinwire.brokers.protocol import Broker, Bucket, StoredMessage
from thinwire.codec import Delivery, EventsMissed, Watermark
from thinwire.errors import ConfigError, EventRejected, RegistryError, UnknownName, UnknownTopic
from thinwire.filters.composite.condition import Condition, Quantity
from thinwire.filters.composite.condition_resolver import resolve, ticks_of
from thinwire.filters.composite.expression import Expression, Term, fold
from thinwire.filters.composite.feed_sequencer import EventReadings, LogEntry, Order, WatchInput
from thinwire.filters.composite.watch_grammar import parse_watch
from thinwire.schema import Event, Property, Schema
from thinwire.schema.timestamps import ticks_per_second
from thinwire.topics.log_selection import gather_limited
from thinwire.topics.names import REGISTRY, DocumentKind, parse_registry_key
from thinwire.topics.registry_client import current_schema
from thinwire.topics.topic_metadata import TopicMetadata
from thinwire.topics.watches.watch_documents import WatchNotice, missed_notice

MICROSECONDS = 1_000_000
"""per second; the time unit of all inputs of a watch"""


class TopicReadings(NamedTuple):
    """The readings and notices of one log message."""

    entry: LogEntry
    notices: list[WatchNotice]


class _WatchedProperty(NamedTuple):
    """A quantity of one source, the path of its property in an event, and the conversion of its values."""

    quantity: Quantity
    path: tuple[str, ...]
    to_ticks: Callable[[Any], int | None]


class TopicQuantities:
    """The quantities of a condition that belong to one topic.

    The time of an event is its own timestamp if the schema declares the format (`iso:...`, `datetime`), otherwise the
    time at which the broker stored the message.

    names: the watched properties and the timestamp, which determines the order of events
    """

    def __init__(self, topic: str, schema: Schema, condition: Condition) -> None:
        self.topic = topic
        self._watched: dict[tuple[Any, ...], list[_WatchedProperty]] = {}
        for quantity in condition.quantities:
            if quantity.topic == topic:
                name = quantity.property
                watched = _WatchedProperty(quantity, tuple(name.split(".")), ticks_of(schema[name]))
                self._watched.setdefault(quantity.source, []).append(watched)
        stamp = [schema.time.name] if schema.time is not None else []
        self.names = sorted({*stamp, *(q.property for q in condition.quantities if q.topic == topic)})
        self._time = _time_of(schema.time)
        self._inexact: set[tuple[str, str]] = set()

    def read_message(self, publisher: str, stored: StoredMessage, deliveries: Iterable[Delivery]) -> TopicReadings:
        """Return the readings and notices of a message."""
        readings: list[EventReadings] = []
        notices: list[WatchNotice] = []
        complete: int | None = None
        stored_at = int(stored.time * MICROSECONDS)
        for delivery in deliveries:
            if isinstance(delivery, Event):
                reading = self._reading(publisher, delivery, stored_at, notices)
                if reading is not None:
                    readings.append(reading)
            elif isinstance(delivery, Watermark):
                complete = int(delivery.time * MICROSECONDS)
            elif isinstance(delivery, EventsMissed) and (delivery.source is None or delivery.source in self._watched):
                notices.append(missed_notice(self.topic, delivery))
        # Storage times increase with the offset: later messages are not stored before this one.
        complete = complete if self._time is not None else stored_at - 1
        return TopicReadings(
            LogEntry(WatchInput(self.topic, publisher), stored.offset, tuple(readings), complete), notices
        )

    def _reading(
        self, publisher: str, event: Event, stored_at: int, notices: list[WatchNotice]
    ) -> EventReadings | None:
        watched = self._watched.get(event.source)
        if watched is None:
            return None
        values: dict[Quantity, int] = {}
        for quantity, path, to_ticks in watched:
            value = _value_at(event, path)
            if value is None:
                continue
            if event.bound.get(quantity.property, 0) != 0:
                self._report_inexact(publisher, quantity.property, event, notices)
                continue
            ticks = to_ticks(value)
            if ticks is not None:
                values[quantity] = ticks
        if not values:
            return None
        time = self._time(event) if self._time is not None else None
        identity = publisher, event.incarnation, event.ordinal, repr(event.source)
        return EventReadings(Order(stored_at if time is None else time, self.topic, *identity), values)

    def _report_inexact(self, publisher: str, name: str, event: Event, notices: list[WatchNotice]) -> None:
        if (publisher, name) not in self._inexact:
            self._inexact.add((publisher, name))
            notices.append(
                WatchNotice("coarser", self.topic, publisher, {"property": name, "bound": event.bound[name]})
            )


def _time_of(stamp: Property | None) -> Callable[[Event], int | None] | None:
    """Return the function from an event to its time; None if the schema does not declare the timestamp format."""
    per_second = ticks_per_second(stamp.form) if stamp is not None else None
    if stamp is None or per_second is None:
        return None
    path, to_ticks = tuple(stamp.name.split(".")), ticks_of(stamp)

    def time(event: Event) -> int | None:
        try:
            ticks = to_ticks(_value_at(event, path))
        except EventRejected:  # the event has another schema version, with another timestamp format
            return None
        return None if ticks is None else ticks * MICROSECONDS // per_second

    return time


def _value_at(event: Event, path: tuple[str, ...]) -> Any:
    value: Any = event
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


MAX_SUGGESTIONS = 64
"""topics whose schemas are searched for a name similar to an unknown one"""


class ResolvedCondition(NamedTuple):
    """A condition and the metadata of its topics, by name."""

    condition: Condition
    topics: Mapping[str, TopicMetadata]


async def resolve_live(broker: Broker, expression: str) -> ResolvedCondition:
    """Resolve an expression against the registered topics.

    Raises ExpressionError, with the position, for an expression that is invalid or does not fit the topics.
    """
    parsed = parse_watch(expression)
    bucket = await broker.bucket(REGISTRY)
    schemas = await _find_schemas(bucket, _possible_topics(parsed))
    try:
        condition = resolve(parsed, schemas)
    except UnknownName:
        known = [entry.key for entry in await bucket.entries(f"{DocumentKind.TOPIC}.>")]
        others = [parse_registry_key(key).topic for key in known[:MAX_SUGGESTIONS]]
        resolve(parsed, schemas | await _find_schemas(bucket, others))  # raises with a suggestion
        raise
    names = sorted({quantity.topic for quantity in condition.quantities})
    found = [await TopicMetadata.find(broker, bucket, name) for name in names]
    return ResolvedCondition(condition, {topic.name: topic for topic in found})


def _possible_topics(expression: Expression) -> list[str]:
    """Return the names that may be topics: in `a.b.t` without brackets, `a` and `a.b`."""

    def union(parts: Sequence[set[str]]) -> set[str]:
        return set().union(*parts)

    names: set[str] = fold(expression.root, _prefixes, union, union)
    return sorted(names)


def _prefixes(term: Term) -> set[str]:
    if term.property is not None:
        return {term.path}
    words = term.path.split(".")
    return {".".join(words[:length]) for length in range(1, len(words))}


async def _find_schemas(bucket: Bucket, names: Iterable[str]) -> dict[str, Schema]:
    """Return the current schemas of those names that are topics."""

    async def find(name: str) -> Schema | None:
        with suppress(ConfigError, RegistryError, UnknownTopic):
            return await current_schema(bucket, name)
        return None

    found = await gather_limited(find, names)
    return {schema.name: schema for schema in found if schema is not None}
