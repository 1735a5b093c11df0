"""From the events of a log to those a subscriber asked for: its sources, its properties, its changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from thinwire.client.subscription_filter import Changes, Memory
from thinwire.client.subscription_request import Asked, always_delivered
from thinwire.codec.changed_events import Vouched
from thinwire.schema import Event, Projection, Schema, flatten, nest

Step = Callable[[list[Event]], list[Event]]


class Shape:
    """What is done to the events of one schema, step by step; nothing where everything was asked for.

    memory: of what has passed as a change, shared by all shapes of a subscription
    """

    def __init__(
        self, asked: Asked, schema: Schema, reader: Schema | None = None, memory: Memory | None = None
    ) -> None:
        self.schema = schema
        self.changes = Changes(schema, asked.tolerances(schema), memory) if asked.emit == "changes" else None
        self._first = tuple(_choices(schema, asked))
        self._then = tuple(self._make_steps(asked, reader))

    def __call__(self, events: list[Event], vouched: Vouched | None = None) -> list[Event]:
        """The events that are left, in their order; vouched: their link knows of each that it shows a change."""
        for step in self._first:
            events = step(events)
        if self.changes is not None and vouched is not None:
            self.changes.note(events, vouched)
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

    def _make_steps(self, asked: Asked, reader: Schema | None) -> list[Step]:
        steps: list[Step] = []
        if reader is not None and reader.fingerprint != self.schema.fingerprint:
            steps.append(_projected(self.schema, reader))
        if asked.properties is not None:
            steps.append(_chosen_properties(reader or self.schema, asked))
        return steps


def _choices(schema: Schema, asked: Asked) -> Iterator[Step]:
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
    project = Projection(writer, reader)

    def projected(event: Event) -> Event:
        flat = project(event.like(flatten(event, writer)))
        return flat.like(nest(flat)) if reader.nested else flat

    return lambda events: [projected(event) for event in events]


def _chosen_properties(schema: Schema, asked: Asked) -> Step:
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
