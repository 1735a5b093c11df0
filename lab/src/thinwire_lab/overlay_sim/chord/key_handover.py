"""Thresholds change hands: a node joins or leaves, and whoever kept them passes them on without losing a value.

Events to a keeper are numbered, and since not every event is sent, each says which one was sent before it: so a keeper
knows an order and sees a gap. The old keeper freezes, sends its state with the number it has got to, and hands on what
still comes to it; the new one lets events wait until the state is there and every event before them, and drops what the
state already holds. A keeper that crashed and left no copy begins with nothing: it delivers the next value to all and
centres on it, which keeps every tolerance at the price of one delivery.

>>> old, numbering = Keeper([2, 5], value=0), Numbering()
>>> old.receive(numbering.event(3))
[(2, 1, 3)]
>>> state, new = old.hand_over(), Keeper([2, 5])
>>> new.receive(numbering.event(6))                                     # nobody told it yet where it starts
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
    """All a keeper knows: the number it has got to, and what it delivered last for each threshold."""

    number: int
    last: dict[int, int]


class Numbering:
    """The sending end: numbers the events of a source and remembers which went to the keeper."""

    def __init__(self) -> None:
        self.number = 0
        self.sent = 0

    def skip(self) -> None:
        """An event that the keeper need not see."""
        self.number += 1

    def event(self, value: int) -> HandoverEvent:
        """An event for the keeper."""
        self.number += 1
        event = HandoverEvent(self.number, self.sent, value)
        self.sent = self.number
        return event


class Keeper:
    """A node that keeps some thresholds of a source.

    value: what all of them are centred at; without it the keeper waits for the state of the one before it
    """

    def __init__(self, thresholds: Iterable[int], value: int | None = None) -> None:
        self.thresholds = tuple(sorted(set(thresholds)))
        self.number: int | None = None if value is None else 0
        self.last: dict[int, int] = {} if value is None else dict.fromkeys(self.thresholds, value)
        self.frozen = False
        self._waiting: dict[int, HandoverEvent] = {}

    @classmethod
    def after_crash(cls, thresholds: Iterable[int], number: int) -> Keeper:
        """One whose state is lost: it knows the number it starts after, and no value."""
        keeper = cls(thresholds)
        keeper.number = number
        return keeper

    @property
    def gap(self) -> tuple[int, int] | None:
        """The number got to, and the one that is waited for; None where nothing is missing."""
        if self.number is None or not self._waiting:
            return None
        return self.number, min(self._waiting)

    def receive(self, event: HandoverEvent) -> list[Delivery]:
        """An event, from the source or from the keeper before; what it makes due."""
        if self.frozen:
            raise ConfigError("this keeper has handed over: pass the event on", field="event", value=event.number)
        if self.number is None or event.number > self.number:
            self._waiting[event.previous] = event
        return self._due()

    def hand_over(self) -> State:
        """Freeze: what is `waiting`, and what comes later, is passed on to the one who gets the state."""
        if self.number is None:
            raise ConfigError("a keeper without state cannot hand it over yet: wait for it", field="state")
        self.frozen = True
        return State(self.number, dict(self.last))

    def take(self, state: State) -> list[Delivery]:
        """The state of the keeper before; what came earlier is dropped, what came later is due."""
        self.number, self.last = state.number, dict(state.last)
        self._waiting = {previous: e for previous, e in self._waiting.items() if e.number > state.number}
        return self._due()

    def waiting(self) -> list[HandoverEvent]:
        """What came too early, in order."""
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
