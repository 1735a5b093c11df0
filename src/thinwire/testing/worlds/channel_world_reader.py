"""A reader of a class in a world: one link per publisher over the channel, late, slow, moving, and observed."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from thinwire.brokers.protocol import Stored
from thinwire.codec import Delivery, State, StreamDecoder
from thinwire.codec import stream_snapshot as checkpoints
from thinwire.schema import Event
from thinwire.testing.worlds.channel_world_observer import ChannelObserver
from thinwire.testing.worlds.channel_world_publisher import ChannelCheckpoint, ChannelWorldBroker
from thinwire.testing.worlds.world_observer import Source
from thinwire.topics.demand_class import DemandClass
from thinwire.topics.log_decoder import ChannelDecoder
from thinwire.topics.names import channel_key_subject, class_in, publisher_in
from thinwire.topics.position import Position, decode_envelope
from thinwire.topics.topic_documents import SubscriptionDocument

PATIENCE = 2.0
"""seconds after which a reader that is not ready asks for key frames again"""


class ChannelReaderSite:
    """Reads the channel of its class, as clients do once a document says that there is one.

    way: where it begins: "now", at the last "key frames" of the channel, or with a "checkpoint" of it
    """

    def __init__(
        self,
        asked: SubscriptionDocument,
        observers: Mapping[str, ChannelObserver],
        ground: ChannelWorldBroker,
        way: str,
        chance: Random,
    ) -> None:
        self.asked = asked
        self.name = asked.identity
        self.observers = observers
        self.class_id = DemandClass.of(asked).id
        self.way = way
        self.paused = False
        self.slow = chance.random() < 0.3
        self.stale = 0
        self._ground = ground
        self._chance = chance
        self._restates = asked.emit == "changes" and asked.where is None
        self._changes = asked.emit == "changes" or asked.where is not None
        self._log_decoder = ChannelDecoder(ground.lookup, only_changes=self._changes)
        self._log_decoder.decoders |= {publisher: self._link(publisher) for publisher in observers}
        self._copies: dict[str, ChannelCheckpoint] = {}
        self._newest: dict[str, int] = {}
        self._last: dict[tuple[str, Source], Event] = {}
        self._begun = False
        self._next = 1
        self._asks_at = 0.0

    def work(self, now: float) -> None:
        """Read on, as fast as it can; from the moment on when there is a channel."""
        if self.paused or self.class_id not in self._ground.documents:
            return
        if not self._begun:
            self._begin()
        channels = self._ground.channels
        count = self._chance.randint(0, 8) if self.slow else channels.end + 1 - self._next
        for stored in channels.read(self._next, count):
            if class_in(stored.subject) == self.class_id:
                self._receive(stored)
        self._next = min(self._next + count, channels.end + 1)

    def asks(self, now: float) -> bool:
        """Does it need key frames?"""
        if self.paused or not self._begun or now < self._asks_at or not any(self._log_decoder.waiting()):
            return False
        self._asks_at = now + PATIENCE
        return True

    def move(self) -> None:
        """Go on somewhere else, with what was written down here."""
        for publisher, link in list(self._log_decoder.decoders.items()):
            if link.state is State.READY:
                moved = self._log_decoder.decoders[publisher] = self._link(publisher)
                checkpoints.restore_decoder(moved, checkpoints.snapshot_decoder(link))
        self._ground.tell(f"{self.name} moves")

    def finish(self) -> None:
        """Everything has come that ever will."""
        for publisher, observer in self.observers.items():
            observer.finish(self._log_decoder.decoder(publisher))

    def _begin(self) -> None:
        self._begun = True
        ground, topic = self._ground, self.asked.topic
        places: list[int] = []
        for publisher in self.observers:
            key = ground.channels.last(channel_key_subject(topic, self.class_id, publisher))
            copied = ground.copies.get((self.class_id, publisher))
            if self.way == "checkpoint" and copied is not None:
                self._begin_with(publisher, copied)
                places.append(copied.offset + 1)
            elif self.way != "now" and key is not None and key.offset > ground.opened[self.class_id]:
                places.append(key.offset)
        self._next = min(places, default=ground.channels.end + 1)

    def _begin_with(self, publisher: str, copied: ChannelCheckpoint) -> None:
        """Begin with the state that a translator has written down; where every source stands is told first."""
        link = self._log_decoder.decoder(publisher)
        checkpoints.restore_decoder(link, copied.state)
        self._copies[publisher] = copied
        self._hand_out(publisher, [], copied.position, 0.0, restate=self.asked.where is None)

    def _receive(self, stored: Stored) -> None:
        publisher = publisher_in(stored.subject)
        epoch, position, _ = decode_envelope(stored.payload)
        link = self._log_decoder.decoder(publisher)
        succeeded = False
        copied = self._copies.get(publisher)
        if copied is not None:
            if stored.offset <= copied.offset or epoch < copied.epoch:
                return
            del self._copies[publisher]
            succeeded = epoch > copied.epoch and position == copied.position
            if succeeded:
                link.expect_successor()
        elif publisher not in self._newest:
            self._newest[publisher] = self._ground.epoch_before(self.class_id, publisher, stored.offset)
        before = link.counts.frames
        told = self._log_decoder.receive(stored, stored.time)
        if link.counts.frames == before:  # of somebody who had been replaced
            self.stale += 1
            return
        self.observers[publisher].astray = epoch < self._newest.get(publisher, 0)
        restate = self._restates and (self._log_decoder.take_succession(publisher) or succeeded)
        self._hand_out(publisher, told, position, stored.time, restate=restate)

    def _hand_out(
        self, publisher: str, told: list[Delivery], position: Position, time: float, *, restate: bool = False
    ) -> None:
        """What a message brought; and where every source stands, unless the last event handed out says the same."""
        observer, link = self.observers[publisher], self._log_decoder.decoder(publisher)
        before = len(observer.violations)
        self._last |= {(publisher, event.source): event for event in told if isinstance(event, Event)}
        stands = link.present() if restate else []
        restated = [event for event in stands if dict(self._last.get((publisher, event.source), {})) != dict(event)]
        self._last |= {(publisher, event.source): event for event in restated}
        observer.take(told, link, position, time, restated)
        for what in observer.violations[before:]:
            self._ground.tell(f"{self.name} of {publisher}, told up to {position.offset}: {what}")

    def _link(self, publisher: str) -> StreamDecoder:
        return StreamDecoder(
            self._ground.lookup, publisher=publisher, compiled=False, include_suppressed=not self._changes
        )
