"""From the messages of a log to the events a subscriber asked for, and word of everything else."""

from __future__ import annotations

from collections.abc import Callable

from thinwire.client.asking import Asked
from thinwire.client.notices import Notice, Unreadable
from thinwire.client.shaping import Shape
from thinwire.client.watching import Watch
from thinwire.control.factoring import Factoring
from thinwire.control.logs.inlet import Inlet
from thinwire.control.logs.seeking import rewind
from thinwire.control.names import publisher_in
from thinwire.control.topics import Topic
from thinwire.errors import PeerFault, UnknownFacts, UnknownSchema
from thinwire.events import Event, Schema
from thinwire.link import Delivery, Missed, Subscriber, Watermark
from thinwire.transports.broker import Broker, Stored


class Intake:
    """The receiving side of one subscription: links, facts and filters.

    reader: the schema to read events as, where it is not their own
    tell: called with what is told beside events
    """

    def __init__(self, topic: Topic, asked: Asked, reader: Schema | None, tell: Callable[[Notice], None]) -> None:
        self.inlet = Inlet(topic.lookup, only_changes=asked.emit == "changes")
        self._topic = topic
        self._asked = asked
        self._reader = reader
        self._tell = tell
        self._watch = Watch(asked, tell)
        self._shapes: dict[bytes, tuple[Shape, Factoring | None]] = {}
        self._heard: set[str] = set()
        self._offset = 0

    @property
    def watermark(self) -> float | None:
        """The time up to which every publisher heard of is complete."""
        return self._watch.watermark(self.inlet.links)

    async def seek(self, broker: Broker, place: int, furthest: int | None) -> None:
        """Bring the links to a place of the log, reading at most so many messages."""
        self.inlet = await rewind(
            broker, self._topic.name, place, self.inlet, learn=self._topic.learn, furthest=furthest
        )
        self.inlet.offset = place - 1

    async def take(self, stored: Stored, now: float) -> list[Event]:
        """The events of a message that were asked for."""
        deliveries = await self._receive(stored, now)
        self._offset = stored.offset
        self._watch.stored_at(stored)
        events = [thing for thing in deliveries if type(thing) is Event]
        publisher = publisher_in(stored.subject)
        if events:
            self._heard.add(publisher)
        if len(events) != len(deliveries):
            self._pass_on(deliveries)
        self._watch.check_bounds(self.inlet.links, self._topic)
        return await self._shaped(self.inlet.link(publisher), events)

    async def present(self) -> list[Event]:
        """Where every source stands."""
        return [event for link in self.inlet.links.values() for event in await self._shaped(link, link.present())]

    async def expected(self) -> list[Event]:
        """What is expected next of sources that are silent."""
        links = self.inlet.links.values()
        return [event for link in links for event in await self._shaped(link, self._watch.expected(link))]

    async def _receive(self, stored: Stored, now: float) -> list[Delivery]:
        """What a message brings; a schema that is not known yet is asked for, once."""
        publisher = publisher_in(stored.subject)
        try:
            return self.inlet.receive(stored, now)
        except UnknownSchema as unknown:
            if await self._topic.learn(bytes.fromhex(unknown.fingerprint)):
                return self.inlet.link(publisher).receive(stored.payload, now=now)
            self._tell(Unreadable(publisher, stored.offset, str(unknown)))
        except PeerFault as fault:
            self._tell(Unreadable(publisher, stored.offset, str(fault)))
        return []

    def _pass_on(self, deliveries: list[Delivery]) -> None:
        for thing in deliveries:
            if isinstance(thing, Event) or self._before_the_beginning(thing):
                continue
            if isinstance(thing, Watermark):
                self._watch.marked(thing)
            self._tell(thing)

    def _before_the_beginning(self, thing: Delivery) -> bool:
        """Is it word of events that happened before anything was asked for?"""
        return isinstance(thing, Missed) and thing.first is None and thing.publisher not in self._heard

    async def _shaped(self, link: Subscriber, events: list[Event]) -> list[Event]:
        """What is left of a publisher's events, as they were asked for."""
        if not events:
            return events
        shape, factoring = self._shape_of(link)
        if factoring is not None:
            events = await self._with_facts(factoring, events)
        return shape(events)

    async def _with_facts(self, factoring: Factoring, events: list[Event]) -> list[Event]:
        joined: list[Event] = []
        for event in events:
            try:
                joined.append(await self._topic.join_facts(factoring, event))
            except UnknownFacts as unknown:
                self._tell(Unreadable(event.publisher, self._offset, str(unknown)))
        return joined

    def _shape_of(self, link: Subscriber) -> tuple[Shape, Factoring | None]:
        assert link.replica is not None
        fingerprint = link.replica.fingerprint
        known = self._shapes.get(fingerprint)
        if known is None:
            factoring = self._topic.factoring_of(fingerprint)
            schema = factoring.schema if factoring is not None else link.replica.expander.rules.schema
            known = self._shapes[fingerprint] = Shape(self._asked, schema, self._reader), factoring
        return known
