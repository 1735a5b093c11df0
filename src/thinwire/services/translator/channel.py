"""One channel: the frames of a class that tell of one publisher, and how far they tell.

    link    what it does with a message of the publisher
    none    nothing; it begins with key frames once the state of every source is known, or where its predecessor ended
    mute    encodes the events that its predecessor told, keeps none of the frames, then begins with key frames
    else    encodes

The time of a channel is the log's: the same messages give the same bytes, whoever translates them, and whenever.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from thinwire.codec import Audit, Counts, StreamEncoder, Watermark
from thinwire.codec.decoded_event_encoder import Frames
from thinwire.codec.decoder_state import DecoderState
from thinwire.codec.source_table import Roster
from thinwire.errors import EventRejected
from thinwire.schema import Event
from thinwire.services.translator.channel_encoder import (
    ChannelEncoderFactory,
    ChannelGroup,
    ChannelSettings,
    DecodedMessage,
    is_last_sent,
)
from thinwire.services.translator.message_batcher import Outgoing, PendingFrames, batch_frames
from thinwire.topics.demand_class import DemandClass, Source
from thinwire.topics.log_position import ChannelPosition
from thinwire.wire import Request

_ANYBODY = Request(0, 0)


class Channel:
    """The frames of one class that tell of one publisher.

    begins: the position it waits for, where a predecessor ended; sequence: of its first frame
    keeper: who feeds it, where it is not fed with every event
    """

    def __init__(
        self,
        asked: DemandClass,
        publisher: str,
        settings: ChannelSettings,
        counts: Counts,
        sequence: int,
        begins: ChannelPosition | None,
    ) -> None:
        self.asked = asked
        self.publisher = publisher
        self.begins = begins
        self.link: StreamEncoder | None = None
        self.counts = counts
        self.keeper: ChannelGroup | None = None
        self._settings = settings
        self._sequence = sequence
        self._encoder_factory = ChannelEncoderFactory(asked, publisher, settings)
        self._mute = 0
        self._offset, self._within = begins or ChannelPosition(0)
        self._told = DecodedMessage(0, 0.0, [], -1)
        self._cut_off = False
        self._unsent = False
        self._pending = PendingFrames()

    @property
    def active_encoder(self) -> StreamEncoder | None:
        """The link, once it has begun, where it stands now."""
        if self.keeper is not None:
            self.keeper.catch_up(self)
        return None if self._mute else self.link

    @property
    def is_mute(self) -> bool:
        """Does it encode what its predecessor has told?"""
        return self._mute > 0

    @property
    def owes(self) -> bool:
        """Has somebody asked for key frames, too soon after others?"""
        return self._unsent

    def takes(self, source: Source) -> bool:
        """Does it tell of a source, as far as its class chooses any? It has begun."""
        choice = self._encoder_factory.choice
        return choice is None or choice[source]

    @property
    def sequence(self) -> int:
        """The sequence that a link which begins anew starts with: one is left out, so that readers see a gap."""
        return self._sequence if self.link is None else self.link.sequence + 1

    def begin(
        self,
        decoder_state: DecoderState,
        position: ChannelPosition,
        now: float,
        roster: Roster | None = None,
        passed: Sequence[DecodedMessage] = (),
    ) -> None:
        """Take over the state of all sources, and begin with key frames; later, where the position is in a message.

        roster: of the channels that tell of the same sources
        passed: messages between that state and the position, which the predecessor has told
        """
        link = self._encoder_factory.adopt(decoder_state, roster, self._sequence)
        self.link, self.begins = link, None
        for told in passed:
            self._encoder_factory.pass_mutely(link, told)
        self._offset, self._within, self._mute = position.offset, 0, position.within
        self._unsent = False
        self._pending.turn()
        if self._cut_off:  # a frame that goes on with nothing: readers of the predecessor learn that events are missing
            self._cut_off = False
            self._put(link.heartbeat(now), position)
        if not self._mute:
            self._put(link.start(now), position)

    def miss(self) -> None:
        """The state at the position it waits for cannot be had: it begins elsewhere, as after a loss."""
        self.begins, self._cut_off = None, True

    def lose(self, now: float) -> None:
        """The log has a gap here: what was passed over in silence is told, and nothing more until it begins anew."""
        if self.link is None:
            return
        speaks = self.active_encoder
        if speaks is not None and speaks.has_unsent_suppressed:
            self._put(speaks.heartbeat(now), ChannelPosition(self._offset, self._within))
        self._sequence = self.sequence
        self.link = None
        self._mute = 0

    def take_in(self, told: DecodedMessage) -> None:
        """What a message brings. Raises EventRejected where the link refuses an event: then it must begin anew."""
        self._told, self._within = told, 0
        self._pending.turn()
        for step in told.steps:
            if isinstance(step, list):
                self._encode(step)
            elif isinstance(step, DecoderState):
                self._follow(step)
            elif not self._mute:
                self._pass_on(step)
        if told.whole:
            self._end()

    def stand_at(self, within: int, offset: int | None) -> None:
        """It has told so many events of a message, and all before it; offset: of the message before, where that is
        another one than it knows of."""
        self._within = within
        if offset is not None:
            self._offset = offset

    def encode_event(self, event: Event, told: DecodedMessage) -> None:
        """One event of a message, of those that it must look at. Raises EventRejected as `take_in` does."""
        assert self.link is not None
        self._turn_to(told)
        frames = self._encoder_factory.publish(self.link, event, told.time)
        self.counts.events += 1
        if frames:
            self._put(frames, self._position(self._within + 1))

    def process_step(self, step: Watermark | Audit | DecoderState, told: DecodedMessage) -> None:
        """What a message brings beside events. Raises DemandError as `take_in` does."""
        self._turn_to(told)
        if isinstance(step, DecoderState):
            self._follow(step)
        else:
            self._pass_on(step)

    def answer(self, now: float) -> None:
        """Somebody has lost the way: key frames, now or, soon after others, when the log's time has gone on."""
        speaks = self.active_encoder
        if speaks is None:
            return  # it begins with key frames anyway
        frames = speaks.answer(_ANYBODY, now)
        self._unsent = not frames
        if self._unsent and self.keeper is not None:
            self.keeper.owes(self)
        self._pending.turn()
        self._put(frames, ChannelPosition(self._offset))

    def send_suppressed(self, now: float) -> None:
        """Tell what was passed over, though the publisher has said nothing that would make it due."""
        speaks = self.active_encoder
        if speaks is not None and speaks.has_unsent_suppressed:
            self._pending.turn()
            self._put(speaks.heartbeat(now), ChannelPosition(self._offset))

    def poll(self, now: float) -> None:
        """Tell what is due although nothing of the last message was told."""
        speaks = self.active_encoder
        if speaks is not None:
            self._pending.turn()
            self._put(speaks.poll(now), ChannelPosition(self._offset))

    def take(self, limit: int) -> Iterator[Outgoing]:
        """What waits, as messages of at most so many bytes."""
        self._settings.waiting -= self._pending.size
        for key, payload in batch_frames(self._pending.take(), limit, self._settings.epoch):
            yield Outgoing(self.asked.id, self.publisher, key, payload)

    def drop(self) -> None:
        """What waits is nobody's business any more."""
        self._settings.waiting -= self._pending.size
        self._pending.take()

    def _turn_to(self, told: DecodedMessage) -> None:
        if self._told is not told:
            self._told = told
            self._pending.turn()

    def _encode(self, events: list[Event]) -> None:
        if self._mute:
            events = self._encode_mutely(events)
        assert self.link is not None
        first, before = self._within, self.link.counts.events
        chosen, places = self._chosen(events)
        try:
            for frames in self._encoder_factory.publish_all(self.link, chosen, self._told.time):
                self._put_many(frames, [first + places[number] + 1 for number in frames.numbers])
            self._within = first + len(events)
        except EventRejected:
            self._within = first + places[self.link.counts.events - before]
            raise
        finally:
            self.counts.events += self.link.counts.events - before

    def _chosen(self, events: list[Event]) -> tuple[list[Event], Sequence[int]]:
        """The events that the class chose, and where they stand among the others."""
        if self._encoder_factory.takes_all:
            return events, range(len(events))
        places = [place for place, event in enumerate(events) if self._encoder_factory.admits(event)]
        return [events[place] for place in places], places

    def _encode_mutely(self, events: list[Event]) -> list[Event]:
        """The events that the predecessor told move the state on; those that are left come back."""
        assert self.link is not None
        known = events[: self._mute]
        self._encoder_factory.publish_mutely(self.link, known, self._told.time)
        self._within += len(known)
        self._mute -= len(known)
        if not self._mute:
            self._put(self.link.start(self._told.time), ChannelPosition(self._offset, self._within))
        return events[len(known) :]

    def _follow(self, decoder_state: DecoderState) -> None:
        """The publisher was told to do otherwise, and so is the link."""
        assert self.link is not None
        frames = self._encoder_factory.follow(self.link, decoder_state, self._told.time)
        if not self._mute:
            self._put(frames, self._position(self._within))

    def _pass_on(self, step: Watermark | Audit) -> None:
        assert self.link is not None
        if isinstance(step, Watermark):
            frames = self.link.heartbeat(self._told.time, step.time)
        elif self._encoder_factory.matches is None or is_last_sent(self.link, step.source, step.ordinal):
            frames = self.link.audit(step.source, step.exacts)
        else:
            return  # of an event that was not told
        self._put(frames, self._position(self._within))

    def _end(self) -> None:
        """The message is told to its end."""
        assert self.link is not None
        self._offset, self._within = self._told.offset, 0
        if self._mute:  # fewer events than the predecessor told of: it saw another log
            self._mute = 0
            self._put(self.link.start(self._told.time), ChannelPosition(self._offset))
        elif self._unsent:
            self.answer(self._told.time)

    def _position(self, within: int) -> ChannelPosition:
        """Where so many events of the present message are told."""
        return (
            ChannelPosition(self._told.offset) if within == self._told.events else ChannelPosition(self._offset, within)
        )

    def _put(self, frames: list[bytes], position: ChannelPosition) -> None:
        if not frames:
            return
        for frame in frames:
            self.counts.add(frame)
        self._keep(frames, position * len(frames))

    def _put_many(self, told: Frames, within: list[int]) -> None:
        """Frames of events; within: how many events are told with each."""
        if told.data:
            self.counts.add_all_data(told.frames)
        else:
            for frame in told.frames:
                self.counts.add(frame)
        last, end = self._told.events, ChannelPosition(self._told.offset)
        places = [number for each in within for number in (end if each == last else (self._offset, each))]
        self._keep(told.frames, places, data=told.data)

    def _keep(self, frames: list[bytes], places: Iterable[int], *, data: bool = False) -> None:
        before = self._pending.size
        if not before:
            self._settings.speaking.append(self)
        self._pending.put(frames, places, data=data)
        self._settings.waiting += self._pending.size - before
