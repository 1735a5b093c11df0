"""`emit="changes"`: an event passes when a value has moved by more than its tolerance since the last that passed.

The values seen are themselves up to their bound from the truth, so the filter takes what is left of the tolerance:
then the last value delivered stays within the tolerance of the truth until the next one comes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from operator import itemgetter
from typing import Any

from thinwire.client.subscription_filter_lasts import Lasts, Values
from thinwire.codec.changed_events import Vouched
from thinwire.codec.demand import tick_size
from thinwire.schema import Event, Kind, Property, Role, Schema, flatten
from thinwire.schema.property import TOLERANT_KINDS

Memory = dict[tuple[str, ...], dict[str, Lasts]]
"""what passed last: by the names of the properties, by publisher"""

MAX_BOUNDS = 64
"""sets of bounds kept in mind; a link has one at a time"""


class Changes:
    """Remembers the last values that passed, for each source of each publisher.

    schema: of the events; tolerance: per property; those not named do not count
    memory: what others with the same properties remember, for events that reach the same reader another way

    >>> rooms = Schema("rooms", [Property("room", "string", "dimension"), Property("t", "number", step="0.1")])
    >>> changes = Changes(rooms, {"t": 0.5})
    >>> def seen(t): return Event({"room": "11.1", "t": t}, bound={"t": 0.0}, source=("11.1",), ordinal=1)
    >>> [event["t"] for event in changes.admitted([seen(t) for t in (20.0, 20.4, 20.5, 20.6, 20.6)])]
    [20.0, 20.6]
    """

    def __init__(self, schema: Schema, tolerance: Mapping[str, float], memory: Memory | None = None) -> None:
        self.schema = schema
        self.tolerance = tolerance
        measured = [p for p in schema.wire if p.role is Role.MEASUREMENT and p.name in tolerance]
        self._names = tuple(p.name for p in measured)
        self._steps = tuple(_step(p) for p in measured)
        self._asked = tuple(Fraction(str(tolerance[name])) for name in self._names)
        self._values_of = _getter(schema, self._names)
        self._texts = tuple(k for k, p in enumerate(measured) if p.kind in (Kind.ENUM, Kind.STRING))
        self._limits_of: dict[int, tuple[Any, Values]] = {}
        self._last = memory.setdefault(self._names, {}) if memory is not None else {}

    def admitted(self, events: list[Event]) -> list[Event]:
        """Those events of one publisher that show a change; each is the one to compare with from then on."""
        if not events:
            return events
        last = self._lasts(events[0].publisher).known()
        values_of, bound = self._values_of, events[0].bound
        limits = self._limits(bound)
        any_counts = not any(limits)  # nothing is left of any tolerance: whatever differs has moved
        passed = []
        for event in events:
            about = event._about  # once instead of a property each: this is what a subscriber of changes does most
            values, source = values_of(event), about[1]
            before = last.get(source)
            if before is not None and values == before[0]:
                continue
            if about[0] is not bound:
                bound = about[0]
                limits = self._limits(bound)
                any_counts = not any(limits)
            if any_counts or before is None or self._moved(values, before[0], limits):
                last[source] = values, (about[3], event.ordinal)
                passed.append(event)
        return passed

    def counted(self, bound: Mapping[str, float | None]) -> tuple[str, ...]:
        """The properties that count, where nothing is left of any tolerance: whatever differs has moved. Else none."""
        return () if any(self._limits(bound)) else self._names

    def note(self, events: list[Event], vouched: Vouched) -> None:
        """Events of one publisher of which its link knows that each shows a change in what is `counted`."""
        if events:
            self._lasts(events[0].publisher).note(events, vouched)

    def moved_on(self, events: list[Event], *, strictly: bool) -> tuple[list[Event], list[Event]]:
        """Those events of one publisher, where its sources stand now, that differ from what passed last by more than
        may be, or strictly: at all. Sources of which nothing has passed yet do not count.

        First the ones that are newer than what passed; then those that are the same event, seen in another way: it
        must not come twice, and what comes after it has to be looked at.
        """
        last = self._lasts(events[0].publisher).known() if events else {}
        passed: list[Event] = []
        again: list[Event] = []
        for event in events:
            values, before = self._values_of(event), last.get(event.source)
            if before is None or values == before[0]:
                continue
            if strictly or self._moved(values, before[0], self._limits(event.bound)):
                number = event.incarnation, event.ordinal
                if number > before[1]:
                    last[event.source] = values, number
                    passed.append(event)
                else:
                    again.append(event)
        return passed, again

    def _lasts(self, publisher: str) -> Lasts:
        lasts = self._last.get(publisher)
        if lasts is None:
            lasts = self._last[publisher] = Lasts(self._values_of, self._texts)
        return lasts

    def _moved(self, values: Values, last: Values, limits: Values) -> bool:
        for value, before, step, limit in zip(values, last, self._steps, limits, strict=True):
            if value == before:
                continue
            if not limit or step is None or not isinstance(value, int | float) or not isinstance(before, int | float):
                return True
            distance = abs(value - before)
            if (round(distance / float(step)) if step else distance) > limit:
                return True
        return False

    def _limits(self, bound: Mapping[str, float | None]) -> Values:
        """What the bound leaves of each tolerance; made once for the bounds of a link."""
        known = self._limits_of.get(id(bound))
        if known is not None and known[0] is bound:
            return known[1]
        limits = tuple(
            _limit(max(asked - Fraction(str(bound.get(name) or 0)), Fraction(0)), step)
            for name, asked, step in zip(self._names, self._asked, self._steps, strict=True)
        )
        if len(self._limits_of) >= MAX_BOUNDS:
            self._limits_of.clear()
        self._limits_of[id(bound)] = bound, limits
        return limits


def _getter(schema: Schema, names: tuple[str, ...]) -> Callable[[Event], Values]:
    """The function that picks the values that count."""
    if schema.nested:
        return lambda event: tuple(map(flatten(event, schema).get, names))
    if len(names) > 1:
        return itemgetter(*names)
    return lambda event: tuple(event[name] for name in names)


def _step(p: Property) -> Fraction | None:
    """The grid to compare on: its step, 0 where there is none, None for kinds that differ or do not."""
    if p.kind not in TOLERANT_KINDS or p.kind in (Kind.GEO, Kind.ARRAY):
        return None
    return Fraction(0) if p.kind is Kind.FLOAT else tick_size(p)


def _limit(room: Fraction, step: Fraction | None) -> float:
    """How far a value may move: in whole steps where it has a grid, so that no rounding of doubles decides."""
    return int(room / step) if step else float(room)
