"""Reading the feed of a subscription, and switching between the topic log and the channel of its demand class.

    state              transition
    reads the log      -> switches    there is a channel, and the log was read up to its end offset at that time
    reads the channel  -> switches    the channel was closed or restarted, or its translator does not answer
    switches           -> reads       the other feed if it could be opened at the right position, else the same one

`FeedSwitch` finds the positions. A separate task opens the other feed, and the reader replaces its feed in one step:
a caller of `next` may be cancelled at any await.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from dataclasses import astuple
from functools import partial
from operator import add
from typing import Any, NamedTuple

from thinwire.brokers.protocol import Broker, StoredMessage
from thinwire.client.change_baseline import ChangeBaseline
from thinwire.client.channel_status import MIN_POLL, ChannelStatus
from thinwire.client.feed import ChannelFeed, Feed, FeedBatch
from thinwire.client.feed_switch import RETENTION_LOSS, FeedSwitch, StartPosition, compare_feeds, needs_channel
from thinwire.client.notices import MessageUnreadable, Notice
from thinwire.codec import Counts, Delivery, State, StreamDecoder
from thinwire.errors import BrokerUnavailable, PeerFault
from thinwire.schema import Event
from thinwire.topics.delivery_dedup import Source
from thinwire.topics.demand_class import DemandClass
from thinwire.topics.log_decoder import resolve_and_retry
from thinwire.topics.topic_metadata import TopicMetadata

CHECK_INTERVAL = 0.05
"""seconds between two checks for a better feed and for decoders that wait for key frames"""


class SwitchedFeed(NamedTuple):
    """The new feed of a switch. find_target: finds its offset that corresponds to the position of the old feed."""

    feed: Feed
    find_target: Callable[[], Awaitable[int | None]]


class FeedReader:
    """Reads the channel of a demand class if there is one, else the log, from one position on.

    demand: the demand class of the subscription; limit: messages that a reader fetches ahead
    use_channels: False if only the log has the events in the requested schema
    on_notice: called for each notice; save_cursor: called before a feed is closed
    watched_properties: returns the properties whose every change is delivered; () if decoders do not select changes
    """

    def __init__(
        self,
        broker: Broker,
        topic: TopicMetadata,
        demand: DemandClass,
        *,
        limit: int,
        use_channels: bool,
        on_notice: Callable[[Notice], None],
        save_cursor: Callable[[], Awaitable[None]],
        watched_properties: Callable[[StreamDecoder], Collection[str]],
    ) -> None:
        self.feed: Feed
        self._topic = topic
        self._demand = demand
        self._on_notice = on_notice
        self._save_cursor = save_cursor
        self._watched_properties = watched_properties
        self._feed_switch = FeedSwitch(broker, topic, demand, limit)
        self._has_channels = topic.managed and use_channels
        self._status = ChannelStatus(broker, topic.name, demand.id, on_notice)
        is_changes = demand.emit == "changes"
        self._baseline = ChangeBaseline(has_predicate=demand.where is not None) if is_changes else None
        self._switch: asyncio.Task[SwitchedFeed | None] | None = None
        self._previous: Feed | None = None
        self._must_leave_channel = False
        self._last_received_at: float | None = None
        self._next_check = 0.0
        self._undecoded: StoredMessage | None = None
        self._pending: list[FeedBatch] = []
        self._last_offset: int | None = None
        self._previous_counts: dict[str, Counts] = {}

    async def open(self, start: StartPosition) -> list[FeedBatch]:
        """Start to read; returns the current state of all sources for a new subscription."""
        try:
            if self._has_channels:
                self._topic.add_class(self._demand)
                await self._status.open()
                await self._status.wait_for_channel_document(needed=await needs_channel(self._topic, self._demand))
            self.feed = await self._feed_switch.open_first(
                start, self._status.channel_start, self._on_notice, use_channel=self._has_channels
            )
        except BaseException:
            await self._status.close()
            raise
        self._use(self.feed)
        return await self._read_current_state() if start.is_new else []

    async def close(self) -> None:
        """Close the feed, and a switch in progress."""
        await self._status.close()
        feeds = [self.feed, self._previous]
        if self._switch is not None:
            self._switch.cancel()
            (found,) = await asyncio.gather(self._switch, return_exceptions=True)
            feeds.append(found.feed if isinstance(found, SwitchedFeed) else None)
        for feed in feeds:
            if feed is not None:
                await feed.close()

    @property
    def offset(self) -> int | None:
        """The log offset up to which everything was received."""
        return self.feed.log_offset or self._last_offset

    @property
    def decoders(self) -> Mapping[str, StreamDecoder]:
        """The decoders of the current feed by publisher."""
        return self.feed.log_decoder.decoders

    @property
    def is_on_channel(self) -> bool:
        return isinstance(self.feed, ChannelFeed)

    @property
    def counts(self) -> dict[str, Counts]:
        """The counters of each publisher's decoders over all feeds."""
        return _add_counts(self._previous_counts, self.feed)

    def include_suppressed_until(self, publisher: str, sources: Collection[Source]) -> None:
        """Deliver suppressed events of a publisher as well, until each of these sources had an event."""
        self.feed.log_decoder.include_suppressed_until(publisher, sources)

    async def next(self, now: float, timeout: float) -> list[FeedBatch]:
        """Return the deliveries of the next message; none if there is no message within `timeout` seconds.

        This acknowledges the messages of earlier calls.
        """
        feed = self.feed
        if feed.has_received:
            feed.reader.done(feed.offset)
        if (now >= self._next_check or self._switch is not None) and self._undecoded is None:
            await self._check(now)
            feed = self.feed
        if self._pending:
            return self._take_pending()
        stored = self._undecoded or await feed.reader.next(timeout)
        if stored is None:
            self._next_check = 0.0
            return []
        if isinstance(feed, ChannelFeed):
            is_closed = not feed.events_to_skip and self._status.channel_start != feed.channel_start
            if is_closed or feed.log_decoder.is_restarted_by(stored):
                self._must_leave_channel = True
            if self._must_leave_channel:
                self._undecoded = None
                self._next_check = 0.0
                return []
            self._last_received_at = now
        try:
            deliveries = feed.log_decoder.receive(stored, now)
        except PeerFault as fault:
            deliveries = await self._decode_again(feed, stored, now, fault)
        self._undecoded = None
        feed.offset, feed.has_received = stored.offset, True
        decoder, ends = feed.log_decoder.current, self._feed_switch.ends
        if decoder.state is not State.READY or (ends is not None and stored.offset >= ends.topic_log):
            self._next_check = 0.0  # request key frames, or enter the channel, at once
        return self._make_batches(feed, stored, decoder, deliveries)

    def _make_batches(
        self, feed: Feed, stored: StoredMessage, decoder: StreamDecoder, deliveries: list[Delivery]
    ) -> list[FeedBatch]:
        on_channel = isinstance(feed, ChannelFeed)
        time = None if on_channel else stored.time
        changed_events = feed.log_decoder.changed_events
        events: list[Event] = []
        notices: list[Notice] = []
        for delivery in deliveries:
            if isinstance(delivery, Event):
                events.append(delivery)
            else:
                notices.append(delivery)
        batches = [FeedBatch(decoder, events, notices, stored.offset, time, changed_events)]
        if self._baseline is not None:
            if self._baseline.needs_comparison_after(feed, decoder, stored.offset):
                batches.append(self._make_state_batch(decoder, stored.offset))
            self._queue_state_after_switch(self._baseline)
        return batches + self._take_pending() if self._pending else batches

    async def _check(self, now: float) -> None:
        """Start or complete a feed switch if possible, and request missing key frames."""
        self._next_check = now + CHECK_INTERVAL
        feed = self.feed
        if self._switch is None and not feed.events_to_skip:
            if isinstance(feed, ChannelFeed):
                await self._check_channel(feed, now)
            else:
                await self._check_log(feed, now)
        if self._switch is not None:
            await self._complete_switch(self._switch)
        if self._baseline is not None:
            await self._baseline.poll(now)
            self._queue_state_after_switch(self._baseline)
        if self._previous is not None:
            await self._previous.close()
            self._previous = None
        if any(self.feed.log_decoder.waiting()):
            await self.feed.requests.request_missing(self.feed.log_decoder, now)

    async def _check_log(self, feed: Feed, now: float) -> None:
        """Enter the channel if there is one and the log was read far enough."""
        await self._status.check(now)
        channel_start = self._status.channel_start
        if channel_start is not None and self._feed_switch.is_due(feed, channel_start, now):
            self._start_switch(self._enter_channel(feed, channel_start, now))

    async def _check_channel(self, feed: ChannelFeed, now: float) -> None:
        """Check a silent channel, and return to the log if the channel was closed.

        A channel that was read to its end covers the log up to the offset that the translator reports.
        """
        if self._last_received_at is None:
            self._last_received_at = now
        is_silent = now - self._last_received_at >= MIN_POLL
        covered_offset = await self._status.poll(now, self._last_received_at) if is_silent else None
        if covered_offset and not any(feed.log_decoder.waiting()) and await feed.last_offset() <= feed.offset:
            feed.log_decoder.positions.complete_to(covered_offset)
        if self._must_leave_channel or self._status.channel_start != feed.channel_start:
            self._start_switch(self._return_to_log(feed))

    def _start_switch(self, opening: Coroutine[Any, Any, SwitchedFeed | None]) -> None:
        self._switch = asyncio.create_task(opening, name=f"feed switch {self._topic.name}")

    async def _complete_switch(self, switch: asyncio.Task[SwitchedFeed | None]) -> None:
        """Wait for the other feed, and continue with it."""
        try:
            switched = await asyncio.shield(switch)
        finally:
            if switch.done():
                self._switch = None
        if switched is not None:
            previous, feed = self.feed, switched.feed
            self._last_offset = self.offset
            self._previous_counts = _add_counts(self._previous_counts, previous)
            handover = compare_feeds(previous.log_decoder, feed.log_decoder)
            feed.log_decoder.dedup = handover.dedup if handover.dedup else None
            self._pending += [FeedBatch(decoder, events, []) for decoder, events in handover.pending]
            self._previous = previous
            self._use(feed)
            if self._baseline is not None:
                self._baseline.start_switch(feed, switched.find_target)
            for missed in handover.missed:
                self._on_notice(missed)

    def _use(self, feed: Feed) -> None:
        feed.log_decoder.watched_properties = self._watched_properties
        self.feed, self._last_received_at, self._must_leave_channel = feed, None, False

    async def _find_channel_offset(self, feed: Feed, log_offset: int) -> int | None:
        """Return the end of the channel if it covers the log up to an offset."""
        covered_offset = await self._status.request_covered_offset()
        if covered_offset is None or covered_offset < log_offset:
            return None
        return await feed.last_offset()

    def _queue_state_after_switch(self, baseline: ChangeBaseline) -> None:
        if baseline.try_finish_switch():
            self._pending += map(self._make_state_batch, self.feed.log_decoder.decoders.values())

    def _make_state_batch(self, decoder: StreamDecoder, offset: int = 0) -> FeedBatch:
        state, dedup = decoder.current_events(), self.feed.log_decoder.dedup
        if dedup is not None:
            dedup.remove_reached(decoder.publisher, state)
        return FeedBatch(decoder, state, [], offset, is_state=True, any_difference=self.is_on_channel)

    def _take_pending(self) -> list[FeedBatch]:
        pending, self._pending = self._pending, []
        return pending

    async def _decode_again(self, feed: Feed, stored: StoredMessage, now: float, fault: PeerFault) -> list[Delivery]:
        decoder = feed.log_decoder.select_decoder(stored)

        def report(problem: PeerFault) -> None:
            self._undecoded = None
            self._on_notice(MessageUnreadable(decoder.publisher, stored.offset, str(problem)))

        async def fetch(name: bytes) -> bool:
            # The caller may be cancelled while a definition is fetched, and the broker may be unreachable.
            self._undecoded = stored
            return await self._topic.fetch_definition(name)

        again = partial(feed.log_decoder.decode, stored, now)
        return await resolve_and_retry(decoder, fault, again, fetch, report)

    async def _read_current_state(self) -> list[FeedBatch]:
        """Return the latest event of every source; key frames are requested if the state is not complete."""
        log_decoder = self.feed.log_decoder
        if not log_decoder.decoders or any(log_decoder.waiting()):
            await self.feed.requests.request_all()
        return [FeedBatch(decoder, decoder.current_events(), []) for decoder in log_decoder.decoders.values()]

    async def _enter_channel(self, feed: Feed, channel_start: int, now: float) -> SwitchedFeed | None:
        channel = await self._feed_switch.enter_channel(feed, channel_start, now)
        if channel is None:
            return None
        await self._save_cursor_or_close(channel)
        return SwitchedFeed(channel, partial(self._find_channel_offset, channel, feed.offset))

    async def _return_to_log(self, feed: ChannelFeed) -> SwitchedFeed | None:
        try:
            found = await self._feed_switch.return_to_log(feed.log_decoder.positions)
        except BrokerUnavailable:
            return None
        if not found.is_complete:
            self._on_notice(RETENTION_LOSS)
        await self._save_cursor_or_close(found.feed)
        return SwitchedFeed(found.feed, partial(_known_offset, found.end))

    async def _save_cursor_or_close(self, opened: Feed) -> None:
        """Save the cursor of the current feed; if that fails, close the feed that was opened to replace it."""
        try:
            await self._save_cursor()
        except BaseException:
            await opened.close()
            raise


async def _known_offset(offset: int) -> int | None:
    return offset


def _add_counts(before: dict[str, Counts], feed: Feed) -> dict[str, Counts]:
    """Return `before` plus the counts of a feed, by publisher; counters of new publishers are not copied."""
    counts = {name: decoder.counts for name, decoder in feed.log_decoder.decoders.items()}
    for publisher, earlier in before.items():
        current = counts.get(publisher, Counts())
        counts[publisher] = Counts(*map(add, astuple(earlier), astuple(current)))
    return counts
