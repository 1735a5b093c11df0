"""When a new feed has come as far as the one before it: then what it holds of every source is the one to go by.

A subscriber that asks for changes has, of every source, the value that passed last. A log and a channel count changes
from values of their own. All of these are within the tolerance of the truth, but not on the same side of it. So who
goes over must have the new feed's values where they count as changes; and not before they are the newest.
"""

from __future__ import annotations

from thinwire.brokers.protocol_broker import Broker
from thinwire.client.channel_status import Serving
from thinwire.client.feed import ChannelFeed, Feed

AGAIN = 0.1
"""seconds between two questions to the translator"""


class InLog:
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


class InChannel:
    """The channel has told what the log had told up to offset `reached`: its translator says so."""

    def __init__(self, broker: Broker, serving: Serving, feed: ChannelFeed, reached: int) -> None:
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


Settling = InLog | InChannel
