"""The feed of a subscription: the topic log or the channel of its demand class. Both contain the same events."""

from __future__ import annotations

from typing import NamedTuple

from thinwire.brokers.protocol import Broker, LogReader
from thinwire.client.cursor import ChannelCursor, Cursor
from thinwire.client.notices import Notice
from thinwire.codec import StreamDecoder
from thinwire.codec.deliveries import ChangedEvents
from thinwire.schema import Event
from thinwire.topics.delivery_dedup import DeliveredEvents, DeliveryDedup
from thinwire.topics.key_frame_requests import ChannelRequests, KeyFrameRequests
from thinwire.topics.log_decoder import ChannelDecoder, FetchDefinition, LogDecoder
from thinwire.topics.log_selection import LogSelection
from thinwire.topics.seeker import Seeker

MAX_CURSOR_SOURCES = 1_000
"""sources in a cursor whose last delivered event is after its position"""


class Feed:
    """A position in the topic log, with decoders at that position and a reader of the messages after it.

    offset: of the last message received, or of the one before the position
    has_received: a message was received
    events_to_skip: number of events of the next message that were acknowledged before the subscription stopped
    """

    def __init__(
        self, broker: Broker, selection: LogSelection, log_decoder: LogDecoder, requests: KeyFrameRequests | None = None
    ) -> None:
        self.selection = selection
        self.log_decoder = log_decoder
        self.requests = requests or KeyFrameRequests(broker, selection.topic)
        self.offset = 0
        self.has_received = False
        self.events_to_skip = 0
        self.reader: LogReader
        self._broker = broker

    @property
    def log_offset(self) -> int | None:
        """The log offset of the last events received; None before the first."""
        return self.offset if self.has_received else None

    async def seek(self, first: int, fetch: FetchDefinition, max_messages: int | None) -> None:
        """Bring the decoders to the offset `first`. If that takes more than `max_messages`, they have no state."""
        seeker = Seeker(self._broker, self.selection, fetch)
        self.log_decoder = (await seeker.seek(self.log_decoder, first, max_messages=max_messages)).log_decoder
        self.offset = first - 1

    async def open(self, limit: int) -> None:
        """Start to read after the position; limit: messages that are fetched ahead."""
        subjects = [self.selection.subjects()]
        self.reader = await self._broker.read(
            self.selection.log, first=self.offset + 1, subjects=subjects, max_unacknowledged=limit
        )

    async def last_offset(self) -> int:
        """Return the offset of the last stored message; 0 if there is none."""
        newest = await self._broker.last(self.selection.log, self.selection.subjects())
        return newest.offset if newest is not None else 0

    async def close(self) -> None:
        await self.reader.close()

    def cursor(self, event_count: int | None = None) -> Cursor:
        """Return the position after the last message, or after the first `event_count` events of it."""
        dedup = self.log_decoder.dedup or DeliveryDedup()
        if event_count is None:
            return Cursor(self.offset, 0, None, _select_events_to_store(dedup))
        return Cursor(self.offset - 1, event_count, None, _select_events_to_store(dedup.before_message(self.offset)))


class ChannelFeed(Feed):
    """A position in the channel of a demand class.

    channel_start: the log offset from which the channel contains everything; the channel was restarted if it changes
    """

    log_decoder: ChannelDecoder
    requests: ChannelRequests

    def __init__(
        self, broker: Broker, selection: LogSelection, log_decoder: ChannelDecoder, channel_start: int
    ) -> None:
        super().__init__(broker, selection, log_decoder, ChannelRequests(broker, selection.topic, selection.class_id))
        self.channel_start = channel_start
        self._switch_offset = log_decoder.positions.default_offset

    @property
    def log_offset(self) -> int | None:
        """The log offset up to which the channel has delivered everything."""
        position, covered = self.log_decoder.position, self.log_decoder.positions.default_offset
        if position is None or not self.has_received:
            return covered if covered > self._switch_offset else None
        return max(position.offset, covered)

    def cursor(self, event_count: int | None = None) -> Cursor:
        """Return the position after the last message, or after the first `event_count` events of it.

        Events after the position may have been delivered from the log. The cursor contains them. If they are too many,
        the position is the log offset at which the subscription switched to the channel.
        """
        positions, offset, dedup = self.log_decoder.positions, self.offset, self.log_decoder.dedup or DeliveryDedup()
        if event_count is not None:
            dedup, offset = dedup.before_message(offset), offset - 1
            if self.log_decoder.previous_position is not None:
                positions = positions.with_position(*self.log_decoder.previous_position)
        if len(dedup) > MAX_CURSOR_SOURCES:
            return Cursor(self._switch_offset)
        covered = positions.default_offset, positions.by_publisher
        channel = ChannelCursor(self.selection.class_id, self.channel_start, offset, event_count or 0, *covered)
        return Cursor(positions.lowest, 0, channel, _select_events_to_store(dedup))


class FeedBatch(NamedTuple):
    """Events and notices of one publisher.

    offset, time: of the message; the time is None in a channel, whose messages are stored later than the publisher's
    changed_events: set if the decoder has verified each event as a change
    is_state: the events are the current ones of their sources, to be compared with the delivered ones;
    any_difference: a difference of any size is a change
    """

    decoder: StreamDecoder
    events: list[Event]
    notices: list[Notice]
    offset: int = 0
    time: float | None = None
    changed_events: ChangedEvents | None = None
    is_state: bool = False
    any_difference: bool = False


def _select_events_to_store(dedup: DeliveryDedup) -> DeliveredEvents | None:
    """Return the events to store in a cursor. None if there are too many: these may be delivered again."""
    if not dedup.delivered or len(dedup) > MAX_CURSOR_SOURCES:
        return None
    return {publisher: dict(sources) for publisher, sources in dedup.delivered.items()}
