"""What one reader of a class was told of one publisher, held against the truth and against what the log tells.

An event is *owed* to a reader if it comes after the state with which the reader first knew every source. It is
*covered* when it was delivered; where the class holds values, also when the last one delivered before it is as near to
it as was asked. What the log itself does not tell is covered by an `EventsMissed` that names it, or, where nobody can
name it, by one that does not (as in `thinwire.testing.worlds.world_observer`). What the log tells must never be missed:
that a translator died is no excuse.

A class that chooses events by their values is owed those that match, as the log tells them, behind the place of the log
where the reader was first ready. It knows nothing of the others, and so nothing of what the log has lost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from thinwire.codec import Audit, Delivery, EventsMissed, State, StreamDecoder, Watermark
from thinwire.schema import Event, Property, Role, Schema
from thinwire.testing.worlds.channel_world_logs import Identity, ReferenceReader, allowed
from thinwire.testing.worlds.world_observer import PublishedEvent, Source, Truth, decimal, distance
from thinwire.topics.demand_class import DemandClass
from thinwire.topics.position import Position
from thinwire.topics.topic_documents import SubscriptionDocument

Place = tuple[int, Source]


@dataclass
class ChannelObserver:
    """Checks every delivery; what is wrong is listed in `violations`.

    astray: it has begun with words of a translator that had been replaced. It must notice, and is owed nothing until
        then
    """

    publisher: str
    truth: Truth
    reference: ReferenceReader
    asked: SubscriptionDocument
    events: int = 0
    missed: int = 0
    violations: list[str] = field(default_factory=list)
    astray: bool = False
    _was_astray: bool = False
    _ready: dict[Place, int] | None = None
    _life: int = 0
    _since: Position = field(default=Position(0))
    _delivered: dict[Place, dict[int, Event]] = field(default_factory=dict)
    _missed: dict[Place, list[tuple[int, int]]] = field(default_factory=dict)
    _lost_until: list[float] = field(default_factory=list)
    _positioned: int = 0
    _checked: int = 0
    _schemas: dict[int, Schema] = field(default_factory=dict)
    _asks: dict[tuple[int, str], Fraction] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._class = DemandClass.of(self.asked)
        self._where = self._class.predicate
        self._holds = self.asked.emit == "changes" and self._where is None  # of what matches a channel tells all

    def take(
        self,
        told: list[Delivery],
        link: StreamDecoder,
        position: Position,
        time: float,
        restated: Sequence[Event] = (),
    ) -> None:
        """Everything one message of the channel brought; it says where in the log of the topic it stands.

        restated: where sources stand, told beside it; it may be the last event again, nearer to the truth
        """
        for thing in told:
            if isinstance(thing, Event):
                self._event(thing, link)
            elif isinstance(thing, EventsMissed):
                self._missing(thing, link.incarnation or 0)
            elif isinstance(thing, Watermark):
                self._check_until(thing.time, f"at watermark {thing.time}")
            elif isinstance(thing, Audit):
                self._audit(thing)
        for event in restated:
            self._delivered.get((event.incarnation, event.source), {}).pop(event.ordinal, None)
            self._event(event, link)
        self._was_astray = self.astray or (self._was_astray and link.state is not State.READY)
        self._check_delivery(link, position, time)
        if (self._holds or self._where is not None) and link.state is State.READY:
            self._check_position(position.offset)

    def finish(self, link: StreamDecoder) -> None:
        """After a last round that met no trouble: everything owed must be covered."""
        if link.state is not State.READY:
            self._wrong(f"is {link.state.value} after a last round of key frames")
            return
        self._check_until(math.inf, "at the end")
        for told in self.reference.told[self.publisher]:
            if self._is_expected(told.identity) and not self._is_seen(told.identity):
                self._wrong(f"{_name(told.identity)} is in the log at {told.offset} and never came")

    def _check_delivery(self, link: StreamDecoder, position: Position, time: float) -> None:
        if link.state is not State.READY or self._was_astray:
            return
        if self._ready is None:
            assert link.decoder_state is not None
            expander = link.decoder_state.expander
            self._life = link.decoder_state.incarnation
            self._since = position
            self._ready = {
                (self._life, expander.keys[alias] or ()): expander.table.ordinal(alias) for alias in expander.known()
            }
        if self._lost_until and self._lost_until[-1] == math.inf:
            self._lost_until[-1] = time

    def _event(self, event: Event, link: StreamDecoder) -> None:
        self.events += 1
        place = (event.incarnation, event.source)
        name = _name((*place, event.ordinal))
        actual = self.truth.find(*place, event.ordinal)
        if actual is None or event.publisher != self.publisher:
            self._wrong(f"{name} of {event.publisher} was never published")
            return
        if not self._chooses(event.source):
            self._wrong(f"{name} is of a source that was not asked for")
        if self._where is not None and not self._where.holds(event):
            self._wrong(f"{name} does not match {self._where.canonical}")
        seen = self._delivered.setdefault(place, {})
        if event.ordinal in seen:
            self._wrong(f"{name} delivered twice")
        elif seen and event.ordinal < max(seen):
            self._wrong(f"{name} delivered after #{max(seen)}")
        if self._is_named_missed((*place, event.ordinal)):
            self._wrong(f"{name} delivered after it was said to be missed")
        seen[event.ordinal] = event
        self._promise(event, actual, link, name)

    def _promise(self, event: Event, actual: PublishedEvent, link: StreamDecoder, name: str) -> None:
        schema = self._schema(actual.incarnation)
        if set(event) != {p.name for p in schema}:
            self._wrong(f"{name} has {sorted(event)}, asked for {sorted(p.name for p in schema)}")
            return
        versions = {actual.version}
        if link.incarnation == actual.incarnation and link.config_version is not None:
            versions.add(link.config_version)
        for p in schema.wire:
            bound = event.bound[p.name]
            if bound is None:
                continue
            was = actual.values.get(p.name)
            if distance(p, event[p.name], was) > decimal(bound):
                self._wrong(f"{name}: {p.name} is {event[p.name]!r}, was {was!r}, bound {bound}")
            if decimal(bound) > self._allowed(actual, p, versions) and p.kind != "geo":
                self._wrong(f"{name}: {p.name} has bound {bound}, above what was asked or told")

    def _missing(self, missed: EventsMissed, life: int) -> None:
        self.missed += 1
        if missed.source is None:
            if self._was_astray:
                return
            self._lost_until.append(math.inf)
            if len(self._lost_until) > self.reference.lost[self.publisher]:
                self._wrong(f"is told of a loss ({missed.reason}) that is not one of the log")
            return
        assert missed.last is not None
        place, first = (life, missed.source), missed.first or 1
        self._missed.setdefault(place, []).append((first, missed.last))
        if missed.reason == "diverged":
            self._wrong(f"{_name((*place, missed.last))} diverged")
        for ordinal in range(first, missed.last + 1):
            if ordinal in self._delivered.get(place, {}):
                self._wrong(f"{_name((*place, ordinal))} said to be missed after its delivery")
            elif (*place, ordinal) in self.reference.known[self.publisher] and not self._was_astray:
                self._wrong(f"{_name((*place, ordinal))} said to be missed, and the log tells it")

    def _audit(self, audit: Audit) -> None:
        for name, off in audit.errors.items():
            bound = audit.bound[name]
            if bound is not None and off > bound:
                self._wrong(f"audit of {audit.source[0]} #{audit.ordinal}: {name} is off by {off}, bound {bound}")

    def _check_position(self, offset: int) -> None:
        """The channel has come so far in the log: whatever a class that holds values was not told must be near."""
        told = self.reference.told[self.publisher]
        while self._positioned < len(told) and told[self._positioned].offset <= offset:
            identity = told[self._positioned].identity
            self._positioned += 1
            if self._is_expected(identity) and not self._is_seen(identity):
                self._wrong(f"{_name(identity)} has moved on and nothing was told up to {offset}")

    def _check_until(self, time: float, when: str) -> None:
        """All events published before this time must be covered by now."""
        events = self.truth.events
        while self._checked < len(events) and events[self._checked].time < time:
            event = events[self._checked]
            self._checked += 1
            identity = (event.incarnation, event.source, event.ordinal)
            if self._is_expected(identity) and not self._is_seen(identity) and not self._is_excused(event, identity):
                self._wrong(f"{_name(identity)}, published at {event.time}, is neither delivered nor missed {when}")

    def _is_expected(self, identity: Identity) -> bool:
        life, source, ordinal = identity
        if self._ready is None or life < self._life or not self._chooses(source):
            return False
        if self._where is not None:
            told = self.reference.known[self.publisher].get(identity)
            return told is not None and told.offset > self._last_sent_before() and self._where.holds(told.event)
        return ordinal > self._ready.get((life, source), 0)

    def _last_sent_before(self) -> int:
        """The message of the log that was told, at least its beginning, before the reader was ready."""
        offset, within = self._since[:2]
        later = (told.offset for told in self.reference.told[self.publisher] if told.offset > offset)
        return min(later, default=offset) if within else offset

    def _is_seen(self, identity: Identity) -> bool:
        """Was it delivered, or something that is as near as was asked?"""
        life, source, ordinal = identity
        delivered = self._delivered.get((life, source), {})
        if ordinal in delivered or not self._holds:
            return ordinal in delivered
        before = max((number for number in delivered if number < ordinal), default=None)
        actual = self.truth.find(life, source, ordinal)
        return before is not None and actual is not None and self._is_near(delivered[before], actual)

    def _is_near(self, held: Event, actual: PublishedEvent) -> bool:
        return all(
            distance(p, held[p.name], actual.values.get(p.name)) <= self._allowed(actual, p, {actual.version})
            for p in self._schema(actual.incarnation).wire
            if p.role is Role.MEASUREMENT
        )

    def _is_excused(self, event: PublishedEvent, identity: Identity) -> bool:
        """Was it said to be missed, or can nobody name it?"""
        if self._is_named_missed(identity):
            return True
        seen = self._delivered.get((event.incarnation, event.source), {})
        first, last = (min(seen), max(seen)) if seen else (math.inf, 0)
        ended = event.incarnation < self.truth.incarnation
        unheard = event.ordinal < first and (seen or ended)
        return bool((unheard or (ended and event.ordinal > last)) and self._was_lost(event.time))

    def _was_lost(self, time: float) -> bool:
        return bool(self._lost_until) and self._lost_until[-1] >= time

    def _is_named_missed(self, identity: Identity) -> bool:
        life, source, ordinal = identity
        return any(first <= ordinal <= last for first, last in self._missed.get((life, source), ()))

    def _allowed(self, actual: PublishedEvent, p: Property, versions: set[int]) -> Fraction:
        """What the class asked, or what publishers were told where they had not been told to be as good as that."""
        key = (actual.incarnation, p.name)
        if key not in self._asks:
            self._asks[key] = allowed(self.truth.schemas[actual.incarnation], p, self.asked)
        return max(self._asks[key], self.truth.tolerance(actual.incarnation, tuple(versions), p))

    def _chooses(self, source: Source) -> bool:
        return self._class.chooses(source, self.truth.schemas[self.truth.incarnation])

    def _schema(self, life: int) -> Schema:
        if life not in self._schemas:
            self._schemas[life] = self._class.schema(self.truth.schemas[life])
        return self._schemas[life]

    def _wrong(self, what: str) -> None:
        self.violations.append(what)


def _name(identity: Identity) -> str:
    life, source, ordinal = identity
    return f"{source[0]} #{ordinal} of life {life}"
