"""Checks of what subscriptions of a service world received, against what was published and what the topic log holds.

An event is *expected* by a subscriber if it is in the topic log after the offset at which the subscriber started, and
its demand selects it. An expected event is *covered* if it was delivered, if the class is `emit="changes"` and the
event delivered before it is within the tolerance, or if an `EventsMissed` notice covers it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from demand_classes import selects
from world_truth import PublishedEvent, PublishedEvents, Source, decimal, distance, idle_band

from thinwire.brokers.protocol import StoredMessage
from thinwire.codec import Audit, EventsMissed, State, Watermark
from thinwire.codec.demand import tolerance_of
from thinwire.errors import PeerFault
from thinwire.filters.where.where_grammar import parse_where
from thinwire.schema import Event, Property, Role, Schema
from thinwire.topics.demand_class import DemandClass
from thinwire.topics.log_decoder import LogDecoder
from thinwire.topics.names import publisher_in
from thinwire.topics.topic_documents import SubscriptionDocument
from thinwire.wire import Binding, FrameKind, read, split

Stream = tuple[str, int, Source]
"""publisher, incarnation, source"""


class EventId(NamedTuple):
    """Identity of an event."""

    publisher: str
    incarnation: int
    source: Source
    ordinal: int

    @property
    def stream(self) -> Stream:
        return self[:3]


def event_id(event: Event) -> EventId:
    return EventId(event.publisher, event.incarnation, event.source, event.ordinal)


class LogContents:
    """The events of a topic log, as a reader decodes them that reads every message and never fails.

    offsets: the offset of the message with which an event is delivered; losses: notices of missed events by publisher
    packed: number of events that were packed with a dictionary; expired: those after the expiry of the dictionary
    """

    def __init__(
        self, messages: Iterable[StoredMessage], decoder: LogDecoder, published: dict[str, PublishedEvents]
    ) -> None:
        self.offsets: dict[EventId, int] = {}
        self.events: dict[EventId, Event] = {}
        self.losses: dict[str, list[EventsMissed]] = {}
        self.packed = 0
        self.expired: list[str] = []
        self._bindings: dict[tuple[str, int], float] = {}
        for stored in messages:
            publisher = publisher_in(stored.subject)
            was_ready = decoder.open_decoder(publisher).state is State.READY
            try:
                deliveries = decoder.receive(stored, stored.time)
            except PeerFault:
                continue
            losses = [one for one in deliveries if isinstance(one, EventsMissed)]
            events = [one for one in deliveries if isinstance(one, Event)]
            if not losses:
                self._check_dictionaries(publisher, stored, events, published[publisher])
            self.losses.setdefault(publisher, []).extend(losses)
            if was_ready and not losses and decoder.open_decoder(publisher).state is State.READY:
                self.offsets |= {event_id(event): stored.offset for event in events}
                self.events |= {event_id(event): event for event in events}

    def _check_dictionaries(
        self, publisher: str, stored: StoredMessage, events: list[Event], published: PublishedEvents
    ) -> None:
        """Check that no event was packed with an expired dictionary. Such an event is alone in its frame."""
        try:
            frames = list(map(read, split(stored.payload)))
            bindings = [Binding.decode(frame.body) for frame in frames if frame.kind == FrameKind.BINDING]
        except PeerFault:
            return  # a damaged message that the decoder has not reached because it waits for key frames
        for binding in bindings:
            self._bindings[publisher, binding.slot] = binding.expires or math.inf
        payloads = [frame for frame in frames if frame.kind == FrameKind.PAYLOAD]
        if len(payloads) != len(events):
            return
        for frame, event in zip(payloads, events, strict=True):
            actual = published.find(event.incarnation, event.source, event.ordinal)
            if frame.slot and actual is not None:
                self.packed += 1
                if actual.time >= self._bindings.get((publisher, frame.slot), math.inf):
                    self.expired.append(f"{_text(event_id(event))} is packed with a dictionary that has expired")


@dataclass
class SubscriptionRun:
    """What one run of a subscriber received, from opening the subscription to its end.

    start: the events of messages after this offset are expected; graceful: it was closed in good order
    """

    number: int
    start: float = math.inf
    graceful: bool = False
    events: dict[EventId, Event] = field(default_factory=dict)
    notices: list[object] = field(default_factory=list)
    marks: list[Watermark] = field(default_factory=list)
    channel_batches: int = 0
    last: dict[Stream, int] = field(default_factory=dict)
    checked: set[EventId] = field(default_factory=set)


class SubscriberChecks:
    """The checks of one subscriber; runs of a durable subscriber continue each other."""

    def __init__(self, name: str, document: SubscriptionDocument, published: dict[str, PublishedEvents]) -> None:
        self.name = name
        self.document = document
        self.runs: list[SubscriptionRun] = []
        self.violations: list[str] = []
        self._published = published
        self._class = DemandClass.of(document)
        self._predicate = self._class.predicate
        self._deciding = parse_where(document.where).names if document.where is not None else frozenset()
        self._requested: dict[tuple[bytes, str], Fraction] = {}
        self._marks: list[tuple[SubscriptionRun, Watermark, int]] = []

    def begin_run(self) -> SubscriptionRun:
        run = SubscriptionRun(len(self.runs) + 1)
        self.runs.append(run)
        return run

    def on_notice(self, run: SubscriptionRun, notice: object) -> None:
        """Record a notice."""
        if isinstance(notice, Watermark):
            run.marks.append(notice)
            return
        run.notices.append(notice)
        if isinstance(notice, Audit):
            for name, error in notice.errors.items():
                bound = notice.bound[name]
                if bound is not None and error > bound:
                    self._fail(run, f"audit: {name} differs by {error}, bound {bound}")
        if isinstance(notice, EventsMissed) and notice.source is not None:
            for id in run.events:
                if self._names_one(notice, id) and (notice.first or notice.reason != "diverged"):
                    self._fail(run, f"{_text(id)} reported as missed ({notice.reason}) after its delivery")

    def on_batch(self, run: SubscriptionRun, events: list[Event], *, on_channel: bool) -> None:
        """Check the events of one message, and record the watermarks that are complete with it."""
        run.channel_batches += on_channel
        for event in events:
            self._check_event(run, event)
        self._marks += [(run, mark, len(run.events)) for mark in run.marks]
        run.marks.clear()

    def _check_event(self, run: SubscriptionRun, event: Event) -> None:
        id = event_id(event)
        published = self._published.get(id.publisher)
        actual = published.find(*id[1:]) if published is not None else None
        if published is None or actual is None:
            self._fail(run, f"{_text(id)} was never published")
            return
        schema = published.schemas[id.incarnation]
        if not selects(self._class, id.source, schema):
            self._fail(run, f"{_text(id)} is of a source that was not requested")
        if id in run.events:
            self._fail(run, f"{_text(id)} delivered twice")
        elif id.ordinal < run.last.get(id.stream, 0):
            self._fail(run, f"{_text(id)} delivered after #{run.last[id.stream]}")
        if any(self._names_one(notice, id) for notice in _missed(run)):
            self._fail(run, f"{_text(id)} delivered after it was reported as missed")
        if self.document.emit == "all" and self._predicate is None:
            self._check_gap(run, id)
        run.events[id] = event
        run.last[id.stream] = id.ordinal
        self._check_values(run, event, actual, published)

    def _check_gap(self, run: SubscriptionRun, id: EventId) -> None:
        """The events of a source come without a gap, except for those reported as missed."""
        for ordinal in range(run.last.get(id.stream, id.ordinal) + 1, id.ordinal):
            missing = id._replace(ordinal=ordinal)
            if not any(_names(notice, missing) for notice in _missed(run)):
                self._fail(run, f"{_text(missing)} is missing before {_text(id)}, without a notice")

    def _check_values(
        self, run: SubscriptionRun, event: Event, actual: PublishedEvent, published: PublishedEvents
    ) -> None:
        schema = published.schemas[actual.incarnation]
        properties = self._properties(schema)
        if set(event) != {p.name for p in properties}:
            self._fail(run, f"{_text(event_id(event))} has {sorted(event)}, not {sorted(p.name for p in properties)}")
            return
        versions = {v for incarnation, v in published.configs if incarnation == actual.incarnation}
        in_force = {version for version in versions if version >= actual.version}
        for p in properties:
            bound, true = event.bound.get(p.name), actual.values.get(p.name)
            if bound is None:
                continue
            name = f"{_text(event_id(event))}: {p.name}"
            if distance(p, event[p.name], true) > decimal(bound):
                self._fail(run, f"{name} is {event[p.name]!r}, was {true!r}, bound {bound}")
            requested = self.requested(schema, p)
            if decimal(bound) > requested and p.kind != "geo":
                allowed = max(requested, published.tolerance(actual.incarnation, in_force, p))
                if decimal(bound) > allowed:
                    self._fail(run, f"{name} has bound {bound}, above its tolerance {float(allowed)}")

    def check_end(self, log: LogContents, *, complete: bool, excused: bool) -> None:
        """Check that every expected event is covered and that no notice was false.

        complete: the subscriber read until the end; excused: events were damaged or removed from the log
        """
        for run in self.runs:
            self._check_notices(run, log, excused=excused)
            self._check_predicate(run, log)
        for run, mark, count in self._marks:
            self._check_expected(run, log, list(run.events)[:count], mark)
        if complete and self.runs:
            self._check_expected(self.runs[-1], log, list(self.runs[-1].events), None)

    def _check_notices(self, run: SubscriptionRun, log: LogContents, *, excused: bool) -> None:
        for notice in _missed(run):
            if notice.reason == "diverged" and not excused:
                self._fail(run, f"{notice} without a cause")
            resumed = self.document.durable and run.number > 1  # the state of a channel may be lost
            if excused or resumed or log.losses.get(notice.publisher):
                continue
            self._fail(run, f"{notice}, but the log is complete")

    def _check_predicate(self, run: SubscriptionRun, log: LogContents) -> None:
        for id in run.events:
            if self._predicate is not None and id in log.events and not self._predicate.matches(log.events[id]):
                self._fail(run, f"{_text(id)} does not match {self._predicate.canonical}")

    def _check_expected(
        self, run: SubscriptionRun, log: LogContents, delivered: list[EventId], mark: Watermark | None
    ) -> None:
        """Check that all expected events, or those before a watermark, are covered by what was delivered until then."""
        earlier = self.runs[: run.number - 1] if self.document.durable else []
        first = min([*earlier, run], key=lambda one: one.start)
        seen: dict[Stream, list[int]] = {}
        for id in [*(id for one in earlier for id in one.events), *delivered]:
            seen.setdefault(id.stream, []).append(id.ordinal)
        for ordinals in seen.values():
            ordinals.sort()
        notices = [notice for one in [*earlier, run] for notice in _missed(one)]
        for id in self._expected(first, log, mark):
            if id in run.checked:
                continue
            run.checked.add(id)
            if not self._is_covered(id, seen.get(id.stream, []), notices):
                where = f"at watermark {mark.time}" if mark is not None else "at the end"
                self._fail(
                    run, f"{_text(id)}, at {log.offsets[id]} of the log, is neither delivered nor missed {where}"
                )

    def _expected(self, run: SubscriptionRun, log: LogContents, mark: Watermark | None) -> Iterator[EventId]:
        for id, offset in log.offsets.items():
            published = self._published[id.publisher]
            actual = published.find(*id[1:])
            if offset <= run.start or actual is None:
                continue
            if mark is not None and (id.publisher != mark.publisher or actual.time >= mark.time):
                continue
            if not selects(self._class, id.source, published.schemas[id.incarnation]):
                continue
            if self._predicate is None or self._predicate.matches(log.events[id]):
                yield id

    def _is_covered(self, id: EventId, ordinals: list[int], notices: list[EventsMissed]) -> bool:
        if id.ordinal in ordinals or any(_names(notice, id) for notice in notices):
            return True
        before = max((ordinal for ordinal in ordinals if ordinal < id.ordinal), default=None)
        # A notice without a source: the decoder did not know the source or the incarnation, or the channel of a
        # predicate does not know which of the events that the log has lost match.
        is_unnamed = self._predicate is not None or before is None or before == ordinals[-1]
        if any(one.source is None and (is_unnamed or one.reason == "retention") for one in notices):
            return True
        if self.document.emit == "all" or before is None:
            return before is None and bool(ordinals) and self._predicate is None and self._is_state(id)
        return self._is_near(id._replace(ordinal=before), id)

    def _is_state(self, id: EventId) -> bool:
        """Report whether an event precedes the state with which a subscriber with `start="latest"` begins."""
        return min(run.start for run in self.runs) > 0

    def _is_near(self, held: EventId, id: EventId) -> bool:
        """Report whether the event delivered before is within the tolerances of this one."""
        event = next(run.events[held] for run in reversed(self.runs) if held in run.events)
        published = self._published[id.publisher]
        actual = published.find(*id[1:])
        assert actual is not None
        schema = published.schemas[id.incarnation]
        versions = {v for incarnation, v in published.configs if incarnation == id.incarnation}
        for p in self._properties(schema):
            allowed = max(self.requested(schema, p), published.tolerance(id.incarnation, versions, p))
            if p.role is Role.MEASUREMENT and distance(p, event[p.name], actual.values.get(p.name)) > allowed:
                return False
        return True

    def requested(self, schema: Schema, p: Property) -> Fraction:
        """Return how far a value may be from the true one, as requested."""
        key = (schema.fingerprint, p.name)
        if key not in self._requested:
            exact = self.document.exact
            is_exact = p.name in self._deciding or (not isinstance(exact, bool) and p.name in exact)
            tolerance = tolerance_of(schema, p, self.document.demand) + idle_band(p, self.document.tolerance)
            self._requested[key] = Fraction(0) if is_exact else tolerance
        return self._requested[key]

    def _properties(self, schema: Schema) -> list[Property]:
        """Return the properties that are delivered."""
        names = self.document.properties
        return [p for p in schema if names is None or p.name in names or p.role is not Role.MEASUREMENT]

    def _names_one(self, notice: EventsMissed, id: EventId) -> bool:
        """Report whether a notice can only be about this event: notices do not state the incarnation."""
        return len(self._published[id.publisher].schemas) == 1 and _names(notice, id)

    def _fail(self, run: SubscriptionRun, problem: str) -> None:
        self.violations.append(f"{self.name}, run {run.number}: {problem}")


def _missed(run: SubscriptionRun) -> list[EventsMissed]:
    return [notice for notice in run.notices if isinstance(notice, EventsMissed)]


def _names(notice: EventsMissed, id: EventId) -> bool:
    """Report whether a notice is about this event, by source and ordinal."""
    if notice.publisher != id.publisher or notice.source != id.source:
        return False
    return (notice.first or 1) <= id.ordinal <= (notice.last if notice.last is not None else math.inf)


def _text(id: EventId) -> str:
    source = id.source[0] if id.source else ""
    return f"{id.publisher}/{id.incarnation} {source} #{id.ordinal}"
