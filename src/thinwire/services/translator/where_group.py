"""Channels of classes that choose events by their values, fed as one: a message is held against all predicates at once.

    who is told of an event                        why
    those whose predicate it matches               always, whatever was expected: silence means that nothing matched
    nobody else                                    numbers are left out when the source next matches

Who is not told of an event learns how far the log was read when it is next asked anything. What every class must be
told (heartbeats, other rules) costs by the class, and so do key frames, which are told at the end of a message.
"""

from __future__ import annotations

from collections.abc import Callable

from thinwire.codec import Audit, StreamEncoder, Watermark
from thinwire.codec.decoder_state import DecoderState
from thinwire.errors import DemandError, EventRejected
from thinwire.filters.where import PredicateIndex
from thinwire.schema import Event
from thinwire.services.translator.channel import Channel
from thinwire.services.translator.channel_encoder import DecodedMessage
from thinwire.services.translator.key_frame_schedule import KeyFrameSchedule

Refused = Callable[[Channel, DemandError | EventRejected, float], None]


class WhereMember:
    """A channel among those that choose.

    joined: how many messages had been told to their end by then; gone: it is not in step any more
    """

    __slots__ = ("channel", "gone", "joined", "link")

    def __init__(self, channel: Channel, joined: int) -> None:
        assert channel.link is not None
        self.channel = channel
        self.link: StreamEncoder = channel.link
        self.joined = joined
        self.gone = False


class WhereGroup:
    """The channels of one publisher whose classes choose events by a predicate.

    refused: is told of a channel that cannot take an event in; it is out by then
    """

    def __init__(self, refused: Refused) -> None:
        self._refused = refused
        self._choosers: dict[str, WhereMember] = {}
        self.clear()

    def clear(self) -> None:
        """Nobody is in step any more."""
        for chooser in self._choosers.values():
            chooser.channel.keeper = None
        self._choosers.clear()
        self._index = PredicateIndex[WhereMember]()
        self._key_frame_schedule = KeyFrameSchedule[WhereMember]()
        self._due: dict[str, Channel] = {}
        self._messages = self._offset = self._within = 0

    def join(self, channel: Channel) -> None:
        """Between two messages: feed this one too."""
        assert channel.asked.predicate is not None
        chooser = self._choosers[channel.asked.id] = WhereMember(channel, self._messages)
        self._index.add(chooser, channel.asked.predicate)
        channel.keeper = self
        if channel.owes:
            self.owes(channel)
        self._key_frame_schedule.schedule(chooser)

    def leave(self, channel: Channel) -> None:
        """Feed this one no more, if it was fed."""
        chooser = self._choosers.get(channel.asked.id)
        if chooser is None or chooser.channel is not channel:
            return
        self.catch_up(channel)
        del self._choosers[channel.asked.id]
        self._index.remove(chooser)
        self._due.pop(channel.asked.id, None)
        chooser.gone, channel.keeper = True, None

    def catch_up(self, channel: Channel) -> None:
        """A channel learns how far it has told, unless it has told nothing of a message to its end yet."""
        offset = self._offset if self._choosers[channel.asked.id].joined != self._messages else None
        channel.stand_at(self._within, offset)

    def owes(self, channel: Channel) -> None:
        """A channel has to answer at the end of the next message."""
        self._due[channel.asked.id] = channel

    def take_in(self, told: DecodedMessage) -> None:
        """What a message brings."""
        if not self._choosers:
            return
        self._within = 0
        for step in told.steps:
            if isinstance(step, list):
                self._select(step, told)
            else:
                self._pass_on(step, told)
        if told.whole:
            self._end(told)

    def _select(self, events: list[Event], told: DecodedMessage) -> None:
        """Events, each to those whose predicate it matches."""
        for event, choosers in zip(events, self._index.match(events), strict=True):
            for chooser in choosers:
                if not chooser.gone and chooser.channel.takes(event.source):
                    self._send_event(chooser, event, told)
            self._within += 1

    def _send_event(self, chooser: WhereMember, event: Event, told: DecodedMessage) -> None:
        self.catch_up(chooser.channel)
        try:
            chooser.channel.encode_event(event, told)
        except (DemandError, EventRejected) as problem:
            self._lose(chooser, problem, told.time)

    def _pass_on(self, step: Watermark | Audit | DecoderState, told: DecodedMessage) -> None:
        for chooser in list(self._choosers.values()):
            self.catch_up(chooser.channel)
            try:
                chooser.channel.process_step(step, told)
            except (DemandError, EventRejected) as problem:
                self._lose(chooser, problem, told.time)

    def _lose(self, chooser: WhereMember, problem: DemandError | EventRejected, now: float) -> None:
        self.leave(chooser.channel)
        self._refused(chooser.channel, problem, now)

    def _end(self, told: DecodedMessage) -> None:
        """The message is told to its end."""
        self._offset, self._within = told.offset, 0
        self._messages += 1
        owing, self._due = self._due, {}
        for channel in owing.values():
            channel.answer(told.time)
        self._key_frame_schedule.advance(told.time)
        for chooser in self._key_frame_schedule.due(told.time):
            chooser.channel.poll(told.time)
        self._key_frame_schedule.reschedule_all()
