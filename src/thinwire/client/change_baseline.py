"""Decides when a subscription with `emit="changes"` must compare the state of a feed with the events delivered last.

The subscriber holds the last delivered value of each source. The log and each channel suppress values relative to the
value that they sent last. All of these are within the tolerance of the true value, but they differ. After a feed switch
the values of the new feed therefore become the base of comparison, once it has reached the position of the old one.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping

from thinwire.client.feed import ChannelFeed, Feed
from thinwire.codec import StreamDecoder

RETRY = 0.1
"""seconds between two requests to the translator"""


class ChangeBaseline:
    """Decides when the state of publishers must be compared with the events delivered last.

    has_predicate: a channel contains every event that matches, so that its values need no comparison
    """

    def __init__(self, *, has_predicate: bool) -> None:
        self._has_predicate = has_predicate
        self._behind: Feed | None = None
        """a feed that has not reached the position of the previous one"""
        self._find_target: Callable[[], Awaitable[int | None]]
        self._target: int | None = None
        self._retry_at = 0.0
        self._bounds: dict[str, Mapping[str, float | None]] = {}
        self._last_log_offsets: dict[str, int] = {}

    def start_switch(self, feed: Feed, find_target: Callable[[], Awaitable[int | None]]) -> None:
        """Begin to read another feed.

        find_target: returns the offset of the feed that corresponds to the position of the previous one; None while it
            is unknown
        """
        self._bounds.clear()
        self._behind = None if self._has_predicate and isinstance(feed, ChannelFeed) else feed
        self._find_target, self._target, self._retry_at = find_target, None, 0.0

    async def poll(self, now: float) -> None:
        """Request the target offset, at a limited rate."""
        if self._behind is not None and self._target is None and now >= self._retry_at:
            self._retry_at = now + RETRY
            self._target = await self._find_target()

    def try_finish_switch(self) -> bool:
        """Finish the switch if the feed has reached the position of the previous one. Return True once it has."""
        if self._behind is None or self._target is None or self._behind.offset < self._target:
            return False
        self._behind = None
        self._last_log_offsets.clear()
        return True

    def needs_comparison_after(self, feed: Feed, decoder: StreamDecoder, offset: int) -> bool:
        """Record a message. Return whether the state of its publisher must be compared now.

        In the log: the bounds have changed, so that a value within the old one may be outside of the new one. In a
        channel: the channel has reached the last offset read from the log, or another translator continues it.
        """
        publisher, before = decoder.publisher, self._bounds.get(decoder.publisher)
        self._bounds[publisher] = decoder.bound
        is_settled = self._behind is None
        if not isinstance(feed, ChannelFeed):
            self._last_log_offsets[publisher] = offset
            return before is not None and before is not decoder.bound and is_settled
        if self._has_predicate:
            return False
        reached = feed.log_decoder.positions.of(publisher).offset
        if not is_settled and reached >= self._last_log_offsets.get(publisher, math.inf):
            del self._last_log_offsets[publisher]
            return True
        return feed.log_decoder.confirm_successor(publisher) and is_settled
