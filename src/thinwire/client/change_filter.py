"""`emit="changes"`: an event is delivered if a value differs by more than its tolerance from the event delivered last.

A decoded value differs from the true value by up to its bound. The filter therefore compares with the tolerance minus
the bound, so that the last delivered value stays within the tolerance of the true value until the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from operator import itemgetter
from typing import Any

from thinwire.codec.deliveries import ChangedEvents
from thinwire.codec.tolerance_vector import tick_size
from thinwire.schema import Event, Kind, Property, Role, Schema, flatten
from thinwire.schema.kind import TOLERANT_KINDS

Values = tuple[Any, ...]

DeliveredValues = tuple[Values, tuple[int, int]]
"""the values, incarnation and ordinal of a delivered event"""

DEFER_AFTER = 8
"""consecutive messages of verified changes after which values of further messages are stored in batches"""
MAX_DEFERRED, DEFERRED_PER_SOURCE = 4_000, 4
"""maximum number of events in a batch: in total, or for each source if that is more"""


class LastValues:
    """The last delivered values of each source of one publisher. Those of verified changes are stored in batches.

    verified change: an event that the decoder has compared with the event before, see `ChangedEvents`
    values_of: returns the compared values of an event; texts: indexes of texts, which verified changes do not contain
    """

    def __init__(self, values_of: Callable[[Event], Values], texts: tuple[int, ...]) -> None:
        self._values_of = values_of
        self._texts = texts
        self._delivered: dict[Values, DeliveredValues] = {}
        self._deferred: list[ChangedEvents] = []
        self._deferred_events = 0
        self._verified_messages = 0

    def by_source(self) -> dict[Values, DeliveredValues]:
        """Return the last values by source. The caller stores the values of events that it delivers in the result."""
        self._verified_messages = 0
        self._store_deferred()
        return self._delivered

    def record(self, events: list[Event], changed_events: ChangedEvents) -> None:
        """Record delivered events that the decoder has verified as changes."""
        self._verified_messages += 1
        if self._verified_messages < DEFER_AFTER:
            for event in events:
                about = event._about  # bound, source, publisher, incarnation
                self._delivered[about[1]] = self._values_of(event), (about[3], event.ordinal)
            return
        self._deferred.append(changed_events)
        self._deferred_events += len(events)
        if self._deferred_events > max(MAX_DEFERRED, DEFERRED_PER_SOURCE * len(self._delivered)):
            self._store_deferred()

    def _store_deferred(self) -> None:
        if not self._deferred:
            return
        newest = self._deferred[-1]  # the batch is of one decoder: the first message of another one is not verified
        events = newest.last_of(b"".join(changed_events.records for changed_events in self._deferred))
        self._deferred, self._deferred_events = [], 0
        for event in events:
            self._delivered[event.source] = self._with_texts(event), (event.incarnation, event.ordinal)

    def _with_texts(self, event: Event) -> Values:
        """Return the values of a rebuilt event, with the last delivered texts: verified changes change no text."""
        values = self._values_of(event)
        if not self._texts:
            return values
        before = self._delivered[event.source][0]
        return tuple(before[k] if k in self._texts else value for k, value in enumerate(values))


LastDelivered = dict[tuple[str, ...], dict[str, LastValues]]
"""the last delivered values by the names of the compared properties, then by publisher"""

MAX_CACHED_LIMITS = 64
"""entries of the cache of limits, one for each set of bounds; a decoder has one set of bounds at a time"""


class ChangeFilter:
    """Compares each event with the last delivered event of its source.

    schema: of the events; tolerance: by property; other properties are not compared
    last_delivered: state shared with filters for other schema versions of the same subscription

    >>> rooms = Schema("rooms", [Property("room", "string", "dimension"), Property("t", "number", step="0.1")])
    >>> changes = ChangeFilter(rooms, {"t": 0.5})
    >>> def seen(t): return Event({"room": "11.1", "t": t}, bound={"t": 0.0}, source=("11.1",), ordinal=1)
    >>> [event["t"] for event in changes.select([seen(t) for t in (20.0, 20.4, 20.5, 20.6, 20.6)])]
    [20.0, 20.6]
    """

    def __init__(
        self, schema: Schema, tolerance: Mapping[str, float], last_delivered: LastDelivered | None = None
    ) -> None:
        self.schema = schema
        self.tolerance = tolerance
        measured = [p for p in schema.wire if p.role is Role.MEASUREMENT and p.name in tolerance]
        self._names = tuple(p.name for p in measured)
        self._steps = tuple(_step(p) for p in measured)
        self._tolerances = tuple(Fraction(str(tolerance[name])) for name in self._names)
        self._values_of = _getter(schema, self._names)
        self._texts = tuple(k for k, p in enumerate(measured) if p.kind in (Kind.ENUM, Kind.STRING))
        self._limits_cache: dict[int, tuple[Any, Values]] = {}
        self._last = last_delivered.setdefault(self._names, {}) if last_delivered is not None else {}

    def select(self, events: list[Event]) -> list[Event]:
        """Return the events of one publisher that contain a change."""
        if not events:
            return events
        last = self._last_values(events[0].publisher).by_source()
        values_of, bound = self._values_of, events[0].bound
        limits = self._limits(bound)
        is_exact = not any(limits)  # all limits are 0: every difference is a change
        passed = []
        for event in events:
            about = event._about  # bound, source, publisher, incarnation; faster than properties
            values, source = values_of(event), about[1]
            before = last.get(source)
            if before is not None and values == before[0]:
                continue
            if about[0] is not bound:
                bound = about[0]
                limits = self._limits(bound)
                is_exact = not any(limits)
            if is_exact or before is None or self._has_changed(values, before[0], limits):
                last[source] = values, (about[3], event.ordinal)
                passed.append(event)
        return passed

    def exact_properties(self, bound: Mapping[str, float | None]) -> tuple[str, ...]:
        """Return the compared properties if every difference is a change at this bound, () otherwise."""
        return () if any(self._limits(bound)) else self._names

    def record(self, events: list[Event], changed_events: ChangedEvents) -> None:
        """Record events of one publisher that its decoder has verified as changes of `exact_properties`."""
        if events:
            self._last_values(events[0].publisher).record(events, changed_events)

    def compare_state(self, events: list[Event], *, any_difference: bool) -> tuple[list[Event], list[Event]]:
        """Compare the current events of the sources of one publisher with the events delivered last.

        Returns the changed events newer than the last delivered one of their source, and the other changed events. The
        others were delivered from another feed with other values and are not delivered again, but the next event of
        their source must be compared. Sources without a delivered event are in neither list.
        any_difference: a difference of any size is a change, not only one above the limit
        """
        last = self._last_values(events[0].publisher).by_source() if events else {}
        newer: list[Event] = []
        repeated: list[Event] = []
        for event in events:
            values, before = self._values_of(event), last.get(event.source)
            if before is None or values == before[0]:
                continue
            if any_difference or self._has_changed(values, before[0], self._limits(event.bound)):
                number = event.incarnation, event.ordinal
                if number > before[1]:
                    last[event.source] = values, number
                    newer.append(event)
                else:
                    repeated.append(event)
        return newer, repeated

    def _last_values(self, publisher: str) -> LastValues:
        values = self._last.get(publisher)
        if values is None:
            values = self._last[publisher] = LastValues(self._values_of, self._texts)
        return values

    def _has_changed(self, values: Values, last: Values, limits: Values) -> bool:
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
        """Return tolerance minus bound by property; cached, because all events of a decoder share their bounds."""
        known = self._limits_cache.get(id(bound))
        if known is not None and known[0] is bound:
            return known[1]
        limits = tuple(
            _limit(max(tolerance - Fraction(str(bound.get(name) or 0)), Fraction(0)), step)
            for name, tolerance, step in zip(self._names, self._tolerances, self._steps, strict=True)
        )
        if len(self._limits_cache) >= MAX_CACHED_LIMITS:
            self._limits_cache.clear()
        self._limits_cache[id(bound)] = bound, limits
        return limits


def _getter(schema: Schema, names: tuple[str, ...]) -> Callable[[Event], Values]:
    if schema.nested:
        return lambda event: tuple(map(flatten(event, schema).get, names))
    if len(names) > 1:
        return itemgetter(*names)
    return lambda event: tuple(event[name] for name in names)


def _step(p: Property) -> Fraction | None:
    """Return the step to compare on: 0 for floats, None for kinds that are compared for equality."""
    if p.kind not in TOLERANT_KINDS or p.kind in (Kind.GEO, Kind.ARRAY):
        return None
    return Fraction(0) if p.kind is Kind.FLOAT else tick_size(p)


def _limit(tolerance: Fraction, step: Fraction | None) -> float:
    """Return a limit in whole steps where there is a step, so that float rounding has no influence."""
    return int(tolerance / step) if step else float(tolerance)
