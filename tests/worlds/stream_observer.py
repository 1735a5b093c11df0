"""Checks of what the decoder of a stream world delivered, against what the publisher published.

An event is *expected* if it was published after the decoder had first known all sources. An expected event is *covered*
if it was delivered, or

- if an `EventsMissed` names its source and ordinal, or
- if the decoder cannot name it, and an `EventsMissed` without a source was delivered for a loss that had not ended when
  the event was published. A decoder cannot name an event before the first one that it delivered of this source and
  incarnation, nor an event after the last one of an incarnation that has ended.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple
from zlib import crc32

from world_truth import PublishedEvent, PublishedEvents, Source, decimal, distance

from thinwire.codec import Audit, Delivery, EventsMissed, State, StreamConfig, StreamDecoder, Watermark
from thinwire.schema import Event, Schema
from thinwire.wire import FrameKind
from thinwire.wire.stream_state import CHAIN

SourceKey = tuple[int, Source]
"""incarnation and source"""


class PublishedStream(PublishedEvents):
    """The events of one publisher, and the running check after each of its frames.

    incarnation: the current one; frames: number of frames of the current incarnation
    """

    def __init__(self) -> None:
        super().__init__()
        self.incarnation = 0
        self.frames = 0
        self._chains: dict[tuple[int, int], int] = {}

    def begin(self, incarnation: int, schema: Schema, config: StreamConfig) -> None:
        super().begin(incarnation, schema, config)
        self.incarnation = incarnation
        self.frames = 0

    def add_frame(self, raw: bytes) -> None:
        """Add a frame of the current incarnation."""
        chain = self._chains.get((self.incarnation, self.frames - 1), 0)
        self._chains[self.incarnation, self.frames] = chain_after(raw, chain)
        self.frames += 1

    def chain(self, incarnation: int, sequence: int) -> int | None:
        """Return the running check after a frame; None if there is no such frame."""
        return self._chains.get((incarnation, sequence))


def chain_after(raw: bytes, chain: int) -> int:
    """Return the running check after a frame. A key frame resets it. Independent of the implementation under test."""
    head = raw[0]
    size = 3 + bool(head & 0x10) + bool(head & 0x20)
    start = 0 if head & 0x0F == FrameKind.KEY else chain
    return crc32(raw[size:], crc32(raw[: size - 1], start))


class StreamPosition(NamedTuple):
    """The next frame that a decoder expects; chain: the running check after the last frame."""

    incarnation: int
    sequence: int
    chain: int


def position_of(decoder: StreamDecoder | None) -> StreamPosition | None:
    """Return the position of a decoder; None if it waits for key frames."""
    if decoder is None or decoder.decoder_state is None or decoder.state is State.WAITING:
        return None
    state = decoder.decoder_state
    return StreamPosition(state.incarnation, state.sequence, state.stream.cells[CHAIN])


@dataclass
class StreamObserver:
    """The checks of everything that one run of a decoder delivers.

    delivered: ordinals by incarnation and source; events: number of delivered events
    ready_since: time at which all sources were first known
    excused: incarnations of which the decoder accepted a wrong frame because its one-byte check matched. Only the
        bounds of their events are checked.
    """

    published: PublishedStream
    violations: list[str] = field(default_factory=list)
    delivered: dict[SourceKey, set[int]] = field(default_factory=dict)
    ready_since: float | None = None
    excused: set[int] = field(default_factory=set)
    events: int = 0
    _last: dict[SourceKey, int] = field(default_factory=dict)
    _missed: dict[SourceKey, list[tuple[int, int]]] = field(default_factory=dict)
    _lost_until: float = -math.inf
    _checked: int = 0

    def check_deliveries(self, deliveries: Iterable[Delivery], incarnation: int, version: int) -> None:
        """Check the deliveries of one message. `version` is the decoder's configuration version."""
        for delivery in deliveries:
            if isinstance(delivery, Event):
                self._check_event(delivery, incarnation, version)
            elif isinstance(delivery, EventsMissed):
                self._check_missed(delivery, incarnation)
            elif isinstance(delivery, Watermark):
                self._check_covered(delivery.time, f"at watermark {delivery.time}")
            elif isinstance(delivery, Audit):
                self._check_audit(delivery)

    def update_state(self, state: State, now: float) -> None:
        """Record the state of the decoder after a message."""
        if state is State.READY:
            if self.ready_since is None:
                self.ready_since = now
            if self._lost_until == math.inf:
                self._lost_until = now

    def finish(self, state: State) -> None:
        """Check after a last key frame round without faults that all expected events are covered."""
        if state is not State.READY:
            self.violations.append(f"is {state.value} after a last round of key frames")
            return
        self._check_covered(math.inf, "at the end")

    def _check_event(self, event: Event, incarnation: int, version: int) -> None:
        self.events += 1
        key = (incarnation, event.source)
        actual = self.published.find(incarnation, event.source, event.ordinal)
        name = _name(incarnation, event.source, event.ordinal)
        if actual is None:
            self.violations.append(f"{name} was never published")
            return
        delivered = self.delivered.setdefault(key, set())
        if incarnation not in self.excused:
            if event.ordinal in delivered:
                self.violations.append(f"{name} delivered twice")
            elif event.ordinal <= self._last.get(key, 0):
                self.violations.append(f"{name} delivered after #{self._last[key]}")
            if self._is_reported(key, event.ordinal):
                self.violations.append(f"{name} delivered after it was reported as missed")
        delivered.add(event.ordinal)
        self._last[key] = event.ordinal
        self._check_bounds(event, actual, version, name)

    def _check_bounds(self, event: Event, actual: PublishedEvent, version: int, name: str) -> None:
        for p in self.published.schemas[actual.incarnation].wire:
            bound, true = event.bound[p.name], actual.values.get(p.name)
            if bound is None:
                continue
            if distance(p, event[p.name], true) > decimal(bound):
                self.violations.append(f"{name}: {p.name} is {event[p.name]!r}, was {true!r}, bound {bound}")
            allowed = self.published.tolerance(actual.incarnation, {actual.version, version}, p)
            if decimal(bound) > allowed and p.kind != "geo":
                self.violations.append(f"{name}: {p.name} has bound {bound}, above its tolerance {float(allowed)}")

    def _check_missed(self, missed: EventsMissed, incarnation: int) -> None:
        if missed.source is None:
            self._lost_until = math.inf
            return
        key = (incarnation, missed.source)
        assert missed.last is not None
        first = missed.first or 1
        self._missed.setdefault(key, []).append((first, missed.last))
        if incarnation in self.excused:
            return
        if missed.reason == "diverged":
            self.violations.append(f"{_name(*key, missed.last)} diverged without a cause")
            return
        delivered = self.delivered.get(key, set())
        repeated = [ordinal for ordinal in range(first, missed.last + 1) if ordinal in delivered]
        if repeated:
            self.violations.append(f"{_name(*key, repeated[0])} reported as missed after its delivery")

    def _check_audit(self, audit: Audit) -> None:
        for name, error in audit.errors.items():
            bound = audit.bound[name]
            if bound is not None and error > bound:
                event = f"{audit.source[0]} #{audit.ordinal}"
                self.violations.append(f"audit of {event}: {name} differs by {error}, bound {bound}")

    def _check_covered(self, time: float, when: str) -> None:
        """Check that all expected events published before `time` are covered."""
        events = self.published.events
        while self._checked < len(events) and events[self._checked].time < time:
            event = events[self._checked]
            self._checked += 1
            if self._is_expected(event) and not self._is_covered(event):
                name = _name(event.incarnation, event.source, event.ordinal)
                self.violations.append(f"{name}, published at {event.time}, is neither delivered nor missed {when}")

    def _is_expected(self, event: PublishedEvent) -> bool:
        return self.ready_since is not None and event.time > self.ready_since and event.incarnation not in self.excused

    def _is_covered(self, event: PublishedEvent) -> bool:
        key = (event.incarnation, event.source)
        delivered = self.delivered.get(key, set())
        if event.ordinal in delivered or self._is_reported(key, event.ordinal):
            return True
        has_ended = event.incarnation < self.published.incarnation
        is_before_first = event.ordinal < min(delivered) if delivered else has_ended
        is_after_last = has_ended and event.ordinal > max(delivered, default=0)
        return (is_before_first or is_after_last) and self._lost_until >= event.time

    def _is_reported(self, key: SourceKey, ordinal: int) -> bool:
        """Return whether an event was reported as missed."""
        return any(first <= ordinal <= last for first, last in self._missed.get(key, ()))


def _name(incarnation: int, source: Source, ordinal: int) -> str:
    return f"{source[0]} #{ordinal} of incarnation {incarnation}"
