"""What a subscription reads from: the log of a topic, or the channel of its class. Both give the same events.

When a new feed has come as far as the one before it: then what it holds of every source is the one to go by.

A subscriber that asks for changes has, of every source, the value that passed last. A log and a channel count changes
from values of their own. All of these are within the tolerance of the truth, but not on the same side of it. So who
goes over must have the new feed's values where they count as changes; and not before they are the newest.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from thinwire.brokers.protocol import Broker, LogReader, Stored
from thinwire.client.channel_status import ChannelStatus
from thinwire.client.cursor import ChannelPlace, Cursor
from thinwire.client.delivery_dedup import DeliveredEvents, DeliveryDedup
from thinwire.topics.log_decoder import ChannelDecoder, ChannelRequests, KeyFrameRequests, LogDecoder
from thinwire.topics.log_position import LogSelection, Positions
from thinwire.topics.log_seek import seek_decoders
from thinwire.topics.topic import TopicMetadata

MAX_KEPT = 1_000
"""sources whose last event is kept in a cursor, where they were told further than its place"""


class Asker(Protocol):
    """Asks for key frames."""

    async def request_all(self) -> None: ...

    async def ask(self, log_decoder: LogDecoder, now: float) -> None: ...


class Feed:
    """A place in a log, the links that know what came before it, and the reader of what comes after.

    offset: of the last message received, or the one before the place; fresh: has none been received yet?
    """

    def __init__(self, broker: Broker, track: LogSelection, log_decoder: LogDecoder, requests: Asker) -> None:
        self.track = track
        self.log_decoder = log_decoder
        self.requests = requests
        self.offset = 0
        self.fresh = True
        self._broker = broker
        self._reader: LogReader | None = None

    @property
    def log_offset(self) -> int | None:
        """The place in the log of the topic that the events received last came from; None before the first."""
        return None if self.fresh else self.offset

    async def seek(self, place: int, learn: Callable[[bytes], Awaitable[bool]], furthest: int | None) -> None:
        """Bring the links to a place, reading at most so many messages."""
        self.log_decoder = await seek_decoders(
            self._broker, self.track, place, self.log_decoder, learn=learn, furthest=furthest
        )
        self.log_decoder.offset = self.offset = place - 1

    async def open(self, limit: int) -> None:
        """Read what comes after the place, at most so many messages ahead."""
        subjects = [self.track.subjects()]
        self._reader = await self._broker.read(self.track.log, first=self.offset + 1, subjects=subjects, limit=limit)

    async def next(self, timeout: float) -> Stored | None:
        """The next message; None when none came within so many seconds."""
        assert self._reader is not None
        return await self._reader.next(timeout)

    def took(self, stored: Stored) -> None:
        """A message was received, and what it brings counts."""
        self.offset, self.fresh = stored.offset, False

    def done(self) -> None:
        """Everything received is worked off."""
        assert self._reader is not None
        self._reader.done(self.offset)

    async def close(self) -> None:
        if self._reader is not None:
            await self._reader.close()

    def cursor(self, floor: DeliveryDedup, within: int | None = None) -> Cursor:
        """Where to go on after the end: behind the last message, or behind so many of its events."""
        if within is None:
            return Cursor(self.offset, 0, None, _kept(floor))
        return Cursor(self.offset - 1, within, None, _kept(floor.before(self.offset)))


class ChannelFeed(Feed):
    """The channel of a class.

    since: the input offset after which its translator tells everything; another one means that it began anew
    """

    log_decoder: ChannelDecoder
    requests: ChannelRequests

    def __init__(self, broker: Broker, track: LogSelection, log_decoder: ChannelDecoder, since: int) -> None:
        super().__init__(broker, track, log_decoder, ChannelRequests(broker, track.topic, track.class_id))
        self.since = since
        self._began = log_decoder.positions.since

    @property
    def log_offset(self) -> int | None:
        """The place in the log that the channel has told up to."""
        told, complete = self.log_decoder.told, self.log_decoder.positions.since
        if told is None or self.fresh:
            return complete if complete > self._began else None
        return max(told.offset, complete)

    def cursor(self, floor: DeliveryDedup, within: int | None = None) -> Cursor:
        """Where to go on after the end. Events that were handed out from the log may lie behind the place; while they
        are too many to be named, the place is still the one in the log where the channel began."""
        positions, offset = self.log_decoder.positions, self.offset
        if within is not None:
            floor, offset = floor.before(offset), offset - 1
            positions = (
                positions.instead(*self.log_decoder.before) if self.log_decoder.before is not None else positions
            )
        if len(floor) > MAX_KEPT:
            return Cursor(self._began)
        told = positions.since, positions.by_publisher
        place = ChannelPlace(self.track.class_id, self.since, offset, within or 0, *told)
        return Cursor(positions.lowest, 0, place, _kept(floor))


def log_feed(broker: Broker, view: TopicMetadata, *, only_changes: bool) -> Feed:
    """The log of a topic."""
    log_decoder = LogDecoder(view.lookup, dictionaries=view.dictionary, only_changes=only_changes)
    return Feed(broker, LogSelection(view.name), log_decoder, KeyFrameRequests(broker, view.name))


def channel_feed(
    broker: Broker, view: TopicMetadata, class_id: str, positions: Positions, since: int, *, only_changes: bool
) -> ChannelFeed:
    """The channel of a class; positions: how far each publisher was told before it."""
    known = view.dictionary
    log_decoder = ChannelDecoder(view.lookup, dictionaries=known, only_changes=only_changes, positions=positions)
    return ChannelFeed(broker, LogSelection(view.name, class_id), log_decoder, since)


def _kept(floor: DeliveryDedup) -> DeliveredEvents | None:
    """What of a floor goes into a cursor; where it is too much, events may come again."""
    if not floor.told or len(floor) > MAX_KEPT:
        return None
    return {publisher: dict(sources) for publisher, sources in floor.told.items()}


AGAIN = 0.1
"""seconds between two questions to the translator"""


class LogCatchUp:
    """The log has come as far as it reached when the channel was left: to offset `until`."""

    def __init__(self, feed: Feed, until: int) -> None:
        self._feed = feed
        self._until = until

    @property
    def over(self) -> bool:
        """Has it?"""
        return self._feed.offset >= self._until

    async def ask(self, now: float) -> None:
        """Nobody has to be asked."""


class ChannelCatchUp:
    """The channel has told what the log had told up to offset `reached`: its translator says so."""

    def __init__(self, broker: Broker, serving: ChannelStatus, feed: ChannelFeed, reached: int) -> None:
        self._broker = broker
        self._serving = serving
        self._feed = feed
        self._reached = reached
        self._until: int | None = None
        self._next = 0.0

    @property
    def over(self) -> bool:
        """Has it, and has all that been received?"""
        return self._until is not None and self._feed.offset >= self._until

    async def ask(self, now: float) -> None:
        """Ask how far everything is told, now and then."""
        if self._until is None and now >= self._next:
            self._next = now + AGAIN
            stored = await self._serving.ask()
            if stored is not None and stored >= self._reached:
                newest = await self._broker.last(self._feed.track.log, self._feed.track.subjects())
                self._until = newest.offset if newest is not None else 0


Settling = LogCatchUp | ChannelCatchUp
