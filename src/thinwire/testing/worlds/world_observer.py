"""What one life of a subscriber was told, held against the truth.

An event is *owed* to a subscriber's life if it was published after that life first knew every source. An owed event is
*covered* when it was delivered, or when

- an `EventsMissed` with its source names its ordinal; or
- it lies before the first event of its source delivered in this life of the publisher, or after the last one of a life
  of the publisher that has ended, and an `EventsMissed` without a source was told for a time of being lost that had not
  ended when it was published: nobody can name events of a source, or of a life, never heard of.

What really happened in a world: every event as it was published, every frame as it was made.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple
from zlib import crc32

from thinwire.codec import Audit, Delivery, EventsMissed, State, StreamConfig, StreamDecoder, Watermark
from thinwire.codec.demand import tolerance_of
from thinwire.schema import Event, Kind, Property, Schema
from thinwire.wire import FrameKind

Source = tuple[Any, ...]
_EARTH = 6_371_008.8


class PublishedEvent(NamedTuple):
    """One event as it went in."""

    incarnation: int
    source: Source
    ordinal: int
    time: float
    version: int
    values: dict[str, Any]


@dataclass
class Truth:
    """One publisher's past, all its lives."""

    events: list[PublishedEvent] = field(default_factory=list)
    by_source: dict[tuple[int, Source], list[PublishedEvent]] = field(default_factory=dict)
    schemas: dict[int, Schema] = field(default_factory=dict)
    configs: dict[tuple[int, int], StreamConfig] = field(default_factory=dict)
    payloads: set[bytes] = field(default_factory=set)
    incarnation: int = 0
    _chains: dict[tuple[int, int], int] = field(default_factory=dict)
    made: int = 0
    _tolerances: dict[tuple[int, int, str], Fraction] = field(default_factory=dict)

    def begin(self, incarnation: int, schema: Schema, config: StreamConfig) -> None:
        """A new life."""
        self.incarnation = incarnation
        self.schemas[incarnation] = schema
        self.made = 0
        self.configure(config)

    def configure(self, config: StreamConfig) -> None:
        """Another configuration from now on."""
        self.configs[self.incarnation, config.version] = config
        self.version = config.version

    def publish(self, values: dict[str, Any], now: float) -> None:
        """An event was accepted."""
        source = (values["sensor"],)
        past = self.by_source.setdefault((self.incarnation, source), [])
        event = PublishedEvent(self.incarnation, source, len(past) + 1, now, self.version, values)
        past.append(event)
        self.events.append(event)

    def frame(self, raw: bytes) -> None:
        """A frame was made."""
        chain = self._chains.get((self.incarnation, self.made - 1), 0)
        self._chains[self.incarnation, self.made] = chain_after(raw, chain)
        self.made += 1

    def chain(self, incarnation: int, sequence: int) -> int | None:
        """The running check of this life after this frame."""
        return self._chains.get((incarnation, sequence))

    def find(self, incarnation: int, source: Source, ordinal: int) -> PublishedEvent | None:
        past = self.by_source.get((incarnation, source), [])
        return past[ordinal - 1] if 0 < ordinal <= len(past) else None

    def tolerance(self, incarnation: int, versions: tuple[int, ...], p: Property) -> Fraction:
        """The widest tolerance that one of these configurations allows; an idle band is part of it."""
        return max(self._tolerance(incarnation, version, p) for version in versions)

    def _tolerance(self, incarnation: int, version: int, p: Property) -> Fraction:
        key = (incarnation, version, p.name)
        if key not in self._tolerances:
            self._tolerances[key] = _allowed(self.schemas[incarnation], p, self.configs[incarnation, version])
        return self._tolerances[key]


def chain_after(raw: bytes, chain: int) -> int:
    """The running check after a frame; key frames start it anew."""
    head = raw[0]
    size = 3 + bool(head & 0x10) + bool(head & 0x20)
    start = 0 if head & 0x0F == FrameKind.KEY else chain
    return crc32(raw[size:], crc32(raw[: size - 1], start))


