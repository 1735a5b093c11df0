"""The messages of one publisher, from its decoder to the channels of all classes.

    decoder state before     the message contains                     its channels
    known                    events, watermarks, audits               encode
    known                    a reconfiguration                        encode the events before it, then reconfigure
    known                    a gap, or another incarnation            encode the events before it, then are interrupted
    unknown                  -                                        begin with key frames once all sources are known

A channel with a position of its predecessor begins there. If that position is inside a key frame round of several
messages, the channel begins with the decoder state before the round and skips the messages of the round.

An error of one channel does not affect the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from thinwire.brokers.protocol import StoredMessage
from thinwire.codec import Delivery, EventsMissed, State, StreamDecoder
from thinwire.codec.decoder_state import DecoderState
from thinwire.codec.predictors.arithmetic import FINE, LAST
from thinwire.codec.row_map import RowMap
from thinwire.errors import DemandError, EventRejected
from thinwire.schema import Event
from thinwire.services.translator.channel import HOLD_GROUP_SIZE, Channel, DecodedMessage, Step
from thinwire.services.translator.channel_group import ChannelGroup, WhereGroup
from thinwire.topics.position import Position
from thinwire.wire.partial_event import EncodingKind

if TYPE_CHECKING:
    from thinwire.services.translator.hold_group import HoldGroup


def can_hold(channel: Channel) -> bool:
    """Report whether a hold group can decide which events the channel suppresses.

    Every tick property must be held or sent with every change, and no value may change without an event except time.
    """
    if channel.encoder is None or channel.events_to_skip or channel.demand.predicate is not None:
        return False
    if find_spec("numba") is None:
        return False
    rules = channel.encoder.stream.rules
    ticks = [rule for rule in rules.rules if rule.encoding is EncodingKind.TICK]
    held = [rule for rule in ticks if rules.triggers(rule)]
    is_constant = not any(rule.property.period or rule.auto for rule in ticks)
    return rules.changes and is_constant and bool(held) and all(rule.mode & ~FINE == LAST for rule in held)


def _is_reconfiguration(before: DecoderState, after: DecoderState) -> bool:
    """Report whether the stream continues with another configuration and the same incarnation and schema."""
    same = (before.incarnation, before.fingerprint) == (after.incarnation, after.fingerprint)
    return same and before.config_version < after.config_version and not after.rules.min_interval


class _PartialRound(NamedTuple):
    """An incomplete key frame round: the decoder state before it, and the messages since."""

    before: DecoderState
    messages: list[DecodedMessage]


class PublisherInput:
    """Feeds the channels of one publisher.

    on_problem: called with a description of an error
    last: offset of the publisher's last message
    hold_group_size: number of last-value channels from which a hold group is used
    resuming: channels that have not reached the position of their predecessor
    """

    def __init__(
        self,
        publisher: str,
        decoder: StreamDecoder,
        on_problem: Callable[[str], None],
        last: int = 0,
        *,
        hold_group_size: int = HOLD_GROUP_SIZE,
    ) -> None:
        self.publisher = publisher
        self.decoder = decoder
        self.last = last
        self.hold_group_size = hold_group_size
        self.channels: dict[str, Channel] = {}
        self._on_problem = on_problem
        self._decoder_state = self._ready_state
        self.resuming: list[Channel] = []
        self._round: _PartialRound | None = None
        self._has_unstarted = False
        self._row_map, self._row_map_owner = RowMap(), (-1, b"")
        self._hold_group: HoldGroup | None = None
        self._where_group: WhereGroup | None = None
        self._groups: list[ChannelGroup[Any]] = []
        self._ungrouped: dict[str, Channel] = {}
        self._holdable: dict[str, Channel] = {}
        """ungrouped channels that join a hold group once there are enough of them"""

    def open(self, channel: Channel, offset: int, now: float) -> None:
        """Add the channel of a class; the decoder has read the log up to `offset`."""
        self.channels[channel.demand.id] = self._ungrouped[channel.demand.id] = channel
        if channel.resume_at is not None and channel.resume_at.offset < self.last:
            channel.abandon_resume()
        if channel.resume_at is not None:
            self.resuming.append(channel)
        elif self._ready_state is not None:
            self._begin(channel, self._ready_state, Position(self.last or offset), now)
        else:
            self._has_unstarted = True

    def close(self, class_id: str) -> Channel:
        """Remove the channel of a class and discard its buffered frames."""
        channel = self.channels.pop(class_id)
        for group in self._groups:
            group.leave(channel)
        self._ungrouped.pop(class_id, None)
        self._holdable.pop(class_id, None)
        self.resuming = [other for other in self.resuming if other is not channel]
        channel.discard()
        return channel

    def catch_up(self) -> None:
        """Bring all grouped channels up to date."""
        for group in self._groups:
            group.catch_up_all()

    def begin_resuming(self, offset: int, now: float) -> None:
        """Begin the channels whose predecessor ended before `offset`. Called before that message is decoded."""
        resuming, self.resuming = self.resuming, []
        for channel in resuming:
            assert channel.resume_at is not None
            if channel.resume_at.offset >= offset:
                self.resuming.append(channel)
            elif self._decoder_state is not None and self._ready_state is not None:
                self._begin(channel, self._ready_state, channel.resume_at, now)
            elif self._decoder_state is not None and self._round is not None:
                self._begin(channel, self._round.before, channel.resume_at, now, self._round.messages)
            else:
                channel.abandon_resume()
                self._has_unstarted = True

    def process(self, stored: StoredMessage, deliveries: Iterable[Delivery]) -> int:
        """Feed the channels with a decoded message; return the number of its events."""
        events, before = 0, self._decoder_state
        if before is not None:
            message = self._decode_steps(stored, deliveries, before, self.decoder.decoder_state)
            self._encode(message)
            events = message.events
            # A class that was rejected may be possible under the rules of a new state.
            self._has_unstarted |= before is not self.decoder.decoder_state
            if self.resuming:
                self._record_round(before, message)
            else:
                self._round = None
            if not message.is_complete:
                self.interrupt(stored.time)
        self.last = stored.offset
        self._decoder_state = self.decoder.decoder_state if self._decoder_state is not None else self._ready_state
        if self._has_unstarted and self._ready_state is not None:
            self._begin_unstarted(self._ready_state, stored)
        return events

    def _decode_steps(
        self, stored: StoredMessage, deliveries: Iterable[Delivery], before: DecoderState, after: DecoderState | None
    ) -> DecodedMessage:
        """Convert the deliveries of a message into steps.

        before, after: the decoder state before and after the message. If the publisher was reconfigured in it, channels
            switch to the new rules after the last event that was sent under the old ones.
        """
        steps: list[Step] = []
        decoder_state, events, is_complete = before, 0, True
        for delivery in deliveries:
            if isinstance(delivery, EventsMissed):
                if delivery.publisher != self.publisher:
                    continue
                is_complete = False
                break
            if not isinstance(delivery, Event):
                steps.append(delivery)
                continue
            if not decoder_state.has_bounds_of(delivery):
                if after is None or not (_is_reconfiguration(decoder_state, after) and after.has_bounds_of(delivery)):
                    is_complete = False
                    break
                decoder_state = after
                steps.append(after)
            if steps and isinstance(steps[-1], list):
                steps[-1].append(delivery)
            else:
                steps.append([delivery])
            events += 1
        if is_complete and after is not decoder_state:
            is_complete = after is not None and _is_reconfiguration(decoder_state, after)
            steps += [after] if is_complete and after is not None else []
        return DecodedMessage(stored.offset, stored.time, steps, events, is_complete)

    def interrupt(self, now: float) -> None:
        """Interrupt all channels until the next key frames: messages are missing or unreadable."""
        self._decoder_state, self._round, self._has_unstarted = None, None, True
        for channel in self.channels.values():
            channel.interrupt(now)
        for group in self._groups:
            group.clear()
        self._holdable.clear()
        self._ungrouped = dict(self.channels)

    @property
    def _ready_state(self) -> DecoderState | None:
        """The decoder state if it is complete."""
        return self.decoder.decoder_state if self.decoder.state is State.READY else None

    def _record_round(self, before: DecoderState, message: DecodedMessage) -> None:
        """Record the messages of an incomplete key frame round while channels wait to resume."""
        if self._ready_state is not None:
            self._round = None
        elif self._round is not None:
            self._round.messages.append(message)
        elif before is not self.decoder.decoder_state and isinstance(message.steps[0], DecoderState):
            # No event of this message has changed the former state: it is the one before the round.
            self._round = _PartialRound(before, [message])

    def _encode(self, message: DecodedMessage) -> None:
        for group in self._groups:
            group.process(message)
        for channel in list(self._ungrouped.values()):
            if channel.encoder is None:
                continue
            was_skipping = channel.events_to_skip > 0
            try:
                channel.process(message)
            except (DemandError, EventRejected) as problem:
                self._reject(channel, problem, message.time)
            if was_skipping:
                self._assign_group(channel)

    def _reject(self, channel: Channel, problem: DemandError | EventRejected, now: float) -> None:
        """Interrupt a channel that cannot encode a message; it begins again if possible."""
        self._report(channel, problem)
        channel.interrupt(now)
        self._holdable.pop(channel.demand.id, None)
        self._ungrouped[channel.demand.id] = channel
        self._has_unstarted = True

    def _assign_group(self, channel: Channel) -> None:
        """Move a channel that encodes from now on to its group."""
        if channel.demand.predicate is not None and not channel.events_to_skip:
            del self._ungrouped[channel.demand.id]
            if self._where_group is None:
                self._where_group = WhereGroup(self._reject)
                self._groups.append(self._where_group)
            self._where_group.join(channel)
        if not can_hold(channel):
            return
        self._holdable[channel.demand.id] = channel
        if self._hold_group is None and len(self._holdable) < self.hold_group_size:
            return
        assert self.decoder.decoder_state is not None
        group = self._get_hold_group()
        for name, one in self._holdable.items():
            del self._ungrouped[name]
            group.join(one, self.decoder.decoder_state.schema)
        self._holdable.clear()

    def _get_hold_group(self) -> HoldGroup:
        """Return the hold group. Its compiled kernels take half a second to load, so it is created on first use."""
        if self._hold_group is None:
            from thinwire.services.translator.hold_group import HoldGroup

            self._hold_group = HoldGroup(self._reject)
            self._groups.append(self._hold_group)
        return self._hold_group

    def _begin_unstarted(self, state: DecoderState, stored: StoredMessage) -> None:
        self._has_unstarted = False
        for channel in self.channels.values():
            if channel.encoder is None and channel.resume_at is None:
                self._begin(channel, state, Position(stored.offset), stored.time)

    def _begin(
        self,
        channel: Channel,
        decoder_state: DecoderState,
        position: Position,
        now: float,
        skipped: Sequence[DecodedMessage] = (),
    ) -> None:
        try:
            channel.begin(decoder_state, position, now, self._row_map_of(decoder_state), skipped)
            self._assign_group(channel)
        except (DemandError, EventRejected) as problem:  # it waits for another incarnation, or other rules
            channel.abandon_resume()
            self._report(channel, problem)

    def _row_map_of(self, decoder_state: DecoderState) -> RowMap:
        """Return the shared row map; a new one for another incarnation, or if the rows of the sources differ."""
        sources = decoder_state.known_sources()
        owner = decoder_state.incarnation, decoder_state.fingerprint
        if self._row_map_owner != owner or not self._row_map.starts_with(sources):
            self._row_map, self._row_map_owner = RowMap(sources), owner
        return self._row_map

    def _report(self, channel: Channel, problem: DemandError | EventRejected) -> None:
        channel.counts.rejected += 1
        self._on_problem(f"class {channel.demand.id}, publisher {self.publisher}: {problem}")
