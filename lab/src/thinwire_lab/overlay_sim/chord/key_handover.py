"""Handover of thresholds between nodes without loss, when a node joins or leaves.

Events to a keeper are numbered. Not every event is sent, so each contains the number of the one sent before it, and a
keeper detects gaps. The old keeper freezes, sends its state with the last number, and forwards later events. The new
keeper holds events back until it has the state and all earlier events, and drops events that the state includes. A
keeper that replaces a crashed one without a copy starts without values: it delivers the next value to all thresholds
and uses it as their centre. That satisfies every tolerance and costs one delivery.

>>> old, numbering = Keeper([2, 5], value=0), Numbering()
>>> old.receive(numbering.event(3))
[(2, 1, 3)]
>>> state, new = old.hand_over(), Keeper([2, 5])
>>> new.receive(numbering.event(6))                                     # it has no state yet
[]
>>> new.take(state)
[(2, 2, 6), (5, 2, 6)]
>>> lost, late = numbering.event(9), numbering.event(20)
>>> new.receive(late), new.gap
([], (2, 3))
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from thinwire.errors import ConfigError

Delivery = tuple[int, int, int]
"""threshold, number of the event, value"""


class HandoverEvent(NamedTuple):
    """A value for one keeper; `previous` is the number of the event sent to it before this one."""

    number: int
    previous: int
    value: int


class State(NamedTuple):
    """State of a keeper: the number of the last event, and the last delivered value of each threshold."""

    number: int
    last: dict[int, int]


class Numbering:
    """Numbers the events of a source for one keeper."""

    def __init__(self) -> None:
        self.number = 0
        self.sent = 0

    def skip(self) -> None:
        """Count an event that is not sent to the keeper."""
        self.number += 1

    def event(self, value: int) -> HandoverEvent:
        """Return an event for the keeper."""
        self.number += 1
        event = HandoverEvent(self.number, self.sent, value)
        self.sent = self.number
        return event


class Keeper:
    """A node that stores some thresholds of a source.

    value: centre of all thresholds; without it the keeper waits for the state of its predecessor
    """

    def __init__(self, thresholds: Iterable[int], value: int | None = None) -> None:
        self.thresholds = tuple(sorted(set(thresholds)))
        self.number: int | None = None if value is None else 0
        self.last: dict[int, int] = {} if value is None else dict.fromkeys(self.thresholds, value)
        self.frozen = False
        self._waiting: dict[int, HandoverEvent] = {}

    @classmethod
    def after_crash(cls, thresholds: Iterable[int], number: int) -> Keeper:
        """Return a keeper that replaces a crashed one: it has the number of the last event, but no values."""
        keeper = cls(thresholds)
        keeper.number = number
        return keeper

    @property
    def gap(self) -> tuple[int, int] | None:
        """The last number and the next number received; None if no event is missing."""
        if self.number is None or not self._waiting:
            return None
        return self.number, min(self._waiting)

    def receive(self, event: HandoverEvent) -> list[Delivery]:
        """Process an event of the source or of the former keeper. Return the deliveries."""
        if self.frozen:
            raise ConfigError(
                "this keeper has handed over its state; send the event to its successor",
                field="event",
                value=event.number,
            )
        if self.number is None or event.number > self.number:
            self._waiting[event.previous] = event
        return self._due()

    def hand_over(self) -> State:
        """Freeze and return the state. The caller forwards `waiting` and all later events to the successor."""
        if self.number is None:
            raise ConfigError("a keeper without state cannot hand over; wait for its state", field="state")
        self.frozen = True
        return State(self.number, dict(self.last))

    def take(self, state: State) -> list[Delivery]:
        """Adopt the state of the former keeper. Return the deliveries of later events; earlier ones are dropped."""
        self.number, self.last = state.number, dict(state.last)
        self._waiting = {previous: e for previous, e in self._waiting.items() if e.number > state.number}
        return self._due()

    def waiting(self) -> list[HandoverEvent]:
        """Return the events that wait for an earlier one, in order."""
        return [self._waiting[previous] for previous in sorted(self._waiting)]

    def _due(self) -> list[Delivery]:
        due: list[Delivery] = []
        while self.number is not None and (event := self._waiting.pop(self.number, None)) is not None:
            self.number = event.number
            fired = [c for c in self.thresholds if self._fires(c, event.value)]
            self.last |= dict.fromkeys(fired, event.value)
            due += [(c, event.number, event.value) for c in fired]
        return due

    def _fires(self, threshold: int, value: int) -> bool:
        last = self.last.get(threshold)
        return last is None or not last - threshold <= value <= last + threshold