def _allowed(schema: Schema, p: Property, config: StreamConfig) -> Fraction:
    asked = tolerance_of(schema, p, config.demand)
    idle = p.idle_band is not None and p.name not in config.demand.tolerance
    return asked + decimal(p.idle_band) if idle and p.idle_band else asked


@lru_cache(maxsize=8_192)
def decimal(number: float) -> Fraction:
    """The decimal that is written, not the double next to it."""
    return Fraction(str(number))


def distance(p: Property, seen: Any, actual: Any) -> Fraction | float:
    """How far a value is off, exactly; infinite where no number says how far."""
    if seen == actual and type(seen) is type(actual):
        return 0
    if seen is None or actual is None or isinstance(actual, str | bool | bytes | dict | datetime):
        return math.inf
    if p.kind is Kind.GEO:
        same = seen[0] == actual[0] and (seen[1] - actual[1]) % 360 == 0
        return 0 if same else _metres(seen, actual)
    if p.kind is Kind.ARRAY:
        pairs = list(zip(seen, actual, strict=True))
        return max(abs(decimal(a) - decimal(b)) for a, b in pairs)
    if p.kind is Kind.OPAQUE:
        return 0 if seen == actual else math.inf
    return abs(Fraction(seen) - Fraction(actual)) if p.kind is Kind.FLOAT else abs(decimal(seen) - decimal(actual))


def _metres(a: Any, b: Any) -> float:
    """The great-circle distance, by another formula than the one under test."""
    (north, east), (south, west) = (map(math.radians, position) for position in (a, b))
    half = math.sin((north - south) / 2) ** 2 + math.cos(north) * math.cos(south) * math.sin((east - west) / 2) ** 2
    return 2 * _EARTH * math.asin(math.sqrt(half))


Place = tuple[int, Source]


