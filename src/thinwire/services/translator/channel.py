"""A channel: the frames of one publisher for one demand class, and the log position that they cover.

A channel is in one of three states:

    encoder     skipping    on a message of the publisher
    none        -           ignored; the channel begins when the state of all sources is known, or at `resume_at`
    present     yes         updates the encoder with events that a predecessor has already written, without output;
                            then begins with key frames
    present     no          encodes

The time of a channel is the time of the log, so the same log messages give the same bytes on any translator.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from thinwire.codec import Audit, Counts, StreamEncoder, Watermark
from thinwire.codec.decoded_event_encoder import Frames
from thinwire.codec.decoder_state import DecoderState
from thinwire.codec.reducer import MAX_SOURCES
from thinwire.codec.row_map import RowMap
from thinwire.codec.stream_config import KEY_FRAME_INTERVAL
from thinwire.errors import EventRejected
from thinwire.schema import Event
from thinwire.services.translator.channel_encoder import ChannelEncoder
from thinwire.services.translator.channel_writer import ChannelMessage, MessageFrames, batch_frames
from thinwire.services.translator.decoded_message import DecodedMessage
from thinwire.topics.demand_class import DemandClass, Source
from thinwire.topics.position import Position
from thinwire.wire import Request

if TYPE_CHECKING:
    from thinwire.services.translator.channel_group import ChannelGroup

MIN_HOLD_GROUP = 16
"""last-value channels of one publisher for which a hold group is used, at least; fewer need less memory without one"""

FRAME_OVERHEAD = 64
"""bytes of memory per buffered frame beside its content, which is often a dozen bytes"""

_ANY_REQUEST = Request(0, 0)

_NO_MESSAGE = DecodedMessage(0, 0.0, [], 0, is_complete=False)


@dataclass
class ChannelSettings:
    """State that all channels of a translation share.

    epoch: of the translator
    key_frame_interval, max_sources: as in `StreamConfig`
    min_hold_group: see `MIN_HOLD_GROUP`
    pending: channels with buffered frames
    pending_bytes: memory that their frames use
    """

    epoch: int
    key_frame_interval: float = KEY_FRAME_INTERVAL
    max_sources: int = MAX_SOURCES
    min_hold_group: int = MIN_HOLD_GROUP
    pending: list[Channel] = field(default_factory=list)
    pending_bytes: int = 0


class Channel:
    """The frames of one class for one publisher.

    sequence: sequence number of the first frame
    resume_at: the position at which a predecessor ended and this channel begins
    group: feeds the channel with selected events; None if it processes every message itself
    events_to_skip: events that its predecessor has already written and that are still to be processed without output
    has_pending_request: key frames were requested too soon after others and are still to be sent
    """

    def __init__(
        self,
        demand: DemandClass,
        publisher: str,
        settings: ChannelSettings,
        counts: Counts,
        sequence: int,
        resume_at: Position | None,
    ) -> None:
        self.demand = demand
        self.publisher = publisher
        self.resume_at = resume_at
        self.encoder: ChannelEncoder | None = None
        self.counts = counts
        self.group: ChannelGroup[Any] | None = None
        self._settings = settings
        self._sequence = sequence
        self.events_to_skip = 0
        self.has_pending_request = False
        self._position = resume_at._replace(log_id="") if resume_at is not None else Position(0)
        self._message = _NO_MESSAGE
        self._has_gap = False
        self._frames: list[MessageFrames] = []
        self._frames_size = 0
        self._starts_message = True

    @property
    def is_encoding(self) -> bool:
        """Report whether the channel has begun and does not skip events."""
        return self.encoder is not None and not self.events_to_skip

    def catch_up(self) -> StreamEncoder | None:
        """Bring the channel up to date. Return its stream encoder; None before it begins or while it skips."""
        if self.group is not None:
            self.group.catch_up(self)
        return None if self.encoder is None or self.events_to_skip else self.encoder.stream

    @property
    def next_sequence(self) -> int:
        """The first sequence number of a restarted stream. One number is left out, so that readers detect a gap."""
        return self._sequence if self.encoder is None else self.encoder.stream.sequence + 1

    def covers(self, source: Source) -> bool:
        """Report whether the class selects this source."""
        return self.encoder is not None and self.encoder.covers(source)

    def begin(
        self,
        decoder_state: DecoderState,
        position: Position,
        now: float,
        row_map: RowMap | None = None,
        skipped: Sequence[DecodedMessage] = (),
    ) -> None:
        """Create the encoder from a decoder state. Send key frames at `position`.

        row_map: shared by the channels of the same sources
        skipped: messages between that state and the position, which the predecessor has written
        """
        self.encoder = ChannelEncoder(
            self.demand,
            self.publisher,
            decoder_state,
            row_map=row_map,
            sequence=self._sequence,
            key_frame_interval=self._settings.key_frame_interval,
            max_sources=self._settings.max_sources,
        )
        self.resume_at = None
        for message in skipped:
            self.encoder.skip_message(message)
        self._position, self.events_to_skip = Position(position.offset), position.within
        self.has_pending_request = False
        self._starts_message = True
        if self._has_gap:  # readers that continue from the predecessor detect the sequence gap at this heartbeat
            self._has_gap = False
            self._put(self.encoder.stream.heartbeat(now), position)
        if not self.events_to_skip:
            self._put(self.encoder.stream.start(now), position)

    def abandon_resume(self) -> None:
        """Discard `resume_at`, whose state is not available. The channel begins at a later position, with a gap."""
        self.resume_at, self._has_gap = None, True

    def interrupt(self, now: float) -> None:
        """Handle a gap in the log: report suppressed events and stop until the channel begins again."""
        if self.encoder is None:
            return
        stream = self.catch_up()
        if stream is not None and stream.has_unsent_suppressed:
            self._put(stream.heartbeat(now), self._position)
        self._sequence = self.next_sequence
        self.encoder = None
        self.events_to_skip = 0

    def process(self, message: DecodedMessage) -> None:
        """Encode a message. Raises EventRejected or DemandError; the channel must then begin again."""
        self._message, self._position = message, self._position._replace(within=0)
        self._starts_message = True
        for step in message.steps:
            if isinstance(step, list):
                self._encode(step)
            else:
                self.process_step(step, message)
        if message.is_complete:
            self._finish_message()

    def set_position(self, within: int, offset: int | None) -> None:
        """Set the position, for a group: `within` events of the message after `offset`; None keeps the offset."""
        self._position = Position(self._position.offset if offset is None else offset, within)

    def encode_event(self, event: Event, message: DecodedMessage) -> None:
        """Encode one event of a message, for a group. Raises as `process` does."""
        assert self.encoder is not None
        self._set_message(message)
        frames = self.encoder.encode(event, message.time)
        self.counts.events += 1
        if frames:
            self._put(frames, self._position_after(self._position.within + 1))

    def process_step(self, step: Watermark | Audit | DecoderState, message: DecodedMessage) -> None:
        """Process a step without events. Raises as `process` does."""
        assert self.encoder is not None
        self._set_message(message)
        if isinstance(step, DecoderState):
            frames = self.encoder.reconfigure(step, message.time)
        elif self.events_to_skip:
            return
        elif isinstance(step, Watermark):
            frames = self.encoder.stream.heartbeat(message.time, step.time)
        else:
            frames = self.encoder.audit(step)
        if not self.events_to_skip:
            self._put(frames, self._position_after(self._position.within))

    def request_key_frames(self, now: float) -> None:
        """Send a key frame round; soon after another one it is delayed until the time of the log has advanced."""
        stream = self.catch_up()
        if stream is None:
            return  # it begins with key frames anyway
        frames = stream.answer(_ANY_REQUEST, now)
        self.has_pending_request = not frames
        if self.has_pending_request and self.group is not None:
            self.group.add_pending_request(self)
        self._put_between_messages(frames)

    def send_suppressed(self, now: float) -> None:
        """Report suppressed events now, before the next heartbeat of the publisher."""
        stream = self.catch_up()
        if stream is not None and stream.has_unsent_suppressed:
            self._put_between_messages(stream.heartbeat(now))

    def send_due_key_frames(self, now: float) -> None:
        """Send key frames that are due although no event of the last message was encoded."""
        stream = self.catch_up()
        if stream is not None:
            self._put_between_messages(stream.poll(now))

    def take_messages(self, limit: int) -> list[ChannelMessage]:
        """Remove the buffered frames and return them as messages of at most `limit` bytes."""
        frames = self._frames
        self.discard()
        payloads = batch_frames(frames, limit, self._settings.epoch)
        return [ChannelMessage(self.demand.id, self.publisher, key, payload) for key, payload in payloads]

    def discard(self) -> None:
        """Discard the buffered frames."""
        self._settings.pending_bytes -= self._frames_size
        self._frames, self._frames_size, self._starts_message = [], 0, True

    def _set_message(self, message: DecodedMessage) -> None:
        if self._message is not message:
            self._message = message
            self._starts_message = True

    def _encode(self, events: list[Event]) -> None:
        assert self.encoder is not None
        if self.events_to_skip:
            events = self._skip(self.encoder, events)
        encoder, first, now = self.encoder, self._position.within, self._message.time
        stream = encoder.stream
        events_before = stream.counts.events
        selected, indexes = encoder.select(events) if encoder.is_selective else (events, range(len(events)))
        try:
            for frames in encoder.encode_all(selected, now):
                self._put_event_frames(frames, indexes, first)
            self._position = self._position._replace(within=first + len(events))
        except EventRejected:  # the position is that of the rejected event
            self._position = self._position._replace(within=first + indexes[stream.counts.events - events_before])
            raise
        finally:
            self.counts.events += stream.counts.events - events_before

    def _skip(self, encoder: ChannelEncoder, events: list[Event]) -> list[Event]:
        """Process the events that the predecessor has written without output; return the remaining ones."""
        skipped = events[: self.events_to_skip]
        encoder.skip_events(skipped, self._message.time)
        self._position = self._position._replace(within=self._position.within + len(skipped))
        self.events_to_skip -= len(skipped)
        if not self.events_to_skip:
            self._put(encoder.stream.start(self._message.time), self._position)
        return events[len(skipped) :]

    def _finish_message(self) -> None:
        assert self.encoder is not None
        self._position = Position(self._message.offset)
        if self.events_to_skip:  # the log was replaced: the predecessor has written more events of this message
            self.events_to_skip = 0
            self._put(self.encoder.stream.start(self._message.time), self._position)
        elif self.has_pending_request:
            self.request_key_frames(self._message.time)

    def _position_after(self, within: int) -> Position:
        """Return the position after `within` events of the current message."""
        if self._message.is_complete and within == self._message.events:
            return Position(self._message.offset)
        return Position(self._position.offset, within)

    def _put_between_messages(self, frames: list[bytes]) -> None:
        """Buffer frames that result from no log message."""
        self._starts_message = True
        self._put(frames, Position(self._position.offset))

    def _put(self, frames: list[bytes], position: Position) -> None:
        if not frames:
            return
        for frame in frames:
            self.counts.add(frame)
        self._buffer_frames(frames, (position.offset, position.within) * len(frames))

    def _put_event_frames(self, encoded: Frames, indexes: Sequence[int], first: int) -> None:
        """Buffer the frames of events.

        indexes: of the encoded events in the current step; first: number of events of the message before the step
        """
        if encoded.data:
            self.counts.add_all_data(encoded.frames)
        else:
            for frame in encoded.frames:
                self.counts.add(frame)
        message, offset = self._message, self._position.offset
        last = message.events - first - 1 if message.is_complete else -1
        positions = list[int]()
        for number in encoded.numbers:
            index = indexes[number]
            positions += (message.offset, 0) if index == last else (offset, first + index + 1)
        self._buffer_frames(encoded.frames, positions, only_data=encoded.data)

    def _buffer_frames(self, frames: list[bytes], positions: Iterable[int], *, only_data: bool = False) -> None:
        if not self._frames:
            self._settings.pending.append(self)
        if self._starts_message:
            self._frames.append(MessageFrames())
            self._starts_message = False
        self._frames[-1].put(frames, positions, only_data=only_data)
        size = sum(map(len, frames)) + FRAME_OVERHEAD * len(frames)
        self._frames_size += size
        self._settings.pending_bytes += size
