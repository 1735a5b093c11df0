"""What a subscription reads, feed after feed: the log of its topic, or the channel of its class where there is one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import fields
from typing import NamedTuple

from thinwire.brokers.protocol import Broker, Stored
from thinwire.client.channel_status import ChannelStatus
from thinwire.client.cursor import ChannelPlace, Cursor
from thinwire.client.delivery_dedup import DeliveryDedup
from thinwire.client.event_pipeline import EventPipeline
from thinwire.client.feed import ChannelCatchUp, ChannelFeed, Feed, LogCatchUp, Settling
from thinwire.client.feed_switch import NEARBY, FeedSwitch
from thinwire.client.notices import Notice
from thinwire.client.subscription_request import SubscriptionRequest
from thinwire.clock import Clock
from thinwire.codec import Counts, EventsMissed
from thinwire.errors import BrokerUnavailable, ThinwireError
from thinwire.schema import Event, Schema
from thinwire.topics.demand_class import DemandClass
from thinwire.topics.topic import TopicMetadata


class StartPosition(NamedTuple):
    """Where a subscription begins: an offset of the log, whether it is new and begins now, and what it worked off."""

    first: int
    begins: bool
    cursor: Cursor | None = None


class FeedReader:
    """The feed that is read now, and going over to another when there is a better one.

    demand: the class of the subscription; reader: the schema to read events as
    tell: called with what is told beside events; keep: called to note what is worked off, before a feed is left
    """

    def __init__(
        self,
        broker: Broker,
        clock: Clock,
        view: TopicMetadata,
        asked: SubscriptionRequest,
        demand: DemandClass,
        *,
        reader: Schema | None,
        limit: int,
        tell: Callable[[Notice], None],
        keep: Callable[[], Awaitable[None]],
    ) -> None:
        self.skip = 0
        self._broker = broker
        self._clock = clock
        self._view = view
        self._asked = asked
        self._demand = demand
        self._reader = reader
        self._tell = tell
        self._keep = keep
        self._feed_switch = FeedSwitch(broker, view, demand, limit)
        self._serving: ChannelStatus | None = None
        self._before: dict[str, Counts] = {}
        self._preparing: asyncio.Task[Feed | None] | None = None
        self._left: Feed | None = None
        self._broken_off = False
        self._catch_up: Settling | None = None
        self._log_end = 0
        self.feed: Feed
        self.intake: EventPipeline

    async def begin(self, place: StartPosition) -> None:
        """Find out how the class is served, and begin to read."""
        if self._view.managed and (self._reader is None or self._reader.fingerprint.hex() == self._view.current):
            self._view.know_class(self._demand)
            self._serving = ChannelStatus(self._broker, self._view.name, self._demand.id, self._tell)
        try:
            if self._serving is not None:
                await self._serving.open()
                await self._serving.wait_until_known(needed=await self._needs_channel())
            self.feed, floor = await self._first(place)
        except BaseException:
            await self._end_serving()
            raise
        given = self._view, self._asked, self._demand, self._reader, self._tell
        self.intake = EventPipeline(*given, self.feed.log_decoder, floor)

    async def close(self) -> None:
        """Read no more."""
        await self._end_serving()
        feeds = [self.feed, self._left]
        if self._preparing is not None:
            self._preparing.cancel()
            (found,) = await asyncio.gather(self._preparing, return_exceptions=True)
            feeds.append(found if isinstance(found, Feed) else None)
        for feed in feeds:
            if feed is not None:
                await feed.close()

    async def _end_serving(self) -> None:
        if self._serving is not None:
            await self._serving.close()

    @property
    def on_channel(self) -> bool:
        """Is a channel read, and not the log?"""
        return isinstance(self.feed, ChannelFeed)

    @property
    def counts(self) -> dict[str, Counts]:
        """What each publisher's links have done so far, on all feeds."""
        return _together(self._before, {name: link.counts for name, link in self.intake.log_decoder.links.items()})

    def cursor(self, within: int | None = None) -> Cursor:
        """Where to go on after the end: behind the last message, or behind so many of its events."""
        return self.feed.cursor(self.intake.floor, within)

    async def next(self, timeout: float) -> tuple[Stored | None, list[Event]]:
        """The next message and its events; None when none came within so many seconds."""
        stored = self.intake.unread or await self.feed.next(timeout)
        if stored is None or self._is_left_behind(stored):
            return None, []
        if self._serving is not None:
            self._serving.on_channel_message()
        events = await self.intake.take(stored, self._clock.now())
        self.feed.took(stored)
        self._finish_switch()
        return stored, [*events, *await self.intake.take_pending()]

    async def ask_for_the_lost(self, now: float) -> None:
        """Ask for key frames where links do not know where they are."""
        await self.feed.requests.ask(self.intake.log_decoder, now)

    async def deliver_current_state(self) -> list[Event]:
        """A subscriber that begins now first hears of every source, from what is kept or from who tells of it."""
        log_decoder = self.intake.log_decoder
        if not log_decoder.links or any(log_decoder.lost()):
            await self.feed.requests.request_all()
        return await self.intake.present()

    async def switch_feed(self, now: float) -> list[Event]:
        """Read what serves best from now on. The events that the feed before had still to say.

        Whoever asks for events may lose patience at any moment. So another feed is prepared beside, and then taken in
        one step; what is left to do after it waits for the next call.
        """
        serving = self._serving
        if self.intake.unread is not None:
            return []
        if serving is not None and self._preparing is None and not self.skip:
            serving.complain()
            if isinstance(self.feed, ChannelFeed):
                await self._watch(serving, self.feed, now)
                if self._broken_off or not self._is_channel_current(serving, self.feed):
                    self._preparing = asyncio.create_task(self._to_log(self.feed))
            else:
                await serving.refresh(now)
                if serving.has_channel and self._feed_switch.is_due(self.feed, serving.since, now):
                    self._preparing = asyncio.create_task(self._to_channel(self.feed, serving.since, now))
        if self._preparing is not None:
            await self._take(self._preparing)
        if self._catch_up is not None:
            await self._catch_up.ask(now)
            self._finish_switch()
        if self._left is not None:
            await self._left.close()
            self._left = None
        return await self.intake.take_pending()

    async def _first(self, place: StartPosition) -> tuple[Feed, DeliveryDedup]:
        cursor = place.cursor
        if cursor is not None and cursor.channel is not None:
            return await self._resume(cursor, cursor.channel)
        self.skip = cursor.within if cursor is not None else 0
        # a channel of matching events does not say who matches now: that is read from the log
        newest_tells = self._demand.where is None
        if place.begins and newest_tells and self._serving is not None and self._serving.has_channel:
            newest = await self._feed_switch.newest(place.first - 1, self._serving.since)
            if newest is not None:
                return newest, DeliveryDedup()
        feed = await self._feed_switch.log(place.first, NEARBY if place.begins else None)
        return feed, DeliveryDedup(cursor.told if cursor is not None else None)

    async def _resume(self, cursor: Cursor, place: ChannelPlace) -> tuple[Feed, DeliveryDedup]:
        """Go on in a channel where it stopped, or where it is no longer kept, in the log."""
        feed = await self._feed_switch.again(place) if place.class_id == self._demand.id else None
        if feed is not None and self._serving is not None:
            self.skip = place.within
            return feed, DeliveryDedup(cursor.told)
        found = await self._feed_switch.to_log(place.all_positions)
        if not found.kept or (self._asked.emit == "all" and self._asked.where is None):
            # what the channel had passed over in silence, and not told yet, nobody knows any more
            self._tell(EventsMissed("", None, None, None, "retention"))
        return found.feed, DeliveryDedup(cursor.told, found.ahead)

    async def _to_channel(self, feed: Feed, since: int, now: float) -> Feed | None:
        found = await self._feed_switch.to_channel(feed, since, now)
        return await self._noted(found) if found is not None else None

    async def _to_log(self, feed: ChannelFeed) -> Feed | None:
        try:
            found = await self._feed_switch.to_log(feed.log_decoder.positions)
        except BrokerUnavailable:
            return None
        if not found.kept:
            self._tell(EventsMissed("", None, None, None, "retention"))
        self._log_end = found.end
        return await self._noted(found.feed)

    async def _noted(self, feed: Feed) -> Feed:
        """A feed to go over to, once it is noted what was worked off of the present one."""
        try:
            await self._keep()
        except BaseException:
            await feed.close()
            raise
        return feed

    def _is_left_behind(self, stored: Stored) -> bool:
        """Is this from a channel that ended, or began anew, while it was waited for?"""
        if self._serving is not None and isinstance(self.feed, ChannelFeed):
            tells = self.skip or self._is_channel_current(self._serving, self.feed)
            self._broken_off = not tells or self.feed.log_decoder.leaps(stored)
        return self._broken_off

    def _is_channel_current(self, serving: ChannelStatus, feed: ChannelFeed) -> bool:
        return serving.has_channel and serving.since == feed.since

    async def _take(self, preparing: asyncio.Task[Feed | None]) -> None:
        """Wait for a feed, and go on with it."""
        try:
            feed = await asyncio.shield(preparing)
        finally:
            if preparing.done():
                self._preparing = None
        if feed is not None:
            left, self.feed = self.feed, feed
            self._left, self._broken_off = left, False
            self._before = _together(self._before, {name: link.counts for name, link in left.log_decoder.links.items()})
            self.intake.switch_decoder(feed.log_decoder)
            if self._asked.emit == "changes":
                by_changes = self._asked.where is None or not self.on_channel
                self._catch_up = self._settled_when(left, feed) if by_changes else None
                self.intake.settled = self._catch_up is None

    def _finish_switch(self) -> None:
        if self._catch_up is not None and self._catch_up.over:
            self._catch_up = None
            self.intake.finish_switch()

    def _settled_when(self, left: Feed, feed: Feed) -> Settling:
        if isinstance(feed, ChannelFeed):
            assert self._serving is not None
            return ChannelCatchUp(self._broker, self._serving, feed, left.offset)
        return LogCatchUp(feed, self._log_end)

    async def _watch(self, serving: ChannelStatus, feed: ChannelFeed, now: float) -> None:
        """Where a channel is silent: is its translator there, and has it nothing more to say?"""
        complete = await serving.look(now)
        if complete and not any(feed.log_decoder.lost()):
            newest = await self._broker.last(feed.track.log, feed.track.subjects())
            if newest is None or newest.offset <= feed.offset:
                feed.log_decoder.positions.complete_to(complete)

    async def _needs_channel(self) -> bool:
        """Does the class ask for something that the log is not? Its translator comes to the same conclusion."""
        config = await self._view.configuration()
        if config is None or not config.wanted or config.demand.min_interval:
            return False
        try:
            return not self._demand.is_log(self._view.travelling, config.demand)
        except ThinwireError:
            return False


def _together(before: dict[str, Counts], now: dict[str, Counts]) -> dict[str, Counts]:
    """The sums of what was counted, by publisher; the very counts where there is nothing to add."""
    if not before:
        return now
    names = [field.name for field in fields(Counts)]
    return {
        name: Counts(
            **{field: getattr(before.get(name, _NONE), field) + getattr(now.get(name, _NONE), field) for field in names}
        )
        for name in before.keys() | now.keys()
    }


_NONE = Counts()
