"""What passed last of one publisher, by source; what a link vouches for is entered when somebody wants to know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thinwire.codec.changed_events import Vouched
from thinwire.schema import Event

Values = tuple[Any, ...]

Passed = tuple[Values, tuple[int, int]]
"""the values of an event that passed, the life of its publisher and its number"""

READY = 8
"""messages in a row that a link vouches for, from which on it pays to enter them later, all at once"""
FEW, OFTEN = 4_000, 4
"""events that wait to be entered at most: so many, or where there are more sources, so many times these"""


class Lasts:
    """The last values that passed, source by source.

    values_of: picks the values of an event; texts: which of these are texts, that a link does not keep
    """

    def __init__(self, values_of: Callable[[Event], Values], texts: tuple[int, ...]) -> None:
        self._values_of = values_of
        self._texts = texts
        self._passed: dict[Values, Passed] = {}
        self._waiting: list[Vouched] = []
        self._events = 0
        self._in_a_row = 0

    def known(self) -> dict[Values, Passed]:
        """All of it, to look up and to enter what passes."""
        self._in_a_row = 0
        self._enter()
        return self._passed

    def note(self, events: list[Event], vouched: Vouched) -> None:
        """These have passed, and their link vouches for it."""
        self._in_a_row += 1
        if self._in_a_row < READY:
            for event in events:
                about = event._about
                self._passed[about[1]] = self._values_of(event), (about[3], event.ordinal)
            return
        self._waiting.append(vouched)
        self._events += len(events)
        if self._events > max(FEW, OFTEN * len(self._passed)):
            self._enter()

    def _enter(self) -> None:
        if not self._waiting:
            return
        newest = self._waiting[-1]  # another link's begin with events that it cannot vouch for: these are all of one
        events = newest.last_of(b"".join(vouched.records for vouched in self._waiting))
        self._waiting, self._events = [], 0
        for event in events:
            self._passed[event.source] = self._with_texts(event), (event.incarnation, event.ordinal)

    def _with_texts(self, event: Event) -> Values:
        """The values of an event that was made again: where a text had changed, it would not have been vouched for."""
        values = self._values_of(event)
        if not self._texts:
            return values
        before = self._passed[event.source][0]
        return tuple(before[k] if k in self._texts else value for k, value in enumerate(values))
