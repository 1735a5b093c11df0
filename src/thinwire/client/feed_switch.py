"""Switching a subscription between the topic log and a channel without loss or duplicates.

Log to channel. A channel contains only events that its translator has read from the log. The switch therefore reads the
end offset of the channels first and the end offset of the log second. When the subscription has consumed the log up to
the second offset, it has received everything in the channel before the first one, and continues in the channel from
there. No clocks are compared.

Channel to log. Each message of a channel contains the log position that it covers of its publisher. The subscription
continues in the log after the smallest of these positions. Events that were already delivered are recognised by
publisher, incarnation and ordinal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

from thinwire.brokers.protocol import Broker
from thinwire.client.cursor import ChannelCursor, Cursor
from thinwire.client.feed import ChannelFeed, Feed
from thinwire.client.notices import Notice
from thinwire.codec import EventsMissed, State, StreamDecoder
from thinwire.errors import BrokerUnavailable, ThinwireError, UnknownLog
from thinwire.schema import Event
from thinwire.topics.delivery_dedup import DeliveredEvents, DeliveryDedup, EventNumber, Source, last_events
from thinwire.topics.demand_class import DemandClass
from thinwire.topics.log_decoder import ChannelDecoder, LogDecoder
from thinwire.topics.log_selection import LogSelection, first_message
from thinwire.topics.names import is_key, publisher_in
from thinwire.topics.position import Position, PublisherPositions
from thinwire.topics.seeker import INACTIVE_AFTER
from thinwire.topics.topic_metadata import TopicMetadata
from thinwire.wire.control_frames import MAX_SKIP

MAX_SEEK = 4096
"""messages that a new reader decodes to restore the state of all sources; beyond that it requests key frames"""
MIN_RETRY, MAX_RETRY = 0.5, 8.0
"""seconds between two attempts to enter a channel"""
RETENTION_LOSS = EventsMissed("", None, None, None, "retention")


class EndOffsets(NamedTuple):
    """Last offsets of the log of all channels of a topic and of the topic log, read in this order, for one channel."""

    channel_log: int
    topic_log: int
    channel_start: int


class LogEntryPoint(NamedTuple):
    """The log, opened at the position from which a reader of a channel continues.

    is_complete: retention removed no message after the position; end: the last offset of the log
    ahead: by publisher, the position that the channel covers, if it is after that of `feed`
    """

    feed: Feed
    is_complete: bool
    end: int
    ahead: dict[str, Position]


class StartPosition(NamedTuple):
    """The first log offset of a subscription; is_new: it starts now, without a cursor."""

    first: int
    is_new: bool
    cursor: Cursor | None = None


class FeedSwitch:
    """Opens the log of a topic or the channel of a demand class at the right position, for one subscription.

    limit: messages that a reader fetches ahead
    ends: end offsets up to which the log must be read before the channel is entered; None if not requested yet
    """

    def __init__(self, broker: Broker, topic: TopicMetadata, demand: DemandClass, limit: int) -> None:
        self.ends: EndOffsets | None = None
        self._broker = broker
        self._topic = topic
        self._demand = demand
        self._limit = limit
        self._log = LogSelection(topic.name)
        self._channel = LogSelection(topic.name, demand.id)
        self._retry_at, self._retry_interval = 0.0, MIN_RETRY

    async def open_first(
        self, start: StartPosition, channel_start: int | None, on_notice: Callable[[Notice], None], *, use_channel: bool
    ) -> Feed:
        """Open the feed of a subscription that starts: the channel or the log, at the start position or the cursor.

        channel_start: log offset from which the channel contains everything; None if there is no channel
        use_channel: False if the subscription reads the log only
        """
        cursor, demand = start.cursor, self._demand
        if cursor is not None and cursor.channel is not None:
            return await self._resume(cursor, cursor.channel, on_notice, use_channel=use_channel)
        # A channel with a predicate contains matching events only: the current state of sources is read from the log.
        if start.is_new and demand.where is None and channel_start is not None:
            channel = await self._open_channel_at_end(start.first - 1, channel_start)
            if channel is not None:
                return channel
        feed = await self._open_log(start.first, MAX_SEEK if start.is_new else None)
        if not start.is_new and await self._lacks_key_frames(feed):
            on_notice(RETENTION_LOSS)
        if cursor is not None:
            feed.events_to_skip = cursor.within
            feed.log_decoder.dedup = DeliveryDedup(cursor.delivered) if cursor.delivered else None
        return feed

    async def _open_log(self, first: int, max_messages: int | None = None) -> Feed:
        """Open the log at the offset `first`."""
        only_changes = self._demand.emit == "changes"
        log_decoder = LogDecoder(self._topic.lookup, dictionaries=self._topic.dictionary, only_changes=only_changes)
        feed = Feed(self._broker, self._log, log_decoder)
        await feed.seek(first, self._topic.fetch_definition, max_messages)
        await feed.open(self._limit)
        return feed

    async def _open_channel_at_end(self, log_end: int, channel_start: int) -> ChannelFeed | None:
        """Open the channel for a subscription that starts at the end of the log; None if there is none."""
        with suppress(UnknownLog):
            end = (await self._broker.span(self._channel.log)).last
            feed = await self._seek_channel(end + 1, PublisherPositions(log_end), channel_start, MAX_SEEK)
            await feed.open(self._limit)
            return feed
        return None

    async def _resume_channel(self, cursor: ChannelCursor) -> ChannelFeed | None:
        """Open the channel at a stored cursor; None if its messages were removed."""
        with suppress(UnknownLog):
            span = await self._broker.span(self._channel.log)
            if span.first <= cursor.offset + 1 <= span.last + 1:
                feed = await self._seek_channel(cursor.offset + 1, cursor.publisher_positions, cursor.channel_start)
                absent = cursor.positions.keys() - feed.log_decoder.decoders.keys()
                if not any(feed.log_decoder.waiting()) and all(
                    [await self._is_read_to_end(name, cursor) for name in absent]
                ):
                    await feed.open(self._limit)
                    return feed
        return None

    def is_due(self, feed: Feed, channel_start: int, now: float) -> bool:
        """Return whether the log was read far enough, or the next attempt is due."""
        if self.ends is None or self.ends.channel_start != channel_start:
            return now >= self._retry_at
        return feed.offset >= self.ends.topic_log

    async def enter_channel(self, feed: Feed, channel_start: int, now: float) -> ChannelFeed | None:
        """Open the channel at a position up to which the log was read; None if that is not possible yet."""
        ends, self.ends = self.ends, None
        if ends is None or ends.channel_start != channel_start:
            ends = await self._read_ends(feed.offset, channel_start)
            self._retry_at = now + MIN_RETRY
        if ends is None or feed.offset < ends.topic_log:
            self.ends = ends
            return None
        with suppress(BrokerUnavailable, UnknownLog):
            first, positions = ends.channel_log + 1, PublisherPositions(feed.offset)
            channel = await self._seek_channel(first, positions, channel_start, MAX_SEEK)
            if await self._covers_publishers(channel, feed):
                await channel.open(self._limit)
                self._retry_interval = MIN_RETRY
                return channel
        self._retry_interval = min(2 * self._retry_interval, MAX_RETRY)
        self._retry_at = now + self._retry_interval
        return None

    async def return_to_log(self, positions: PublisherPositions) -> LogEntryPoint:
        """Open the log at the first message that the channel does not cover."""
        span = await self._broker.span(self._log.log)
        covered = {publisher: positions.of(publisher) for publisher in await self._publishers()}
        uncovered = [
            at.offset for publisher, at in covered.items() if await self._last(publisher, span.last) > at.offset
        ]
        first = min(uncovered, default=span.last) + 1
        feed = await self._open_log(max(first, span.first))
        ahead = {publisher: at for publisher, at in covered.items() if at > Position(feed.offset)}
        return LogEntryPoint(feed, first >= span.first, span.last, ahead)

    async def _resume(
        self, cursor: Cursor, channel_cursor: ChannelCursor, on_notice: Callable[[Notice], None], *, use_channel: bool
    ) -> Feed:
        """Open the channel at a stored position, or the log if the channel no longer has it."""
        is_same_class = channel_cursor.class_id == self._demand.id
        channel = await self._resume_channel(channel_cursor) if use_channel and is_same_class else None
        if channel is not None:
            channel.log_decoder.dedup = DeliveryDedup(cursor.delivered)
            channel.events_to_skip = channel_cursor.within
            return channel
        found = await self.return_to_log(channel_cursor.publisher_positions)
        # Suppressed events that were not delivered yet are lost: only the channel's decoders could rebuild them.
        has_lost_suppressed = self._demand.emit == "all" and self._demand.where is None
        if not found.is_complete or has_lost_suppressed or await self._lacks_key_frames(found.feed):
            on_notice(RETENTION_LOSS)
        found.feed.log_decoder.dedup = DeliveryDedup(cursor.delivered, found.ahead)
        return found.feed

    async def _lacks_key_frames(self, feed: Feed) -> bool:
        """Return whether retention removed key frames that the next message of some publisher needs."""
        if (await self._broker.span(self._log.log)).first == 1:
            return False
        publishers = await self._publishers()
        decoders = feed.log_decoder.decoders
        unknown = [name for name in publishers if name not in decoders or decoders[name].state is not State.READY]
        return any([await self._needs_state(publisher, feed.offset) for publisher in unknown])

    async def _needs_state(self, publisher: str, offset: int) -> bool:
        """Return whether the next message of a publisher after `offset` does not start a key frame round."""
        subjects = [self._log.subjects(publisher)]
        if await self._last(publisher) <= offset:
            return True  # the next one is not stored yet
        stored = await first_message(self._broker, self._log.log, offset + 1, subjects)
        return stored is not None and not is_key(stored.subject)

    async def _seek_channel(
        self, first: int, positions: PublisherPositions, channel_start: int, max_messages: int | None = None
    ) -> ChannelFeed:
        """Create a channel feed at the offset `first`; see `Feed.seek` for decoders that remain without a state."""
        # Events that a channel with a predicate suppresses do not match the predicate: they are never delivered.
        only_matching = self._demand.where is not None
        channel_decoder = ChannelDecoder(
            self._topic.lookup,
            dictionaries=self._topic.dictionary,
            only_changes=self._demand.emit == "changes" or only_matching,
            positions=positions,
            only_matching=only_matching,
        )
        feed = ChannelFeed(self._broker, self._channel, channel_decoder, channel_start)
        await feed.seek(first, self._topic.fetch_definition, max_messages)
        return feed

    async def _read_ends(self, offset: int, channel_start: int) -> EndOffsets | None:
        """Return the current ends; None if more than `limit` messages of the log are not yet read."""
        with suppress(BrokerUnavailable, UnknownLog):
            channel_log = (await self._broker.span(self._channel.log)).last
            topic_log = (await self._broker.span(self._log.log)).last
            return EndOffsets(channel_log, topic_log, channel_start) if topic_log - offset <= self._limit else None
        return None

    async def _covers_publishers(self, channel: ChannelFeed, feed: Feed) -> bool:
        """Return whether the channel has the state of all publishers of the log; request it for missing ones."""
        complete = True
        for publisher, decoder in feed.log_decoder.decoders.items():
            ready = decoder.state is State.READY
            has_state = await self._has_state_of(channel, publisher)
            if ready and has_state and decoder.incarnation == channel.log_decoder.open_decoder(publisher).incarnation:
                continue
            if not await self._is_inactive(publisher):
                complete = False
                if not has_state:
                    await channel.requests.request(publisher)
        return complete

    async def _has_state_of(self, channel: ChannelFeed, publisher: str) -> bool:
        """Return whether the channel has sent the state of a publisher since it was opened."""
        decoder = channel.log_decoder.decoders.get(publisher)
        if decoder is None or decoder.state is not State.READY:
            return False
        return channel.log_decoder.positions.of(publisher).offset >= await self._last(publisher, channel.channel_start)

    async def _is_inactive(self, publisher: str) -> bool:
        newest = await self._broker.last(self._log.log, self._log.subjects())
        last = await self._broker.last(self._log.log, self._log.subjects(publisher))
        return newest is None or last is None or last.time < newest.time - INACTIVE_AFTER

    async def _is_read_to_end(self, publisher: str, cursor: ChannelCursor) -> bool:
        """Return whether the channel has messages of a publisher, all of them at or before a cursor."""
        last = await self._broker.last(self._channel.log, self._channel.subjects(publisher))
        return last is not None and last.offset <= cursor.offset

    async def _publishers(self) -> set[str]:
        return {publisher_in(subject) for subject in await self._broker.subjects(self._log.log, self._log.subjects())}

    async def _last(self, publisher: str, up_to: int | None = None) -> int:
        """Return the offset of the last message of a publisher in the log, at most `up_to`; 0 if there is none."""
        stored = await self._broker.last(self._log.log, self._log.subjects(publisher), up_to=up_to)
        return stored.offset if stored is not None else 0


async def needs_channel(topic: TopicMetadata, demand: DemandClass) -> bool:
    """Return whether a demand class needs a channel, because the log does not contain exactly what it requests."""
    config = await topic.configuration()
    if config is None or not config.wanted or config.demand.min_interval:
        return False
    try:
        return not demand.is_log_sufficient(topic.wire_schema, config.demand)
    except ThinwireError:
        return False


class Handover(NamedTuple):
    """Events of the old feed that a feed switch must deliver, report or drop.

    pending: events that only the decoders of the old feed can deliver; missed: events that neither feed can deliver
    dedup: delivered events that the new feed repeats
    """

    pending: list[tuple[StreamDecoder, list[Event]]]
    missed: list[EventsMissed]
    dedup: DeliveryDedup


def compare_feeds(old: LogDecoder, new: LogDecoder) -> Handover:
    """Compare the decoders of two feeds, each at its own position.

    If a source has a higher ordinal in the new feed, the events between the two ordinals were suppressed. The old
    decoders rebuild them from their predictions.
    """
    delivered: DeliveredEvents = {}
    handover = Handover([], [], DeliveryDedup())
    repeated = old.dedup.delivered if old.dedup is not None else {}
    for publisher in dict.fromkeys([*old.decoders, *repeated]):
        decoder, successor = old.decoders.get(publisher), new.decoders.get(publisher)
        new_numbers = _event_numbers(successor) if successor is not None else {}
        incarnation = (successor.incarnation or 0) if successor is not None else 0
        events = list[Event]()
        to_drop = delivered[publisher] = {}
        for source, number, row in _delivered_events(decoder, repeated.get(publisher, {})):
            last = max(number, repeated.get(publisher, {}).get(source, number))
            new_number = new_numbers.get(source, EventNumber(0, 0))
            if new_number < last and last.incarnation >= incarnation:  # the new feed has no past incarnations
                to_drop[source] = last
            elif new_number.incarnation == last.incarnation and new_number.ordinal > last.ordinal:
                if decoder is not None and decoder.state is State.READY and row is not None:
                    suppressed = _expand_suppressed(decoder, row, new_number.ordinal - number.ordinal)
                    events += [event for event in suppressed if event.ordinal > last.ordinal]
                else:
                    gap = EventsMissed(publisher, source, last.ordinal + 1, new_number.ordinal, "gap")
                    handover.missed.append(gap)
        if decoder is not None and events:
            handover.pending.append((decoder, events))
    return handover._replace(dedup=DeliveryDedup(delivered))


def _delivered_events(
    decoder: StreamDecoder | None, repeated: dict[Source, EventNumber]
) -> Iterator[tuple[Source, EventNumber, int | None]]:
    """Iterate over the last event of every source of a publisher, also of sources that only an earlier feed had."""
    known = set[Source]()
    for event in last_events(decoder) if decoder is not None else ():
        known.add(event[0])
        yield event
    for source in [source for source in repeated if source not in known]:
        yield source, repeated[source], None


def _event_numbers(decoder: StreamDecoder) -> dict[Source, EventNumber]:
    """Return the last event of every source in the current state of a decoder."""
    return {source: number for source, number, row in last_events(decoder) if row is not None}


def _expand_suppressed(decoder: StreamDecoder, row: int, skip: int) -> list[Event]:
    """Return suppressed events of a source, expanded in bounded steps."""
    assert decoder.decoder_state is not None
    events: list[Event] = []
    while skip:
        part = min(skip, MAX_SKIP)
        events += decoder.decoder_state.expand_suppressed(row, part)
        skip -= part
    return events
