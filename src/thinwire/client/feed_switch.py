"""Going over from the log to a channel and back, at a place from which nothing is lost.

Log to channel. A translator can only tell of what is in the log. So the end of the channels is looked up first and the
end of the log after it: once a subscription has read the log up to that end, whatever its channel told up to the other
is known, and it goes on in the channel from there. No clock is asked, and none has to agree with another.

Channel to log. Every message of a channel says up to where in the log it tells. The log is read from the first message
that some publisher's channel has not told; what others were told further is recognised by its numbers.
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from thinwire.brokers.protocol import Broker
from thinwire.client.cursor import ChannelPlace
from thinwire.client.feed import ChannelFeed, Feed, channel_feed, log_feed
from thinwire.codec import State
from thinwire.errors import BrokerUnavailable, UnknownLog
from thinwire.topics.demand_class import DemandClass
from thinwire.topics.log_position import ChannelPosition, LogSelection, Positions
from thinwire.topics.log_seek import SILENT
from thinwire.topics.names import publisher_in
from thinwire.topics.topic import TopicMetadata

NEARBY = 4096
"""messages that a new subscriber reads to know where everything stands; beyond that it asks for key frames"""
AGAIN, RARELY = 0.5, 8.0
"""seconds between two attempts to go over to a channel: at first, and when they keep failing"""


class Ends(NamedTuple):
    """Where the channels of a topic and its log ended, looked up in this order; since: of the channel at that time."""

    channels: int
    log: int
    since: int


class InTheLog(NamedTuple):
    """A place in the log.

    kept: does the log still reach back that far? end: where the log ended; ahead: who was told further than the place
    """

    feed: Feed
    kept: bool
    end: int
    ahead: dict[str, ChannelPosition]


class FeedSwitch:
    """The ways between the log of a topic and the channel of a class, for one subscription.

    limit: messages that it reads ahead, at most
    """

    def __init__(self, broker: Broker, view: TopicMetadata, demand: DemandClass, limit: int) -> None:
        self._broker = broker
        self._view = view
        self._demand = demand
        self._limit = limit
        self._log = LogSelection(view.name)
        self._channel = LogSelection(view.name, demand.id)
        self._ends: Ends | None = None
        self._next, self._pause = 0.0, AGAIN

    async def log(self, place: int, furthest: int | None = None) -> Feed:
        """The log, from a place on."""
        feed = log_feed(self._broker, self._view, only_changes=self._demand.emit == "changes")
        await feed.seek(place, self._view.learn, furthest)
        await feed.open(self._limit)
        return feed

    async def channel(self, place: int, positions: Positions, since: int, furthest: int | None = None) -> ChannelFeed:
        """The channel of the class, from a place on, its links as far as they could be brought there."""
        # what a class with a predicate is not told of did not match, so nobody wants to see it either
        only_changes = self._demand.emit == "changes" or self._demand.where is not None
        feed = channel_feed(self._broker, self._view, self._demand.id, positions, since, only_changes=only_changes)
        await feed.seek(place, self._view.learn, furthest)
        return feed

    async def newest(self, log_end: int, since: int) -> ChannelFeed | None:
        """The channel from now on, for a subscription that begins at the end of the log; None where there is none."""
        with suppress(UnknownLog):
            end = (await self._broker.span(self._channel.log)).last
            feed = await self.channel(end + 1, Positions(log_end), since, NEARBY)
            await feed.open(self._limit)
            return feed
        return None

    def is_due(self, feed: Feed, since: int, now: float) -> bool:
        """Is it time to try the way from the log to the channel?"""
        ends = self._ends
        if ends is None or ends.since != since:
            return now >= self._next
        return feed.offset >= ends.log

    async def to_channel(self, feed: Feed, since: int, now: float) -> ChannelFeed | None:
        """The channel, at a place up to which the log has been read; None where it is not time yet."""
        ends, self._ends = self._ends, None
        if ends is None or ends.since != since:
            ends = await self._look(feed.offset, since)
            self._next = now + AGAIN
        if ends is None or feed.offset < ends.log:
            self._ends = ends
            return None
        with suppress(BrokerUnavailable, UnknownLog):
            found = await self.channel(ends.channels + 1, Positions(feed.offset), since, NEARBY)
            if await self._knows_all(found, feed):
                await found.open(self._limit)
                self._pause = AGAIN
                return found
        self._pause = min(2 * self._pause, RARELY)
        self._next = now + self._pause
        return None

    async def to_log(self, positions: Positions) -> InTheLog:
        """The log, from the first message on that some publisher's channel has not told."""
        span = await self._broker.span(self._log.log)
        told = {publisher: positions.of(publisher) for publisher in await self._publishers()}
        untold = [at.offset for publisher, at in told.items() if await self._last(publisher, span.last) > at.offset]
        place = min(untold, default=span.last) + 1
        feed = await self.log(max(place, span.first))
        ahead = {publisher: at for publisher, at in told.items() if at > (feed.offset, 0)}
        return InTheLog(feed, place >= span.first, span.last, ahead)

    async def again(self, place: ChannelPlace) -> ChannelFeed | None:
        """The channel where somebody stopped reading it; None where it is no longer kept."""
        with suppress(UnknownLog):
            span = await self._broker.span(self._channel.log)
            if span.first <= place.offset + 1 <= span.last + 1:
                feed = await self.channel(place.offset + 1, place.all_positions, place.opened)
                absent = place.positions.keys() - feed.log_decoder.links.keys()
                if not any(feed.log_decoder.lost()) and all([await self._is_silent(name, place) for name in absent]):
                    await feed.open(self._limit)
                    return feed
        return None

    async def _look(self, offset: int, since: int) -> Ends | None:
        """Where everything ends now, if the log has been read nearly so far."""
        with suppress(BrokerUnavailable, UnknownLog):
            channels = (await self._broker.span(self._channel.log)).last
            log = (await self._broker.span(self._log.log)).last
            return Ends(channels, log, since) if log - offset <= self._limit else None
        return None

    async def _knows_all(self, found: ChannelFeed, feed: Feed) -> bool:
        """Does the channel tell of everybody that the log told of? It is asked for those who are missing."""
        complete = True
        for publisher, link in feed.log_decoder.links.items():
            ready = link.state is State.READY
            known = await self._has_state_of(found, publisher)
            if ready and known and link.incarnation == found.log_decoder.link(publisher).incarnation:
                continue
            if not await self._is_over(publisher):
                complete = False
                if not known:
                    await found.requests.ask_for(publisher)
        return complete

    async def _has_state_of(self, found: ChannelFeed, publisher: str) -> bool:
        """Has the channel, since it was opened, told where this publisher stands?"""
        link = found.log_decoder.links.get(publisher)
        if link is None or link.state is not State.READY:
            return False
        return found.log_decoder.positions.of(publisher).offset >= await self._last(publisher, found.since)

    async def _is_over(self, publisher: str) -> bool:
        """Has this publisher said nothing for so long that nobody waits for it?"""
        newest = await self._broker.last(self._log.log, self._log.subjects())
        last = await self._broker.last(self._log.log, self._log.subjects(publisher))
        return newest is None or last is None or last.time < newest.time - SILENT

    async def _is_silent(self, publisher: str, place: ChannelPlace) -> bool:
        """Has the channel told nothing of this publisher after a place?"""
        last = await self._broker.last(self._channel.log, self._channel.subjects(publisher))
        return last is not None and last.offset <= place.offset

    async def _publishers(self) -> set[str]:
        return {publisher_in(subject) for subject in await self._broker.subjects(self._log.log, self._log.subjects())}

    async def _last(self, publisher: str, up_to: int) -> int:
        """The offset of a publisher's last message, 0 where there is none."""
        stored = await self._broker.last(self._log.log, self._log.subjects(publisher), up_to=up_to)
        return stored.offset if stored is not None else 0
