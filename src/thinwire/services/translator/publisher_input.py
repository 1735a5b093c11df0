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
from typing import NamedTuple

from thinwire.brokers.protocol import StoredMessage
from thinwire.codec import Delivery, EventsMissed, State, StreamDecoder
from thinwire.codec.decoder_state import DecoderState
from thinwire.codec.row_map import RowMap
from thinwire.errors import DemandError, EventRejected
from thinwire.schema import Event
from thinwire.services.translator.channel import MIN_HOLD_GROUP, Channel
from thinwire.services.translator.channel_router import ChannelRouter
from thinwire.services.translator.decoded_message import DecodedMessage, Step
from thinwire.topics.position import Position


class _PartialRound(NamedTuple):
    """An incomplete key frame round: the decoder state before it, and the messages since."""

    before: DecoderState
    messages: list[DecodedMessage]


class PublisherInput:
    """Decides when the channels of one publisher begin, and feeds them through a `ChannelRouter`.

    on_problem: called with a description of an error
    last_offset: offset of the publisher's last message
    min_hold_group: see `MIN_HOLD_GROUP`
    resuming_channels: channels that have not reached the position of their predecessor
    """

    def __init__(
        self,
        publisher: str,
        decoder: StreamDecoder,
        on_problem: Callable[[str], None],
        *,
        min_hold_group: int = MIN_HOLD_GROUP,
    ) -> None:
        self.publisher = publisher
        self.decoder = decoder
        self.last_offset = 0
        self.channels: dict[str, Channel] = {}
        self.resuming_channels: list[Channel] = []
        self._on_problem = on_problem
        self._router = ChannelRouter(self._restart, min_hold_group)
        self._decoder_state = self._ready_state
        self._round: _PartialRound | None = None
        self._has_unstarted = False
        self._row_map, self._row_map_owner = RowMap(), (-1, b"")

    def open(self, channel: Channel, offset: int, now: float) -> None:
        """Add the channel of a class; the decoder has read the log up to `offset`."""
        self.channels[channel.demand.id] = channel
        self._router.add(channel)
        if channel.resume_at is not None and channel.resume_at.offset < self.last_offset:
            channel.abandon_resume()
        if channel.resume_at is not None:
            self.resuming_channels.append(channel)
        elif self._ready_state is not None:
            self._begin(channel, self._ready_state, Position(self.last_offset or offset), now)
        else:
            self._has_unstarted = True

    def close(self, class_id: str) -> Channel:
        """Remove the channel of a class and discard its buffered frames."""
        channel = self.channels.pop(class_id)
        self._router.remove(channel)
        self.resuming_channels = [other for other in self.resuming_channels if other is not channel]
        channel.discard()
        return channel

    def catch_up(self) -> None:
        """Bring all channels up to date."""
        self._router.catch_up()

    def resume_channels_before(self, offset: int, now: float) -> None:
        """Begin the channels whose predecessor ended before `offset`. Called before that message is decoded."""
        resuming, self.resuming_channels = self.resuming_channels, []
        for channel in resuming:
            assert channel.resume_at is not None
            if channel.resume_at.offset >= offset:
                self.resuming_channels.append(channel)
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
            message = decode_steps(stored, self.publisher, deliveries, before, self.decoder.decoder_state)
            self._router.process(message)
            events = message.events
            # A class that was rejected may be possible under the rules of a new state.
            self._has_unstarted |= before is not self.decoder.decoder_state
            if self.resuming_channels:
                self._record_round(before, message)
            else:
                self._round = None
            if not message.is_complete:
                self.interrupt(stored.time)
        self.last_offset = stored.offset
        self._decoder_state = self.decoder.decoder_state if self._decoder_state is not None else self._ready_state
        if self._has_unstarted and self._ready_state is not None:
            self._begin_unstarted(self._ready_state, stored)
        return events

    def interrupt(self, now: float) -> None:
        """Interrupt all channels until the next key frames: messages are missing or unreadable."""
        self._decoder_state, self._round, self._has_unstarted = None, None, True
        for channel in self.channels.values():
            channel.interrupt(now)
        self._router.clear(self.channels)

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

    def _restart(self, channel: Channel, problem: DemandError | EventRejected, now: float) -> None:
        """Interrupt a channel that cannot encode a message; it begins again if possible."""
        self._report(channel, problem)
        channel.interrupt(now)
        self._router.remove(channel)
        self._router.add(channel)
        self._has_unstarted = True

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
            self._router.assign_group(channel)
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


def decode_steps(
    stored: StoredMessage,
    publisher: str,
    deliveries: Iterable[Delivery],
    before: DecoderState,
    after: DecoderState | None,
) -> DecodedMessage:
    """Convert the deliveries of a message into steps.

    before, after: the decoder state before and after the message. If the publisher was reconfigured in it, channels
        switch to the new rules after the last event that was sent under the old ones.
    """
    steps: list[Step] = []
    state, events, is_complete = before, 0, True
    for delivery in deliveries:
        if isinstance(delivery, EventsMissed):
            if delivery.publisher != publisher:
                continue
            is_complete = False
            break
        if not isinstance(delivery, Event):
            steps.append(delivery)
            continue
        if not state.has_bounds_of(delivery):  # decoded under other rules
            if after is None or not (_is_reconfiguration(state, after) and after.has_bounds_of(delivery)):
                is_complete = False
                break
            state = after
            steps.append(after)
        if steps and isinstance(steps[-1], list):
            steps[-1].append(delivery)
        else:
            steps.append([delivery])
        events += 1
    if is_complete and after is not state:
        is_complete = after is not None and _is_reconfiguration(state, after)
        steps += [after] if is_complete and after is not None else []
    return DecodedMessage(stored.offset, stored.time, steps, events, is_complete)


def _is_reconfiguration(before: DecoderState, after: DecoderState) -> bool:
    """Report whether only the configuration changed, to one that omits no events (`min_interval`)."""
    same = (before.incarnation, before.fingerprint) == (after.incarnation, after.fingerprint)
    return same and before.config_version < after.config_version and not after.rules.min_interval
