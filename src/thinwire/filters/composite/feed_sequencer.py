"""What is known of one feed: how far it is complete, what has arrived of each source, and what is worked off."""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import NamedTuple

from thinwire.filters.composite.feed_sequencer_order import Order


class Position(NamedTuple):
    """How far a feed is worked off.

    offset: every reading up to it was looked at, or dropped; None where nothing was read yet
    complete: the watermark that the log told up to there; None where it told none
    """

    offset: int | None = None
    complete: int | None = None


NOWHERE = Position()


class FeedState:
    """The arrivals of one feed.

    Readings are looked at in the order of time, which is not the order of the log: what was looked at ahead of its
    turn is recognised by the number within its source when it is read a second time.
    """

    def __init__(self, at: Position = NOWHERE, settled: Iterable[Order] = ()) -> None:
        self.complete: float = -math.inf if at.complete is None else at.complete
        self.ended = False
        self._settled_complete = at.complete
        self._read = at.offset
        self._last = {order.source: order for order in settled}
        self._open: OrderedDict[int, int] = OrderedDict()
        self._marks: deque[tuple[int, int]] = deque()

    def arrive(self, order: Order, offset: int) -> Order | None:
        """The place in the order of an event that has to be looked at; None where it has been here before."""
        last = self._last.get(order.source)
        if last is not None:
            if order.number <= last.number:
                return None
            order = order._replace(time=max(order.time, last.time))
        self._last[order.source] = order
        self._open[offset] = self._open.get(offset, 0) + 1
        return order

    def settle(self, offset: int) -> None:
        """An event from this place of the log was looked at, or dropped."""
        self._open[offset] -= 1
        if not self._open[offset]:
            del self._open[offset]

    def reach(self, offset: int, complete: int | None) -> None:
        """The log was read up to here, and may say here that it is complete up to a time."""
        self.ended = False
        self._read = offset if self._read is None else max(self._read, offset)
        if complete is not None and complete > self.complete:
            self.complete = complete
            self._marks.append((offset, complete))

    @property
    def position(self) -> Position:
        """Everything up to here is settled. The watermark is the one of that place too: of a later one, a successor
        would believe that what it has not read again yet does not exist."""
        low = next(iter(self._open)) - 1 if self._open else self._read
        while self._marks and low is not None and self._marks[0][0] <= low:
            self._settled_complete = self._marks.popleft()[1]
        return Position(low, self._settled_complete)