@dataclass
class StreamObserver:
    """Checks every delivery of one subscriber's life; what is wrong is listed in `violations`."""

    truth: Truth
    violations: list[str] = field(default_factory=list)
    delivered: dict[Place, set[int]] = field(default_factory=dict)
    ready_since: float | None = None
    tainted: set[int] = field(default_factory=set)
    """lives of the publisher of which a frame passed that should not have: the one-byte check can be met by chance"""
    events: int = 0
    _last: dict[Place, int] = field(default_factory=dict)
    _missed: dict[Place, list[tuple[int, int]]] = field(default_factory=dict)
    _lost_until: list[float] = field(default_factory=list)
    _checked: int = 0

    def take(self, told: list[Delivery], incarnation: int, version: int, now: float) -> None:
        """Everything one message brought."""
        for thing in told:
            if isinstance(thing, Event):
                self._event(thing, incarnation, version)
            elif isinstance(thing, EventsMissed):
                self._missing(thing, incarnation)
            elif isinstance(thing, Watermark):
                self._watermark(thing, incarnation)
            elif isinstance(thing, Audit):
                self._audit(thing)

    def check_state(self, state: State, now: float) -> None:
        """Where the subscriber stands after a message."""
        if state is State.READY:
            if self.ready_since is None:
                self.ready_since = now
            if self._lost_until and self._lost_until[-1] == math.inf:
                self._lost_until[-1] = now

    def finish(self, state: State) -> None:
        """After a last round without faults: everything owed must be covered."""
        if state is not State.READY:
            self._wrong(f"is {state.value} after a last round of key frames")
            return
        self._check_until(math.inf, "at the end")

    def taint(self, incarnation: int) -> None:
        """A wrong frame passed: of this life nothing can be held against the subscriber but promises."""
        self.tainted.add(incarnation)

    def _event(self, event: Event, incarnation: int, version: int) -> None:
        self.events += 1
        place = (incarnation, event.source)
        actual = self.truth.find(incarnation, event.source, event.ordinal)
        name = f"{event.source[0]} #{event.ordinal} of life {incarnation}"
        if actual is None:
            self._wrong(f"{name} was never published")
            return
        seen = self.delivered.setdefault(place, set())
        if incarnation not in self.tainted:
            if event.ordinal in seen:
                self._wrong(f"{name} delivered twice")
            elif event.ordinal <= self._last.get(place, 0):
                self._wrong(f"{name} delivered after #{self._last[place]}")
            if self._is_named_missed(place, event.ordinal):
                self._wrong(f"{name} delivered after it was said to be missed")
        seen.add(event.ordinal)
        self._last[place] = event.ordinal
        self._promise(event, actual, version, name)

    def _promise(self, event: Event, actual: PublishedEvent, version: int, name: str) -> None:
        schema = self.truth.schemas[actual.incarnation]
        for p in schema.wire:
            bound = event.bound[p.name]
            if bound is None:
                continue
            off = distance(p, event[p.name], actual.values.get(p.name))
            if off > decimal(bound):
                self._wrong(f"{name}: {p.name} is {event[p.name]!r}, was {actual.values.get(p.name)!r}, bound {bound}")
            allowed = self.truth.tolerance(actual.incarnation, (actual.version, version), p)
            if decimal(bound) > allowed and p.kind != "geo":
                self._wrong(f"{name}: {p.name} has bound {bound}, above its tolerance {float(allowed)}")

    def _missing(self, missed: EventsMissed, incarnation: int) -> None:
        if missed.source is None:
            self._lost_until.append(math.inf)
            return
        place = (incarnation, missed.source)
        assert missed.last is not None
        first = missed.first or 1
        self._missed.setdefault(place, []).append((first, missed.last))
        if incarnation in self.tainted:
            return
        if missed.reason == "diverged":
            self._wrong(f"{missed.source[0]} #{missed.last} of life {incarnation} diverged without cause")
            return
        seen = self.delivered.get(place, set())
        told = [ordinal for ordinal in range(first, missed.last + 1) if ordinal in seen]
        if told:
            self._wrong(f"{missed.source[0]} #{told[0]} of life {incarnation} said to be missed after its delivery")

    def _watermark(self, mark: Watermark, incarnation: int) -> None:
        self._check_until(mark.time, f"at watermark {mark.time}")

    def _audit(self, audit: Audit) -> None:
        for name, off in audit.errors.items():
            bound = audit.bound[name]
            if bound is not None and off > bound:
                self._wrong(f"audit of {audit.source[0]} #{audit.ordinal}: {name} is off by {off}, bound {bound}")

    def _check_until(self, time: float, when: str) -> None:
        """All events published before this time must be covered by now."""
        events = self.truth.events
        while self._checked < len(events) and events[self._checked].time < time:
            event = events[self._checked]
            self._checked += 1
            if self._is_expected(event) and not self._is_covered(event):
                name = f"{event.source[0]} #{event.ordinal} of life {event.incarnation}"
                self._wrong(f"{name}, published at {event.time}, is neither delivered nor missed {when}")

    def _is_expected(self, event: PublishedEvent) -> bool:
        return self.ready_since is not None and event.time > self.ready_since and event.incarnation not in self.tainted

    def _is_covered(self, event: PublishedEvent) -> bool:
        place = (event.incarnation, event.source)
        seen = self.delivered.get(place, set())
        if event.ordinal in seen or self._is_named_missed(place, event.ordinal):
            return True
        first, last = (min(seen), max(seen)) if seen else (math.inf, 0)
        ended = event.incarnation < self.truth.incarnation
        unheard = event.ordinal < first and (seen or ended)
        return bool((unheard or (ended and event.ordinal > last)) and self._was_lost(event.time))

    def _was_lost(self, time: float) -> bool:
        return bool(self._lost_until) and self._lost_until[-1] >= time

    def _is_named_missed(self, place: Place, ordinal: int) -> bool:
        return any(first <= ordinal <= last for first, last in self._missed.get(place, ()))

    def _wrong(self, what: str) -> None:
        self.violations.append(what)


def chain_state(subscriber: StreamDecoder | None) -> tuple[int, int, int] | None:
    """Life, next sequence and running check of a subscriber that is not lost."""
    if subscriber is None or subscriber.decoder_state is None or subscriber.state is State.WAITING:
        return None
    decoder_state = subscriber.decoder_state
    return decoder_state.incarnation, decoder_state.sequence, decoder_state.sequencer.check
