"""One publisher's messages, on their way from its decoder to the channels of all classes.

    before                  the message brings               its channels
    going                   nothing but events and word      encode
    going                   other rules, in the same life    encode what was told under the old ones, then go over
    going                   a loss, or another life          encode what came before it; then as if not going
    not going               whatever it brings               begin with key frames, once every source is known

A channel that waits for the place where its predecessor ended takes over the state there. Where the publisher was
telling that state anew, in several messages, it takes over the one before, and goes along mutely.

What one channel cannot take in is no matter of the others.

Which channels can be fed as one: those whose silence can be foretold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

from thinwire.brokers.protocol import Stored
from thinwire.codec import Delivery, State, StreamDecoder
from thinwire.codec.decoder_state import DecoderState
from thinwire.codec.predictors.predictor import FINE, LAST
from thinwire.codec.source_table import Roster
from thinwire.errors import DemandError, EventRejected
from thinwire.services.translator.channel import Channel
from thinwire.services.translator.channel_encoder import HOLD_FROM, DecodedMessage, decode_steps
from thinwire.services.translator.where_group import WhereGroup
from thinwire.topics.log_position import ChannelPosition
from thinwire.wire.partial_event import EncodingKind

if TYPE_CHECKING:
    from thinwire.services.translator.hold_group import HoldGroup


def may_hold(channel: Channel) -> bool:
    """Can it be said without asking the channel which events it passes over?

    It can where every measurement is held, or travels with every change, and nothing else moves in silence but time.
    """
    link = channel.link
    if link is None or channel.is_mute or channel.asked.predicate is not None or find_spec("numba") is None:
        return False
    rules = link.encoder.reducer.rules
    ticks = [rule for rule in rules.rules if rule.lane is EncodingKind.TICK]
    held = [rule for rule in ticks if rules.fires(rule)]
    steady = not any(rule.property.period or rule.auto for rule in ticks)
    return rules.changes and steady and bool(held) and all(rule.mode & ~FINE == LAST for rule in held)


Complain = Callable[[str], None]


class _Round(NamedTuple):
    """A round of key frames that is not complete: the state before it, and the messages since."""

    before: DecoderState
    passed: list[DecodedMessage]


class PublisherInput:
    """The channels of one publisher.

    link: its decoder; complain: is told what goes wrong; last: the offset of its last message, as far as it is known
    hold_from: channels of changes that are fed as one, if there are as many
    """

    def __init__(
        self, publisher: str, link: StreamDecoder, complain: Complain, last: int = 0, *, hold_from: int = HOLD_FROM
    ) -> None:
        self.publisher = publisher
        self.link = link
        self.last = last
        self.hold_from = hold_from
        self.channels: dict[str, Channel] = {}
        self._complain = complain
        self._decoder_state = link.decoder_state if link.state is State.READY else None
        self._waiting: list[Channel] = []
        self._round: _Round | None = None
        self._unbegun = False
        self._roster, self._rostered = Roster(), (-1, b"")
        self._hold_group: HoldGroup | None = None
        self._selecting = WhereGroup(self._lost)
        self._alone: dict[str, Channel] = {}
        """those that look at every event"""
        self._few: dict[str, Channel] = {}
        """those of them that need not, once they are many"""

    def open(self, channel: Channel, offset: int, now: float) -> None:
        """Another class; offset: up to which the decoder has read the log."""
        self.channels[channel.asked.id] = self._alone[channel.asked.id] = channel
        if channel.begins is not None and channel.begins.offset < self.last:
            channel.miss()
        if channel.begins is not None:
            self._waiting.append(channel)
        elif self._ready is not None:
            self._begin(channel, self._ready, ChannelPosition(self.last or offset), now)
        else:
            self._unbegun = True

    def close(self, class_id: str) -> Channel:
        """A class that is not wanted any more; what it has to say is not either."""
        channel = self.channels.pop(class_id)
        if self._hold_group is not None:
            self._hold_group.leave(channel)
        self._selecting.leave(channel)
        self._alone.pop(class_id, None)
        self._few.pop(class_id, None)
        self._waiting = [other for other in self._waiting if other is not channel]
        channel.drop()
        return channel

    def catch_up(self) -> None:
        """Let every channel stand where it would, had it looked at every event."""
        if self._hold_group is not None:
            self._hold_group.catch_up_all()

    def take_over_channels(self, offset: int, now: float) -> None:
        """Before a message is decoded: channels whose predecessor ended just before it take over the state."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        for channel in waiting:
            assert channel.begins is not None
            if channel.begins.offset >= offset:
                self._waiting.append(channel)
            elif self._decoder_state is not None and self._ready is not None:
                self._begin(channel, self._ready, channel.begins, now)
            elif self._decoder_state is not None and self._round is not None:
                self._begin(channel, self._round.before, channel.begins, now, self._round.passed)
            else:
                channel.miss()
                self._unbegun = True

    def take_in(self, stored: Stored, found: Iterable[Delivery]) -> int:
        """What the decoder made of a message, for every channel; how many events it brought."""
        events = 0
        if self._decoder_state is not None:
            brought = decode_steps(stored, found, self._decoder_state, self.link.decoder_state)
            self._encode_all(brought)
            events = brought.encoded
            self._unbegun |= (
                self._decoder_state is not self.link.decoder_state
            )  # who was refused may be served under other rules
            self._keep_round(self._decoder_state, brought)
            if not brought.whole:
                self.lose(stored.time)
        self.last = stored.offset
        self._decoder_state = self.link.decoder_state if self._decoder_state is not None else self._ready
        if self._unbegun and self._ready is not None:
            self._begin_all(self._ready, stored)
        return events

    def lose(self, now: float) -> None:
        """Messages are missing, or cannot be read: nothing counts until the next key frames."""
        self._decoder_state, self._round, self._unbegun = None, None, True
        for channel in self.channels.values():
            channel.lose(now)
        if self._hold_group is not None:
            self._hold_group.clear()
        self._selecting.clear()
        self._few.clear()
        self._alone = dict(self.channels)

    @property
    def _ready(self) -> DecoderState | None:
        """The decoder's state, where it is whole."""
        return self.link.decoder_state if self.link.state is State.READY else None

    def _keep_round(self, before: DecoderState, brought: DecodedMessage) -> None:
        """While somebody waits for a place within a round, what leads there is kept."""
        if self._ready is not None or not self._waiting:
            self._round = None
        elif self._round is not None:
            self._round.passed.append(brought)
        elif before is not self.link.decoder_state and isinstance(brought.steps[0], DecoderState):
            # no event of this message has moved the former state on: it is the one before the round
            self._round = _Round(before, [brought])

    def _encode_all(self, brought: DecodedMessage) -> None:
        if self._hold_group is not None:
            self._hold_group.take_in(brought)
        self._selecting.take_in(brought)
        for channel in list(self._alone.values()):
            if channel.link is None:
                continue
            mute = channel.is_mute
            try:
                channel.take_in(brought)
            except (DemandError, EventRejected) as problem:
                self._lost(channel, problem, brought.time)
            if mute:
                self._hold(channel)

    def _lost(self, channel: Channel, problem: DemandError | EventRejected, now: float) -> None:
        """A channel cannot take in what a message brings: it begins anew, if it can."""
        self._refused(channel, problem)
        channel.lose(now)
        self._few.pop(channel.asked.id, None)
        self._alone[channel.asked.id] = channel
        self._unbegun = True

    def _hold(self, channel: Channel) -> None:
        """A channel encodes from here on: among many that are fed as one, if there are enough."""
        if channel.asked.predicate is not None and not channel.is_mute:
            del self._alone[channel.asked.id]
            self._selecting.join(channel)
        if not may_hold(channel):
            return
        self._few[channel.asked.id] = channel
        if self._hold_group is None and len(self._few) < self.hold_from:
            return
        assert self.link.decoder_state is not None
        holding = self._many()
        for name, one in self._few.items():
            del self._alone[name]
            holding.join(one, self.link.decoder_state.expander.rules.schema)
        self._few.clear()

    def _many(self) -> HoldGroup:
        """Those that are fed as one. It needs compiled kernels, which cost half a second to load: only many pay."""
        if self._hold_group is None:
            from thinwire.services.translator.hold_group import HoldGroup

            self._hold_group = HoldGroup(self._lost)
        return self._hold_group

    def _begin_all(self, ready: DecoderState, stored: Stored) -> None:
        self._unbegun = False
        for channel in self.channels.values():
            if channel.link is None and channel.begins is None:
                self._begin(channel, ready, ChannelPosition(stored.offset), stored.time)

    def _begin(
        self,
        channel: Channel,
        decoder_state: DecoderState,
        position: ChannelPosition,
        now: float,
        passed: Sequence[DecodedMessage] = (),
    ) -> None:
        try:
            channel.begin(decoder_state, position, now, self._roster_of(decoder_state), passed)
            self._hold(channel)
        except (DemandError, EventRejected) as problem:  # it waits for another life of the publisher, or other rules
            channel.miss()
            self._refused(channel, problem)

    def _roster_of(self, decoder_state: DecoderState) -> Roster:
        """The roster of all sources; another one where the publisher lives anew, or its sources have other rows."""
        keys = [key for key in decoder_state.expander.keys if key is not None]
        of = decoder_state.incarnation, decoder_state.fingerprint
        if self._rostered != of or not self._roster.begins_with(keys):
            self._roster, self._rostered = Roster(keys), of
        return self._roster

    def _refused(self, channel: Channel, problem: DemandError | EventRejected) -> None:
        channel.counts.rejected += 1
        self._complain(f"class {channel.asked.id}, publisher {self.publisher}: {problem}")
