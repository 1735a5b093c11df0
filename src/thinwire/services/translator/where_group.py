"""Channels of classes that choose events by their values, fed as one: a message is held against all predicates at once.

    who is told of an event                        why
    those whose predicate it matches               always, whatever was expected: silence means that nothing matched
    nobody else                                    numbers are left out when the source next matches

Who is not told of an event learns how far the log was read when it is next asked anything. What every class must be
told (heartbeats, other rules) costs by the class, and so do key frames, which are told at the end of a message.
"""

from __future__ import annotations

from collections.abc import Callable

from thinwire.codec import Audit, Publisher, Watermark
from thinwire.codec.decoder_state import Replica
from thinwire.errors import DemandError, EventRejected
from thinwire.filters.where import PredicateIndex
from thinwire.schema import Event
from thinwire.services.translator.channel import Channel
from thinwire.services.translator.channel_encoder import Told
from thinwire.services.translator.key_frame_schedule import Dues

Refused = Callable[[Channel, DemandError | EventRejected, float], None]


class Chooser:
    """A channel among those that choose.

    joined: how many messages had been told to their end by then; gone: it is not in step any more
    """

    __slots__ = ("channel", "gone", "joined", "link")

    def __init__(self, channel: Channel, joined: int) -> None:
        assert channel.link is not None
        self.channel = channel
        self.link: Publisher = channel.link
        self.joined = joined
        self.gone = False


class Selecting:
    """The channels of one publisher whose classes choose events by a predicate.

    refused: is told of a channel that cannot take an event in; it is out by then
    """

    def __init__(self, refused: Refused) -> None:
        self._refused = refused
        self._choosers: dict[str, Chooser] = {}
        self.clear()

    def clear(self) -> None:
        """Nobody is in step any more."""
        for chooser in self._choosers.values():
            chooser.channel.keeper = None
        self._choosers.clear()
        self._index = PredicateIndex[Chooser]()
        self._dues = Dues[Chooser]()
        self._owing: dict[str, Channel] = {}
        self._messages = self._offset = self._within = 0

    def join(self, channel: Channel) -> None:
        """Between two messages: feed this one too."""
        assert channel.asked.predicate is not None
        chooser = self._choosers[channel.asked.id] = Chooser(channel, self._messages)
        self._index.add(chooser, channel.asked.predicate)
        channel.keeper = self
        if channel.owes:
            self.owes(channel)
        self._dues.remind(chooser)

    def leave(self, channel: Channel) -> None:
        """Feed this one no more, if it was fed."""
        chooser = self._choosers.get(channel.asked.id)
        if chooser is None or chooser.channel is not channel:
            return
        self.catch_up(channel)
        del self._choosers[channel.asked.id]
        self._index.remove(chooser)
        self._owing.pop(channel.asked.id, None)
        chooser.gone, channel.keeper = True, None

    def catch_up(self, channel: Channel) -> None:
        """A channel learns how far it has told, unless it has told nothing of a message to its end yet."""
        offset = self._offset if self._choosers[channel.asked.id].joined != self._messages else None
        channel.stand_at(self._within, offset)

    def owes(self, channel: Channel) -> None:
        """A channel has to answer at the end of the next message."""
        self._owing[channel.asked.id] = channel

    def take_in(self, told: Told) -> None:
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

    def _select(self, events: list[Event], told: Told) -> None:
        """Events, each to those whose predicate it matches."""
        for event, choosers in zip(events, self._index.match(events), strict=True):
            for chooser in choosers:
                if not chooser.gone and chooser.channel.takes(event.source):
                    self._tell(chooser, event, told)
            self._within += 1

    def _tell(self, chooser: Chooser, event: Event, told: Told) -> None:
        self.catch_up(chooser.channel)
        try:
            chooser.channel.tell(event, told)
        except (DemandError, EventRejected) as problem:
            self._lose(chooser, problem, told.time)

    def _pass_on(self, step: Watermark | Audit | Replica, told: Told) -> None:
        for chooser in list(self._choosers.values()):
            self.catch_up(chooser.channel)
            try:
                chooser.channel.hear(step, told)
            except (DemandError, EventRejected) as problem:
                self._lose(chooser, problem, told.time)

    def _lose(self, chooser: Chooser, problem: DemandError | EventRejected, now: float) -> None:
        self.leave(chooser.channel)
        self._refused(chooser.channel, problem, now)

    def _end(self, told: Told) -> None:
        """The message is told to its end."""
        self._offset, self._within = told.offset, 0
        self._messages += 1
        owing, self._owing = self._owing, {}
        for channel in owing.values():
            channel.answer(told.time)
        self._dues.press(told.time)
        for chooser in self._dues.pressing(told.time):
            chooser.channel.poll(told.time)
        self._dues.paid_all()
