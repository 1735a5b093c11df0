"""From the messages of a feed to the events a subscriber asked for, and word of everything else."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import NamedTuple, cast

from thinwire.brokers.protocol import Stored
from thinwire.client.delivery_dedup import DeliveryDedup, Source, reconcile_feeds
from thinwire.client.notices import MessageUnreadable, Notice, SubscriptionMonitor
from thinwire.client.subscription_filter import EventShaper, Memory
from thinwire.client.subscription_request import SubscriptionRequest
from thinwire.codec import Delivery, EventsMissed, StreamDecoder, Watermark
from thinwire.codec.changed_events import ChangedEvents
from thinwire.errors import PeerFault, UnknownFacts
from thinwire.schema import Event, Schema
from thinwire.topics.demand_class import DemandClass
from thinwire.topics.log_decoder import ChannelDecoder, LogDecoder, resolve_and_retry
from thinwire.topics.names import publisher_in
from thinwire.topics.static_properties import Factoring
from thinwire.topics.topic import TopicMetadata


class _PendingEvents(NamedTuple):
    """What a link has still to say: events, or where its sources stand, as far as that is a change."""

    link: StreamDecoder
    events: list[Event]
    on_channel: bool
    stands: bool = False


class EventPipeline:
    """The receiving side of one subscription: facts, filters and what was told, whatever it reads from.

    log_decoder: the links of what it reads from; demand: the class of the subscription
    reader: the schema to read events as, where it is not their own
    tell: called with what is told beside events
    settled: has a feed that was gone over to come as far as the one before it?
    unread: the message that waits for something to be learnt; it comes before all others
    """

    def __init__(
        self,
        topic: TopicMetadata,
        asked: SubscriptionRequest,
        demand: DemandClass,
        reader: Schema | None,
        tell: Callable[[Notice], None],
        log_decoder: LogDecoder,
        floor: DeliveryDedup,
    ) -> None:
        self.log_decoder = log_decoder
        self.floor = floor
        self._topic = topic
        self._asked = asked
        self._demand = demand
        self._reader = reader
        self._tell = tell
        self._watch = SubscriptionMonitor(asked, tell)
        self._shapes: dict[tuple[bytes, bool], tuple[EventShaper, Factoring | None]] = {}
        self._changes: Memory = {}
        self._heard: set[str] = set()
        self._offset = 0
        self.settled = True
        self._bounds: dict[str, Mapping[str, float | None]] = {}
        self._read_to: dict[str, int] = {}
        self._rest: list[_PendingEvents] = []
        self._said: list[Event] = []
        self._awaited: dict[str, set[Source]] = {}
        self.unread: Stored | None = None
        log_decoder.counted = self._counted

    @property
    def watermark(self) -> float | None:
        """The time up to which every publisher heard of is complete."""
        return self._watch.watermark(self.log_decoder.links)

    async def take(self, stored: Stored, now: float) -> list[Event]:
        """The events of a message that were asked for."""
        try:
            return await self._take(stored, await self._receive(stored, now))
        except BaseException:  # whoever is told of something may fail: what was seen has not come as far as the filter
            self.log_decoder.link(publisher_in(stored.subject)).watch(())
            raise

    async def _take(self, stored: Stored, deliveries: list[Delivery]) -> list[Event]:
        self._offset = stored.offset
        self._watch.stored_at(stored)
        changed_events = self.log_decoder.changed_events
        if changed_events is not None:
            events = cast(list[Event], deliveries)
        else:
            events = [thing for thing in deliveries if type(thing) is Event]
        publisher = publisher_in(stored.subject)
        if events:
            self._heard.add(publisher)
        if len(events) != len(deliveries):
            self._pass_on(deliveries)
        self._watch.check_bounds(self.log_decoder.links, self._topic, on_log=not self._on_channel)
        link = self.log_decoder.link(publisher)
        if self.floor:
            self._lower_dedup_limit()
        if self.floor:
            events = self._drop_delivered(link, stored.offset, events)
        if publisher in self._awaited:
            self._came(publisher, events)
        shaped = await self._shaped(link, events, changed_events=changed_events)
        if self._asked.emit == "changes" and self._has_new_change_count(link):
            shaped = [*shaped, *await self._shaped(link, link.present(), stands=True)]
        return shaped

    async def present(self) -> list[Event]:
        """Where every source stands."""
        return [event for link in self.log_decoder.links.values() for event in await self._shaped(link, link.present())]

    async def expected(self) -> list[Event]:
        """What is expected next of sources that are silent."""
        links = self.log_decoder.links.values()
        return [event for link in links for event in await self._shaped(link, self._watch.expected(link))]

    def switch_decoder(self, log_decoder: LogDecoder) -> None:
        """Go on with the links of another feed, which are at their place; `rest` is what the ones before still know."""
        meeting = reconcile_feeds(self.log_decoder, log_decoder, self.floor)
        self._rest += [_PendingEvents(link, events, self._on_channel) for link, events in meeting.rest]
        for missed in meeting.missed:
            self._tell(missed)
        self.log_decoder, self.floor = log_decoder, meeting.floor
        log_decoder.counted = self._counted
        self._awaited.clear()
        self._watch.start_over()
        self._bounds.clear()

    def finish_switch(self) -> None:
        """The new feed has come as far as the one before: `rest` tells where sources stand, where that is a change."""
        self.settled = True
        self._read_to.clear()
        self._rest += [
            _PendingEvents(link, link.present(), self._on_channel, stands=True)
            for link in self.log_decoder.links.values()
        ]

    async def take_pending(self) -> list[Event]:
        """What feeds that were left had still to say. Whoever asks may be gone before it is all there: it waits."""
        while self._rest:
            self._said += await self._shaped(*self._rest[0])
            del self._rest[0]
        said, self._said = self._said, []
        return said

    @property
    def _on_channel(self) -> bool:
        return isinstance(self.log_decoder, ChannelDecoder)

    async def _receive(self, stored: Stored, now: float) -> list[Delivery]:
        """What a message brings; a schema or a dictionary that is not known yet is asked for."""

        def complain(problem: PeerFault) -> None:
            self._tell(MessageUnreadable(publisher_in(stored.subject), stored.offset, str(problem)))

        try:
            return self.log_decoder.receive(stored, now)
        except PeerFault as fault:
            link = self.log_decoder.link(publisher_in(stored.subject))
            again, learn = partial(self.log_decoder.pass_on, stored, now), partial(self._learn, stored)
            return await resolve_and_retry(link, fault, again, learn, complain)

    async def _learn(self, stored: Stored, name: bytes) -> bool:
        """Whoever asks for events may lose patience meanwhile, and the broker may be away: the message stays unread."""
        self.unread = stored
        try:
            known = await self._topic.learn(name)
        except PeerFault:
            self.unread = None
            raise
        self.unread = None
        return known

    def _pass_on(self, deliveries: list[Delivery]) -> None:
        for thing in deliveries:
            if isinstance(thing, Event) or self._before_the_beginning(thing):
                continue
            if isinstance(thing, Watermark):
                self._watch.marked(thing, on_log=not self._on_channel)
            self._tell(thing)

    def _before_the_beginning(self, thing: Delivery) -> bool:
        """Is it word of events that happened before anything was asked for?"""
        return isinstance(thing, EventsMissed) and thing.first is None and thing.publisher not in self._heard

    def _lower_dedup_limit(self) -> None:
        """A channel of matching events that has told of a publisher as far as the log was read before it tells nothing
        again: sources of which it never tells would be kept in mind for good. Other channels may still tell what they
        passed over in silence."""
        if self._asked.where is None or not isinstance(self.log_decoder, ChannelDecoder):
            return
        told, before = self.log_decoder.positions, self.log_decoder.before
        for publisher in list(self.floor.told):
            reached = before[1] if before is not None and before[0] == publisher else told.of(publisher)
            if reached.offset >= self.log_decoder.began:
                self.floor.lower(publisher)

    def _drop_delivered(self, link: StreamDecoder, offset: int, events: list[Event]) -> list[Event]:
        """Those events that were not handed out before."""
        kept, missed = self.floor.above(link.publisher, offset, events, whole=link.include_suppressed)
        for gap in missed:
            self._tell(gap)
        return kept

    def _has_new_change_count(self, link: StreamDecoder) -> bool:
        """Has the way in which a publisher's changes are counted become another one?

        On the log: its bounds have, and what was close enough to the value that passed last may not be any more. On a
        channel: it has come as far as the log was read before, or another translator goes on, from other values.
        """
        name, before = link.publisher, self._bounds.get(link.publisher)
        self._bounds[name] = link.bound
        if not isinstance(self.log_decoder, ChannelDecoder):
            self._read_to[name] = self._offset
            return before is not None and before is not link.bound and self.settled
        if self._asked.where is not None:
            return False  # every event that matches comes, whatever was told before
        if not self.settled and self.log_decoder.positions.of(name).offset >= self._read_to.get(name, math.inf):
            del self._read_to[name]  # it is told what the log told: the channel's values are the newest
            return True
        return self.log_decoder.was_succeeded(name) and self.settled

    async def _shaped(
        self,
        link: StreamDecoder,
        events: list[Event],
        on_channel: bool | None = None,
        stands: bool = False,
        changed_events: ChangedEvents | None = None,
    ) -> list[Event]:
        """What is left of a publisher's events, as they were asked for; stands: these say where its sources stand."""
        if not events:
            return events
        on_channel = self._on_channel if on_channel is None else on_channel
        shape, factoring = self._shape_of(link, on_channel)
        if factoring is not None:
            events = await self._with_facts(factoring, events)
        if not stands:
            return shape(events, changed_events)
        # What a channel counts from is what it last told, to the bit; a log leaves room for what it may be off.
        passed, again = shape.moved_on(events, strictly=on_channel)
        if again:
            self._await_next(link.publisher, again)
        return passed

    def _counted(self, link: StreamDecoder) -> Collection[str]:
        """The properties whose changes a link may look for itself: all that it then hands out reaches the filter."""
        if self._asked.emit != "changes" or self.floor:
            return ()
        shape, factoring = self._shape_of(link, self._on_channel)
        return shape.counted(link.bound) if factoring is None else ()

    def _await_next(self, publisher: str, events: list[Event]) -> None:
        """These events have come before, seen in another way: the next of their sources count, silent ones too."""
        self._awaited.setdefault(publisher, set()).update(event.source for event in events)
        self.log_decoder.restless.add(publisher)

    def _came(self, publisher: str, events: list[Event]) -> None:
        """Events of sources that may have been waited for."""
        awaited = self._awaited[publisher]
        awaited.difference_update(event.source for event in events)
        if not awaited:
            del self._awaited[publisher]
            self.log_decoder.restless.discard(publisher)

    async def _with_facts(self, factoring: Factoring, events: list[Event]) -> list[Event]:
        joined: list[Event] = []
        for event in events:
            try:
                joined.append(await self._topic.join_facts(factoring, event))
            except UnknownFacts as unknown:
                self._tell(MessageUnreadable(event.publisher, self._offset, str(unknown)))
        return joined

    def _shape_of(self, link: StreamDecoder, on_channel: bool) -> tuple[EventShaper, Factoring | None]:
        assert link.decoder_state is not None
        fingerprint = link.decoder_state.fingerprint
        known = self._shapes.get((fingerprint, on_channel))
        if known is None:
            factoring = self._topic.factoring_of(fingerprint)
            schema = factoring.schema if factoring is not None else link.decoder_state.expander.rules.schema
            reader = self._reader
            if on_channel:
                schema, reader = self._left_of(schema), self._left_of(reader) if reader is not None else None
            known = EventShaper(self._asked, schema, reader, self._changes), factoring
            self._shapes[fingerprint, on_channel] = known
        return known

    def _left_of(self, schema: Schema) -> Schema:
        """What of a schema comes through a channel: what its class chose, and all facts that are told once."""
        chosen = self._demand.schema(schema)
        if chosen is schema:
            return schema
        return schema.select(p.name for p in schema if p.static or p.name in chosen)
