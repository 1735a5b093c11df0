"""`emit="changes"`: an event passes when a value has moved by more than its tolerance since the last that passed.

The values seen are themselves up to their bound from the truth, so the filter takes what is left of the tolerance:
then the last value delivered stays within the tolerance of the truth until the next one comes.

What passed last of one publisher, by source; what a link vouches for is entered when somebody wants to know.

From the events of a log to those a subscriber asked for: its sources, its properties, its changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from operator import itemgetter
from typing import Any

from thinwire.client.subscription_request import SubscriptionRequest, always_delivered
from thinwire.codec.changed_events import ChangedEvents
from thinwire.codec.demand import tick_size
from thinwire.schema import Event, Kind, Property, Role, Schema, SchemaProjection, flatten, nest
from thinwire.schema.property import TOLERANT_KINDS

Values = tuple[Any, ...]

Passed = tuple[Values, tuple[int, int]]
"""the values of an event that passed, the life of its publisher and its number"""

READY = 8
"""messages in a row that a link vouches for, from which on it pays to enter them later, all at once"""
FEW, OFTEN = 4_000, 4
"""events that wait to be entered at most: so many, or where there are more sources, so many times these"""


class LastValues:
    """The last values that passed, source by source.

    values_of: picks the values of an event; texts: which of these are texts, that a link does not keep
    """

    def __init__(self, values_of: Callable[[Event], Values], texts: tuple[int, ...]) -> None:
        self._values_of = values_of
        self._texts = texts
        self._passed: dict[Values, Passed] = {}
        self._waiting: list[ChangedEvents] = []
        self._events = 0
        self._in_a_row = 0

    def known(self) -> dict[Values, Passed]:
        """All of it, to look up and to enter what passes."""
        self._in_a_row = 0
        self._enter()
        return self._passed

    def note(self, events: list[Event], changed_events: ChangedEvents) -> None:
        """These have passed, and their link vouches for it."""
        self._in_a_row += 1
        if self._in_a_row < READY:
            for event in events:
                about = event._about
                self._passed[about[1]] = self._values_of(event), (about[3], event.ordinal)
            return
        self._waiting.append(changed_events)
        self._events += len(events)
        if self._events > max(FEW, OFTEN * len(self._passed)):
            self._enter()

    def _enter(self) -> None:
        if not self._waiting:
            return
        newest = self._waiting[-1]  # another link's begin with events that it cannot vouch for: these are all of one
        events = newest.last_of(b"".join(changed_events.records for changed_events in self._waiting))
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


Memory = dict[tuple[str, ...], dict[str, LastValues]]
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

    def note(self, events: list[Event], changed_events: ChangedEvents) -> None:
        """Events of one publisher of which its link knows that each shows a change in what is `counted`."""
        if events:
            self._lasts(events[0].publisher).note(events, changed_events)

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

    def _lasts(self, publisher: str) -> LastValues:
        lasts = self._last.get(publisher)
        if lasts is None:
            lasts = self._last[publisher] = LastValues(self._values_of, self._texts)
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


Step = Callable[[list[Event]], list[Event]]


class EventShaper:
    """What is done to the events of one schema, step by step; nothing where everything was asked for.

    memory: of what has passed as a change, shared by all shapes of a subscription
    """

    def __init__(
        self, asked: SubscriptionRequest, schema: Schema, reader: Schema | None = None, memory: Memory | None = None
    ) -> None:
        self.schema = schema
        self.changes = Changes(schema, asked.tolerances(schema), memory) if asked.emit == "changes" else None
        self._first = tuple(_choices(schema, asked))
        self._then = tuple(self._make_steps(asked, reader))

    def __call__(self, events: list[Event], changed_events: ChangedEvents | None = None) -> list[Event]:
        """The events that are left, in their order; vouched: their link knows of each that it shows a change."""
        for step in self._first:
            events = step(events)
        if self.changes is not None and changed_events is not None:
            self.changes.note(events, changed_events)
        elif self.changes is not None:
            events = self.changes.admitted(events)
        for step in self._then:
            events = step(events)
        return events

    def counted(self, bound: Mapping[str, float | None]) -> tuple[str, ...]:
        """The properties of which every change passes, of all sources; see `Changes.counted`."""
        return self.changes.counted(bound) if self.changes is not None and not self._first else ()

    def moved_on(self, events: list[Event], *, strictly: bool) -> tuple[list[Event], list[Event]]:
        """Where sources stand now, as far as that is a change nobody has told, or strictly: any difference; and apart,
        where it is seen in another way although nothing has happened since. See `Changes.moved_on`."""
        if self.changes is None:
            return [], []
        for step in self._first:
            events = step(events)
        passed, again = self.changes.moved_on(events, strictly=strictly)
        for step in self._then:
            passed = step(passed)
        return passed, again

    def _make_steps(self, asked: SubscriptionRequest, reader: Schema | None) -> list[Step]:
        steps: list[Step] = []
        if reader is not None and reader.fingerprint != self.schema.fingerprint:
            steps.append(_projected(self.schema, reader))
        if asked.properties is not None:
            steps.append(_chosen_properties(reader or self.schema, asked))
        return steps


def _choices(schema: Schema, asked: SubscriptionRequest) -> Iterator[Step]:
    """What decides which events are delivered at all."""
    if asked.sources:
        yield _chosen_sources(schema, asked.sources)
    if asked.where is not None:
        holds = asked.where.holds
        yield lambda events: [event for event in events if holds(event)]


def _chosen_sources(schema: Schema, sources: Mapping[str, frozenset[Any]]) -> Step:
    places = [(place, sources[p.name]) for place, p in enumerate(schema.dimensions) if p.name in sources]

    def chosen(event: Event) -> bool:
        source = event.source
        return all(source[place] in wanted for place, wanted in places)

    return lambda events: [event for event in events if chosen(event)]


def _projected(writer: Schema, reader: Schema) -> Step:
    project = SchemaProjection(writer, reader)

    def projected(event: Event) -> Event:
        flat = project(event.like(flatten(event, writer)))
        return flat.like(nest(flat)) if reader.nested else flat

    return lambda events: [projected(event) for event in events]


def _chosen_properties(schema: Schema, asked: SubscriptionRequest) -> Step:
    kept = always_delivered(schema) | set(asked.properties or ())
    bounds: dict[int, tuple[Any, dict[str, float | None]]] = {}

    def bound_of(event: Event) -> dict[str, float | None]:
        known = bounds.get(id(event.bound))
        if known is None or known[0] is not event.bound:
            bounds.clear()
            known = event.bound, {name: bound for name, bound in event.bound.items() if name in kept}
            bounds[id(event.bound)] = known
        return known[1]

    def reduced(event: Event) -> Event:
        if schema.nested:
            flat = {name: value for name, value in flatten(event, schema).items() if name in kept}
            return event.like(nest(flat), bound_of(event))
        return event.like({name: value for name, value in event.items() if name in kept}, bound_of(event))

    return lambda events: [reduced(event) for event in events]
