"""The first feed of a subscription: the channel or the log, at the start position or at the stored cursor."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from thinwire.client.channel_status import ChannelStatus
from thinwire.client.cursor import ChannelCursor, Cursor
from thinwire.client.feed import Feed
from thinwire.client.feed_switch import MAX_SEEK, FeedSwitch
from thinwire.client.notices import Notice
from thinwire.codec import EventsMissed
from thinwire.errors import ThinwireError
from thinwire.topics.delivery_dedup import DeliveryDedup
from thinwire.topics.demand_class import DemandClass
from thinwire.topics.topic_metadata import TopicMetadata

RETENTION_LOSS = EventsMissed("", None, None, None, "retention")


class StartPosition(NamedTuple):
    """The first log offset of a subscription; is_new: it starts now, without a cursor."""

    first: int
    is_new: bool
    cursor: Cursor | None = None


class FirstFeed(NamedTuple):
    """An open feed; skip: events of its first message that were acknowledged before the last stop."""

    feed: Feed
    skip: int


async def open_first_feed(
    feed_switch: FeedSwitch,
    status: ChannelStatus | None,
    demand: DemandClass,
    start: StartPosition,
    on_notice: Callable[[Notice], None],
) -> FirstFeed:
    """Open the feed of a subscription that starts.

    status: of the channel of its demand class; None if it reads the log only
    """
    cursor = start.cursor
    if cursor is not None and cursor.channel is not None:
        return await _resume(feed_switch, status, demand, cursor, cursor.channel, on_notice)
    # A channel of matching events does not contain the current state of sources: it is read from the log.
    if start.is_new and demand.where is None and status is not None and status.since is not None:
        channel = await feed_switch.open_channel_at_end(start.first - 1, status.since)
        if channel is not None:
            return FirstFeed(channel, 0)
    feed = await feed_switch.open_log(start.first, MAX_SEEK if start.is_new else None)
    if cursor is None:
        return FirstFeed(feed, 0)
    if cursor.delivered:
        feed.log_decoder.dedup = DeliveryDedup(cursor.delivered)
    return FirstFeed(feed, cursor.within)


async def _resume(
    feed_switch: FeedSwitch,
    status: ChannelStatus | None,
    demand: DemandClass,
    cursor: Cursor,
    position: ChannelCursor,
    on_notice: Callable[[Notice], None],
) -> FirstFeed:
    """Open the channel at a stored position, or the log if the channel no longer has it."""
    channel = await feed_switch.resume_channel(position) if position.class_id == demand.id else None
    if channel is not None and status is not None:
        channel.log_decoder.dedup = DeliveryDedup(cursor.delivered)
        return FirstFeed(channel, position.within)
    found = await feed_switch.return_to_log(position.all_positions)
    if not found.is_complete or (demand.emit == "all" and demand.where is None):
        # Events that the channel suppressed and had not delivered yet are lost with its state.
        on_notice(RETENTION_LOSS)
    found.feed.log_decoder.dedup = DeliveryDedup(cursor.delivered, found.ahead)
    return FirstFeed(found.feed, 0)


async def needs_channel(topic: TopicMetadata, demand: DemandClass) -> bool:
    """Report whether a demand differs from the log; the translator decides by the same rule."""
    config = await topic.configuration()
    if config is None or not config.wanted or config.demand.min_interval:
        return False
    try:
        return not demand.is_log(topic.wire_schema, config.demand)
    except ThinwireError:
        return False
