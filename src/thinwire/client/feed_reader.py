"""Reading the feed of a subscription, and switching between the topic log and the channel of its demand class.

    state      transition
    LOG        -> SWITCHING   a channel is open, and the log was read up to its end offset at that time
    CHANNEL    -> SWITCHING   the channel was closed or restarted, or its translator does not answer
    SWITCHING  -> LOG, CHANNEL   the other feed is open at the right position; back to the same feed if it is not

`FeedSwitch` finds the positions. The other feed is opened by a task of its own and taken over in one step, because a
caller of `next` may be cancelled at any await.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from dataclasses import fields
from enum import Enum
from functools import partial
from typing import Any

from thinwire.brokers.protocol import Broker, StoredMessage
from thinwire.client.change_baseline import ChangeBaseline
from thinwire.client.channel_status import MIN_POLL, ChannelStatus
from thinwire.client.feed import ChannelFeed, Feed, FeedBatch
from thinwire.client.feed_switch import RETENTION_LOSS, FeedSwitch, StartPosition, compare_feeds, needs_channel
from thinwire.client.notices import MessageUnreadable, Notice
from thinwire.codec import Counts, Delivery, State, StreamDecoder
from thinwire.errors import BrokerUnavailable, PeerFault
from thinwire.schema import Event
from thinwire.topics.demand_class import DemandClass
from thinwire.topics.log_decoder import resolve_and_retry
from thinwire.topics.topic_metadata import TopicMetadata

CHECK_INTERVAL = 0.05
"""seconds between two checks for a better feed and for decoders that wait for key frames"""


class FeedState(Enum):
    """What a reader does."""

    LOG = "log"
    CHANNEL = "channel"
    SWITCHING = "switching"


class FeedReader:
    """Reads the log or the channel, whichever is better, from one position on.

    demand: the class of the subscription
    use_channels: False if only the log has the events in the requested schema
    on_notice: called for each notice; save_cursor: called before a feed is closed
    changed_properties: see `LogDecoder.changed_properties`
    skip: events of the first message that were acknowledged before the last restart
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
        changed_properties: Callable[[StreamDecoder], Collection[str]],
    ) -> None:
        self.state = FeedState.LOG
        self.skip = 0
        self.feed: Feed
        self._broker = broker
        self._topic = topic
        self._demand = demand
        self._on_notice = on_notice
        self._save_cursor = save_cursor
        self._changed_properties = changed_properties
        self._feed_switch = FeedSwitch(broker, topic, demand, limit)
        has_channels = topic.managed and use_channels
        self._status = ChannelStatus(broker, topic.name, demand.id, on_notice) if has_channels else None
        is_changes = demand.emit == "changes"
        self._baseline = ChangeBaseline(has_predicate=demand.where is not None) if is_changes else None
        self._switch: asyncio.Task[Feed | None] | None = None
        self._previous: Feed | None = None
        self._must_leave_channel = False
        self._last_message: float | None = None
        self._log_end = 0
        self._next_check = 0.0
        self._entry_offset = math.inf
        self._undecoded: StoredMessage | None = None
        self._pending: list[FeedBatch] = []
        self._last_offset: int | None = None
        self._previous_counts: dict[str, Counts] = {}

    async def open(self, start: StartPosition) -> list[FeedBatch]:
        """Start to read; returns the current state of all sources for a new subscription."""
        if self._status is not None:
            self._topic.add_class(self._demand)
        try:
            if self._status is not None:
                await self._status.open()
                await self._status.wait_for_document(needed=await needs_channel(self._topic, self._demand))
            self.feed, self.skip = await self._feed_switch.open_first(start, self._status, self._on_notice)
        except BaseException:
            await self._close_status()
            raise
        self._use(self.feed)
        return await self._read_current_state() if start.is_new else []

    async def close(self) -> None:
        """Close the feed, and a switch in progress."""
        await self._close_status()
        feeds = [self.feed, self._previous]
        if self._switch is not None:
            self._switch.cancel()
            (found,) = await asyncio.gather(self._switch, return_exceptions=True)
            feeds.append(found if isinstance(found, Feed) else None)
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

    async def next(self, now: float, timeout: float) -> list[FeedBatch]:
        """Return the deliveries of the next message; none if there is no message within `timeout` seconds.

        The messages before count as acknowledged.
        """
        feed = self.feed
        if not feed.is_fresh:
            feed.reader.done(feed.offset)
        if (now >= self._next_check or self.state is FeedState.SWITCHING) and self._undecoded is None:
            await self._check(now)
            feed = self.feed
        if self._pending:
            return self._take_pending()
        stored = self._undecoded or await feed.reader.next(timeout)
        if stored is None:
            self._next_check = 0.0
            return []
        if isinstance(feed, ChannelFeed):
            is_closed = not self.skip and self._status is not None and self._status.since != feed.since
            if is_closed or feed.log_decoder.is_restarted_by(stored):
                self._must_leave_channel = True
            if self._must_leave_channel:
                self._undecoded = None
                self._next_check = 0.0
                return []
            self._last_message = now
        try:
            deliveries = feed.log_decoder.receive(stored, now)
        except PeerFault as fault:
            deliveries = await self._decode_again(feed, stored, now, fault)
        self._undecoded = None
        feed.offset, feed.is_fresh = stored.offset, False
        decoder = feed.log_decoder.current
        if decoder.state is not State.READY or stored.offset >= self._entry_offset:
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
            if self._baseline.is_changed_by(feed, decoder, stored.offset):
                batches.append(self._make_state_batch(decoder, stored.offset))
            self._finish_catch_up(self._baseline)
        return batches + self._take_pending() if self._pending else batches

    async def _check(self, now: float) -> None:
        """Start or complete a feed switch if possible, and request missing key frames."""
        self._next_check = now + CHECK_INTERVAL
        status, feed = self._status, self.feed
        if status is not None and self.state is not FeedState.SWITCHING and not self.skip:
            if status.refusal != status.reported_refusal:
                status.report_refusal()
            if isinstance(feed, ChannelFeed):
                await self._check_channel(status, feed, now)
            else:
                await self._check_log(status, feed, now)
        if self._switch is not None:
            await self._complete_switch(self._switch)
        if self._baseline is not None:
            await self._baseline.poll(now)
            self._finish_catch_up(self._baseline)
        if self._previous is not None:
            await self._previous.close()
            self._previous = None
        if any(self.feed.log_decoder.waiting()):
            await self.feed.requests.request_missing(self.feed.log_decoder, now)

    async def _check_log(self, status: ChannelStatus, feed: Feed, now: float) -> None:
        """Enter the channel if there is one and the log was read far enough."""
        await status.retry_failed(now)
        if status.since is not None and self._feed_switch.is_due(feed, status.since, now):
            self._start_switch(self._enter_channel(feed, status.since, now))

    async def _check_channel(self, status: ChannelStatus, feed: ChannelFeed, now: float) -> None:
        """Check a silent channel, and return to the log if the channel was closed.

        A channel that was read to its end covers the log up to the translator's stored offset.
        """
        if self._last_message is None:
            self._last_message = now
        is_silent = now - self._last_message >= MIN_POLL
        stored_offset = await status.poll(now, self._last_message) if is_silent else None
        if stored_offset and not any(feed.log_decoder.waiting()):
            newest = await self._broker.last(feed.selection.log, feed.selection.subjects())
            if newest is None or newest.offset <= feed.offset:
                feed.log_decoder.positions.complete_to(stored_offset)
        if self._must_leave_channel or status.since != feed.since:
            self._start_switch(self._return_to_log(feed))

    def _start_switch(self, opening: Coroutine[Any, Any, Feed | None]) -> None:
        self.state = FeedState.SWITCHING
        self._switch = asyncio.create_task(opening, name=f"feed switch {self._topic.name}")

    async def _complete_switch(self, switch: asyncio.Task[Feed | None]) -> None:
        """Wait for the other feed, and continue with it."""
        try:
            feed = await asyncio.shield(switch)
        finally:
            if switch.done():
                self._switch = None
                self.state = FeedState.CHANNEL if self.is_on_channel else FeedState.LOG
                self._entry_offset = self._feed_switch.entry_offset
        if feed is not None:
            previous, on_channel = self.feed, self.is_on_channel
            self._last_offset = self.offset
            self._previous_counts = _add_counts(self._previous_counts, previous)
            handover = compare_feeds(previous.log_decoder, feed.log_decoder)
            feed.log_decoder.dedup = handover.dedup if handover.dedup else None
            self._pending += [FeedBatch(decoder, events, []) for decoder, events in handover.pending]
            self._previous, self.feed, self._must_leave_channel = previous, feed, False
            self._use(feed)
            if self._baseline is not None:
                self._baseline.start_switch(feed, self._catch_up_target(previous, feed, on_channel))
            for missed in handover.missed:
                self._on_notice(missed)

    def _use(self, feed: Feed) -> None:
        feed.log_decoder.changed_properties = self._changed_properties
        self.state = FeedState.CHANNEL if isinstance(feed, ChannelFeed) else FeedState.LOG
        self._last_message = None

    def _catch_up_target(self, previous: Feed, feed: Feed, on_channel: bool) -> Callable[[], Awaitable[int | None]]:
        if on_channel:
            return partial(_known_offset, self._log_end)
        return partial(self._find_channel_offset, feed, previous.offset)

    async def _find_channel_offset(self, feed: Feed, log_offset: int) -> int | None:
        """Return the end of the channel if it covers the log up to an offset."""
        assert self._status is not None
        stored_offset = await self._status.request_stored_offset()
        if stored_offset is None or stored_offset < log_offset:
            return None
        newest = await self._broker.last(feed.selection.log, feed.selection.subjects())
        return newest.offset if newest is not None else 0

    def _finish_catch_up(self, baseline: ChangeBaseline) -> None:
        if baseline.finish_switch():
            self._pending += map(self._make_state_batch, self.feed.log_decoder.decoders.values())

    def _make_state_batch(self, decoder: StreamDecoder, offset: int = 0) -> FeedBatch:
        state, dedup = decoder.present(), self.feed.log_decoder.dedup
        if dedup is not None:
            dedup.advance(decoder.publisher, state)
        return FeedBatch(decoder, state, [], offset, is_state=True, exactly=self.is_on_channel)

    def _take_pending(self) -> list[FeedBatch]:
        pending, self._pending = self._pending, []
        return pending

    async def _decode_again(self, feed: Feed, stored: StoredMessage, now: float, fault: PeerFault) -> list[Delivery]:
        decoder = feed.log_decoder.decoder_of(stored)

        def report(problem: PeerFault) -> None:
            self._undecoded = None
            self._on_notice(MessageUnreadable(decoder.publisher, stored.offset, str(problem)))

        async def fetch(name: bytes) -> bool:
            # The caller may be cancelled while a definition is fetched, and the broker may be unreachable.
            self._undecoded = stored
            return await self._topic.fetch(name)

        again = partial(feed.log_decoder.decode, stored, now)
        return await resolve_and_retry(decoder, fault, again, fetch, report)

    async def _read_current_state(self) -> list[FeedBatch]:
        """Return the latest event of every source; key frames are requested if the state is not complete."""
        log_decoder = self.feed.log_decoder
        if not log_decoder.decoders or any(log_decoder.waiting()):
            await self.feed.requests.request_all()
        return [FeedBatch(decoder, decoder.present(), []) for decoder in log_decoder.decoders.values()]

    async def _enter_channel(self, feed: Feed, since: int, now: float) -> Feed | None:
        channel = await self._feed_switch.enter_channel(feed, since, now)
        return await self._with_saved_cursor(channel) if channel is not None else None

    async def _return_to_log(self, feed: ChannelFeed) -> Feed | None:
        try:
            found = await self._feed_switch.return_to_log(feed.log_decoder.positions)
        except BrokerUnavailable:
            return None
        if not found.is_complete:
            self._on_notice(RETENTION_LOSS)
        self._log_end = found.end
        return await self._with_saved_cursor(found.feed)

    async def _with_saved_cursor(self, feed: Feed) -> Feed:
        """Return an opened feed after the cursor of the current one was saved."""
        try:
            await self._save_cursor()
        except BaseException:
            await feed.close()
            raise
        return feed

    async def _close_status(self) -> None:
        if self._status is not None:
            await self._status.close()


async def _known_offset(offset: int) -> int | None:
    return offset


def _add_counts(before: dict[str, Counts], feed: Feed) -> dict[str, Counts]:
    """Add the counters of a feed by publisher; the counters themselves where there is nothing to add."""
    current = {name: decoder.counts for name, decoder in feed.log_decoder.decoders.items()}
    if not before:
        return current
    names = [field.name for field in fields(Counts)]
    none = Counts()
    return {
        publisher: Counts(
            **{n: getattr(before.get(publisher, none), n) + getattr(current.get(publisher, none), n) for n in names}
        )
        for publisher in before.keys() | current.keys()
    }
