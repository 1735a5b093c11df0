"""What is asked in a world of classes: seeded subscriptions, and the registry's budget of all of them.

The logs of a world of classes: numbered messages in memory, with conflicts, holes and altered messages.

What the log of a topic tells a reader that never fails: the measure of what every class is owed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import Any, NamedTuple

from thinwire.brokers.protocol import ANY, NOTHING, Stored
from thinwire.codec import EventsMissed, State, StreamConfig, StreamDecoder
from thinwire.codec.demand import tolerance_of
from thinwire.errors import Conflict, PeerFault
from thinwire.filters.where import parse
from thinwire.schema import Event, Kind, Property, Schema
from thinwire.schema.property import TOLERANT_KINDS
from thinwire.testing.worlds.world_observer import Source, decimal
from thinwire.topics.log_decoder import LogDecoder, Lookup
from thinwire.topics.names import publisher_in
from thinwire.topics.tolerance_budget import budget
from thinwire.topics.topic_documents import SubscriptionDocument
from thinwire.topics.topic_settings import Settings

_TOLERANCES: tuple[float | str, ...] = (0, 0.25, 0.5, 1, 2, "0.3", 5)
_PREDICTORS = ("auto", "last", "last", "linear", "trend", "cadence")
_CONDITIONS: dict[Kind, tuple[str, ...]] = {
    Kind.NUMBER: ("{} > 0", "{} between -5 and 8", "not {} < 2", "{} != 0"),
    Kind.INTEGER: ("{} >= 1", "{} in (0, 1, 3)", "{} < 4"),
    Kind.FLOAT: ("{} > 20", "{} not between 0 and 15.5"),
    Kind.BOOLEAN: ("{} = true", "{} != true"),
    Kind.ENUM: ("{} in ('on', 'auto')", "{} != 'fault 7'"),
    Kind.STRING: ("{} < 'note 5'",),
}
"""what may be asked of the values of properties"""


class WorldRegistry:
    """Everything asked of a topic, as one configuration of its publishers; its version counts up with every change."""

    def __init__(self, schema: Schema, settings: Settings) -> None:
        self.schema = schema
        self._settings = settings
        self._asked: dict[str, SubscriptionDocument] = {}
        self.config = StreamConfig(1, budget(schema, (), settings).demand(schema, settings), **settings.stream)

    def ask(self, asked: SubscriptionDocument) -> None:
        """A subscription comes, or asks for something else from now on."""
        self._asked[asked.identity] = asked
        self._conclude()

    def leave(self, identity: str) -> None:
        """A subscription goes."""
        del self._asked[identity]
        self._conclude()

    def _conclude(self) -> None:
        settings = self._settings
        demand = budget(self.schema, self._asked.values(), settings).demand(self.schema, settings)
        if self._asked and demand != self.config.demand:  # nobody asks: publishers stay as they are for a while
            self.config = StreamConfig(self.config.version + 1, demand, **settings.stream)


def draw_settings(chance: Random) -> Settings:
    """Any way of publishing that a topic with classes can have."""
    return Settings(
        retain=True,
        format=chance.choice(("compact", "compact", "json")),
        key_frame_interval=chance.choice((3.0, 10.0, 60.0)),
        max_silence=chance.choice((1.5, 4.0)),
        audit_every=chance.choice((0, 0, 5)),
        mode=chance.choice(("predict", "hold")),
        predictor=chance.choice(_PREDICTORS),
    )


def draw_subscription(schema: Schema, chance: Random, identity: str) -> SubscriptionDocument:
    """Any subscription that the schema can honour."""
    measured = [p for p in schema.wire if p is not schema.time]
    properties = None
    if chance.random() < 0.4:
        properties = tuple(p.name for p in chance.sample(measured, chance.randint(1, len(measured))))
    seen = [p for p in measured if properties is None or p.name in properties]
    tolerant = [p for p in seen if p.kind in TOLERANT_KINDS]
    named = {p.name: _tolerance(p, chance) for p in tolerant if chance.random() < 0.6}
    exact = tuple(p.name for p in seen if p.name not in named) if chance.random() < 0.1 else False
    sources: dict[str, Any] | None = None
    if chance.random() < 0.3:
        sources = {"sensor": chance.choice(("s0", ["s0", "s1"], ["s1", "s5"]))}
    return SubscriptionDocument(
        schema.name,
        identity,
        named,
        default_tolerance=chance.choice((0, 0.5, 2, 5)),
        exact=exact,
        properties=properties,
        sources=sources,
        emit=chance.choice(("all", "all", "changes")),
    )


def choosing(asked: SubscriptionDocument, schema: Schema, chance: Random) -> SubscriptionDocument:
    """The same subscription, of the events that match one or two conditions; as it is where nothing can be compared."""
    able = [p for p in schema.wire if p.kind in _CONDITIONS and p is not schema.time]
    if not able:
        return asked
    named = chance.sample(able, chance.randint(1, min(2, len(able))))
    conditions = [chance.choice(_CONDITIONS[p.kind]).format(p.name) for p in named]
    if chance.random() < 0.3:
        conditions.append(chance.choice(("sensor != 's0'", "sensor in ('s0', 's2')")))
    where = chance.choice((" and ", " or ")).join(conditions)
    names = parse(where).names
    tolerance = {name: amount for name, amount in asked.tolerance.items() if name not in names}
    return replace(asked, tolerance=tolerance, where=where)


def tightened(asked: SubscriptionDocument, schema: Schema, chance: Random, identity: str) -> SubscriptionDocument:
    """Somebody who asks for less error of one property, and so makes publishers tell more."""
    tolerant = [p for p in schema.wire if p.kind in TOLERANT_KINDS and p is not schema.time]
    named: dict[str, Any] = {p.name: 0 for p in tolerant if chance.random() < 0.5}
    return SubscriptionDocument(schema.name, identity, named, default_tolerance=asked.default_tolerance)


def allowed(schema: Schema, p: Property, asked: SubscriptionDocument) -> Fraction:
    """How far off a subscription lets a property be; an idle band is part of it where it did not name the property."""
    deciding = parse(asked.where).names if asked.where is not None else ()
    if p.name in deciding or (not isinstance(asked.exact, bool) and p.name in asked.exact):
        return Fraction(0)
    amount = tolerance_of(schema, p, asked.demand)
    idle = p.idle_band is not None and p.name not in asked.tolerance
    return amount + decimal(p.idle_band) if idle and p.idle_band else amount


def _tolerance(p: Property, chance: Random) -> float | str:
    return chance.choice((0, 10, 500)) if p.kind is Kind.GEO else chance.choice(_TOLERANCES)


class WorldLog:
    """Messages under subjects, numbered from 1 on; a write may insist on the last one of a channel or a publisher.

    >>> log = WorldLog()
    >>> log.append("tw.log.t.p.d", b"one", 0.0, after=NOTHING, within="tw.log.t.p.*")
    1
    >>> log.append("tw.log.t.p.k", b"two", 0.0, after=NOTHING, within="tw.log.t.p.*")
    Traceback (most recent call last):
        ...
    thinwire.errors.Conflict: concurrent write: last=1. Read again, then write with the new revision.
    """

    def __init__(self) -> None:
        self._messages: list[Stored | None] = []
        self._under: dict[str, list[int]] = {}

    @property
    def end(self) -> int:
        """The offset of the last message."""
        return len(self._messages)

    def append(self, subject: str, payload: bytes, time: float, *, after: int = ANY, within: str = "") -> int:
        """Store a message; `Conflict` if the last one under `within` is not `after`."""
        if after != ANY:
            last = self._under.get(within, [NOTHING])[-1]
            if last != after:
                raise Conflict(last=last)
        offset = self.end + 1
        self._messages.append(Stored(offset, subject, payload, time))
        for name in (subject, _all(subject)):
            self._under.setdefault(name, []).append(offset)
        return offset

    def skip(self) -> None:
        """A number without a message: it was stored and could not be kept."""
        self._messages.append(None)

    def read(self, first: int, count: int | None = None) -> Iterator[Stored]:
        """Messages from an offset on, at most so many numbers of them."""
        last = self.end if count is None else min(self.end, first + count - 1)
        return (stored for stored in self._messages[max(first, 1) - 1 : last] if stored is not None)

    def back(self, pattern: str, up_to: int | None = None) -> Iterator[Stored]:
        """Messages under a subject, or under all subjects of a channel or publisher (`.*`), the newest first."""
        for offset in reversed(self._under.get(pattern, ())):
            stored = self._messages[offset - 1]
            if stored is not None and (up_to is None or offset <= up_to):
                yield stored

    def last(self, pattern: str, up_to: int | None = None) -> Stored | None:
        """The newest message under subjects that match."""
        return next(self.back(pattern, up_to), None)


def _all(subject: str) -> str:
    return subject[: subject.rindex(".")] + ".*"


Identity = tuple[int, Source, int]
"""incarnation, source, ordinal of an event of one publisher"""


class LoggedEvent(NamedTuple):
    """An event that the log tells, as it tells it, with the offset of the message that does."""

    offset: int
    identity: Identity
    event: Event


class ReferenceReader:
    """Reads everything, at once.

    told: per publisher, the events of messages that left a link ready which was ready before, in their order: these
        must reach every class that chooses them whatever happens to translators
    known: the same by their identities
    lost: per publisher, how often the log itself has been a loss
    """

    def __init__(self, log: WorldLog, lookup: Lookup, publishers: list[str]) -> None:
        self.told: dict[str, list[LoggedEvent]] = {name: [] for name in publishers}
        self.known: dict[str, dict[Identity, LoggedEvent]] = {name: {} for name in publishers}
        self.lost: Counter[str] = Counter()
        self._log = log
        self._log_decoder = LogDecoder(lookup)
        self._log_decoder.decoders |= {
            name: StreamDecoder(lookup, publisher=name, compiled=False) for name in publishers
        }
        self._next = 1

    def read_on(self) -> None:
        """Read what is new."""
        for stored in self._log.read(self._next):
            publisher = publisher_in(stored.subject)
            link = self._log_decoder.decoder(publisher)
            before = link.state
            try:
                found = self._log_decoder.receive(stored, stored.time)
            except PeerFault:
                found = []
            losses = [thing for thing in found if isinstance(thing, EventsMissed)]
            self.lost.update(missed.publisher for missed in losses if missed.source is None)
            if before is link.state is State.READY and not losses:
                self._keep(publisher, stored.offset, [thing for thing in found if isinstance(thing, Event)])
        self._next = self._log.end + 1

    def _keep(self, publisher: str, offset: int, events: list[Event]) -> None:
        for event in events:
            identity = (event.incarnation, event.source, event.ordinal)
            told = self.known[publisher][identity] = LoggedEvent(offset, identity, event)
            self.told[publisher].append(told)
