"""Converts decoded events to those of a subscription: sources, predicate, changes, reader schema and properties."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

from thinwire.client.change_filter import ChangeFilter, LastDelivered
from thinwire.client.notices import MessageUnreadable, Notice
from thinwire.client.subscription_request import SubscriptionRequest, always_delivered
from thinwire.codec import StreamDecoder
from thinwire.codec.deliveries import ChangedEvents
from thinwire.errors import UnknownFacts
from thinwire.schema import Event, Schema, SchemaProjection, flatten, nest
from thinwire.schema.kind_conversion import kind_conversion
from thinwire.topics.delivery_dedup import Source
from thinwire.topics.demand_class import DemandClass
from thinwire.topics.static_properties import Factoring
from thinwire.topics.topic_metadata import TopicMetadata

Step = Callable[[list[Event]], list[Event]]


class SchemaSteps(NamedTuple):
    """The steps for the events of one schema, in this order.

    factoring: joins static properties; select, changes: drop events; convert: changes events
    is_empty: there is no step
    """

    factoring: Factoring | None
    select: tuple[Step, ...]
    changes: ChangeFilter | None
    convert: tuple[Step, ...]
    is_empty: bool


class EventShaper:
    """Selects and converts the events of a subscription. It keeps the last delivered values for `emit="changes"`.

    reader: the schema that events are converted to; None for the publisher's own
    on_notice: called for events whose static properties cannot be found
    """

    def __init__(
        self,
        topic: TopicMetadata,
        request: SubscriptionRequest,
        demand: DemandClass,
        reader: Schema | None,
        on_notice: Callable[[Notice], None],
    ) -> None:
        self._topic = topic
        self._request = request
        self._demand = demand
        self._reader = reader
        self._on_notice = on_notice
        self._steps: dict[bytes, SchemaSteps] = {}
        self._last_delivered: LastDelivered = {}

    async def shape(
        self,
        decoder: StreamDecoder,
        events: list[Event],
        offset: int = 0,
        changed_events: ChangedEvents | None = None,
    ) -> list[Event]:
        """Return the events of one publisher that the subscription delivers.

        offset: of their message, for notices; changed_events: set if the decoder has verified each event as a change
        """
        if not events:
            return events
        assert decoder.decoder_state is not None
        steps = self._steps.get(decoder.decoder_state.fingerprint) or self._steps_for(decoder)
        if steps.is_empty:
            return events
        if steps.factoring is not None:
            events = await self._join_facts(steps.factoring, events, offset)
        for step in steps.select:
            events = step(events)
        if steps.changes is not None and changed_events is not None:
            steps.changes.record(events, changed_events)
        elif steps.changes is not None:
            events = steps.changes.select(events)
        for step in steps.convert:
            events = step(events)
        return events

    async def shape_state(
        self, decoder: StreamDecoder, events: list[Event], offset: int, *, any_difference: bool
    ) -> tuple[list[Event], set[Source]]:
        """Compare the current events of all sources. Return those that `emit="changes"` must deliver.

        Also returns the sources whose last delivered event has other values now: see `ChangeFilter.compare_state`.
        """
        if not events:
            return [], set()
        steps = self._steps_for(decoder)
        if steps.changes is None:
            return [], set()
        if steps.factoring is not None:
            events = await self._join_facts(steps.factoring, events, offset)
        for step in steps.select:
            events = step(events)
        newer, repeated = steps.changes.compare_state(events, any_difference=any_difference)
        for step in steps.convert:
            newer = step(newer)
        return newer, {event.source for event in repeated}

    def watched_properties(self, decoder: StreamDecoder) -> Collection[str]:
        """Return the properties whose changes the decoder selects for delivery; () if it cannot select them."""
        steps = self._steps_for(decoder)
        if steps.changes is None or steps.select or steps.factoring is not None:
            return ()
        return steps.changes.exact_properties(decoder.bound)

    async def _join_facts(self, factoring: Factoring, events: list[Event], offset: int) -> list[Event]:
        joined: list[Event] = []
        for event in events:
            try:
                joined.append(await self._topic.join_facts(factoring, event))
            except UnknownFacts as unknown:
                self._on_notice(MessageUnreadable(event.publisher, offset, str(unknown)))
        return joined

    def _steps_for(self, decoder: StreamDecoder) -> SchemaSteps:
        state = decoder.decoder_state
        assert state is not None
        if state.fingerprint not in self._steps:
            self._steps[state.fingerprint] = self._create_steps(state.fingerprint, state.schema)
        return self._steps[state.fingerprint]

    def _create_steps(self, fingerprint: bytes, schema: Schema) -> SchemaSteps:
        request, changes = self._request, None
        factoring = self._topic.factoring_of(fingerprint)
        if factoring is not None:
            schema = factoring.schema
        if request.emit == "changes":
            changes = ChangeFilter(schema, request.tolerances(schema), self._last_delivered)
        select = tuple(_selections(schema, request))
        convert = tuple(_conversions(schema, self._reader, request, self._demand))
        is_empty = not (factoring or select or changes or convert)
        return SchemaSteps(factoring, select, changes, convert, is_empty)


def _selections(schema: Schema, request: SubscriptionRequest) -> Iterator[Step]:
    if request.sources:
        yield _select_sources(schema, request.sources)
    if request.where is not None:
        matches = request.where.matches
        yield lambda events: [event for event in events if matches(event)]


def _select_sources(schema: Schema, sources: Mapping[str, frozenset[Any]]) -> Step:
    wanted = [(index, sources[p.name]) for index, p in enumerate(schema.dimensions) if p.name in sources]

    def is_wanted(event: Event) -> bool:
        source = event.source
        return all(source[index] in values for index, values in wanted)

    return lambda events: [event for event in events if is_wanted(event)]


def _conversions(
    schema: Schema, reader: Schema | None, request: SubscriptionRequest, demand: DemandClass
) -> Iterator[Step]:
    if reader is not None:
        # Events of a channel have the selected properties only: without this, the others would be added as nulls.
        selected, selected_reader = _delivered_part(schema, demand), _delivered_part(reader, demand)
        if selected.fingerprint != selected_reader.fingerprint:
            yield _project(schema, SchemaProjection(selected, selected_reader))
    if request.properties is not None:
        yield _select_properties(reader or schema, request.properties)
    if (kinds := kind_conversion(reader or schema)) is not None:
        yield lambda events: [event.like(kinds.from_base(event)) for event in events]


def _delivered_part(schema: Schema, demand: DemandClass) -> Schema:
    """Return the properties that a demand class receives, and all static ones."""
    selected = demand.schema(schema)
    if selected is schema:
        return schema
    return schema.select(p.name for p in schema if p.static or p.name in selected)


def _project(schema: Schema, projection: SchemaProjection) -> Step:
    def project(event: Event) -> Event:
        flat = projection(event.like(flatten(event, schema)))
        return flat.like(nest(flat)) if projection.reader.nested else flat

    return lambda events: [project(event) for event in events]


def _select_properties(schema: Schema, properties: Collection[str]) -> Step:
    kept = always_delivered(schema) | set(properties)
    bound: Mapping[str, float | None] = {}
    kept_bound: dict[str, float | None] = {}

    def bound_of(event: Event) -> dict[str, float | None]:
        nonlocal bound, kept_bound
        if event.bound is not bound:
            bound, kept_bound = event.bound, {name: limit for name, limit in event.bound.items() if name in kept}
        return kept_bound

    def select(event: Event) -> Event:
        if schema.nested:
            flat = {name: value for name, value in flatten(event, schema).items() if name in kept}
            return event.like(nest(flat), bound_of(event))
        return event.like({name: value for name, value in event.items() if name in kept}, bound_of(event))

    return lambda events: [select(event) for event in events]
