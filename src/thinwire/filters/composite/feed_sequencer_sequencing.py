"""Many feeds into one order, closed by watermarks.

Each feed tells in its own log up to which time it is complete. A reading is released when every feed is complete up to
its time, or when it has waited for `max_delay` seconds, and with it all that come before it in the order. What comes
behind something that was released and should have come before it is *late*.

Clocks may go backwards. The number that a publisher gives to the events of a source decides which is newer, and an
event counts no earlier than the one before it of the same source.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from heapq import heappop, heappush
from typing import Literal, NamedTuple

from thinwire.errors import ConfigError
from thinwire.filters.composite.feed_sequencer import FeedState, Position
from thinwire.filters.composite.feed_sequencer_order import Entry, Feed, Order, Reading

MAX_WAITING = 65_536
"""readings that wait at once; the first in order is released when there are more"""

LatePolicy = Literal["apply", "drop"]


class Released(NamedTuple):
    """Readings to be looked at together: one, or all of one time."""

    readings: tuple[Reading, ...]
    late: bool


class Sequencer:
    """Takes entries as they arrive, gives their readings in order.

    max_delay: seconds that a reading waits at most; infinity to wait for every feed
    late_policy: "apply": a late reading is released at once, flagged; "drop": it is counted and forgotten
    ticks: release all readings of one time together
    frontier, positions, settled: where a predecessor was
    """

    def __init__(
        self,
        max_delay: float = math.inf,
        late_policy: LatePolicy = "apply",
        ticks: bool = False,
        frontier: Order | None = None,
        positions: Mapping[Feed, Position] | None = None,
        settled: Iterable[Order] = (),
    ) -> None:
        _check(max_delay, late_policy)
        self.max_delay = max_delay
        self.late_policy = late_policy
        self.ticks = ticks
        self.frontier = frontier
        self.dropped = 0
        orders = list(settled)
        self._feeds = {
            feed: FeedState(position, (order for order in orders if order.feed == feed))
            for feed, position in (positions or {}).items()
        }
        self._waiting: list[tuple[Order, int, Reading]] = []
        self._late: deque[tuple[int, Reading]] = deque()
        self._arrived: deque[tuple[float, Order]] = deque()
        self._overdue: Order | None = None

    def expect(self, feeds: Iterable[Feed]) -> None:
        """Wait for these feeds too, from now on."""
        for feed in feeds:
            self._feeds.setdefault(feed, FeedState())

    def forget(self, feed: Feed) -> None:
        """Wait for a feed no longer, until it speaks again. What it told is still looked at."""
        if feed in self._feeds:
            self._feeds[feed].ended = True

    def offer(self, entry: Entry, now: float) -> None:
        """A message of a log arrives; readings that were there before are passed over."""
        feed = self._feeds.setdefault(entry.feed, FeedState())
        for reading in entry.readings:
            order = feed.arrive(reading.order, entry.offset)
            if order is not None:
                self._take(Reading(order, reading.values), entry.offset, now)
        feed.reach(entry.offset, entry.complete)

    def released(self, now: float) -> Iterator[Released]:
        """What can be looked at now, one at a time: positions are right behind each."""
        while self._late:
            offset, reading = self._late.popleft()
            self._feeds[reading.order.feed].settle(offset)
            yield Released((reading,), late=True)
        self._let_go(now)
        closed = min((feed.complete for feed in self._feeds.values() if not feed.ended), default=math.inf)
        while self._waiting and self._may_go(self._waiting[0][0], closed):
            yield Released(self._pop(), late=False)

    @property
    def deadline(self) -> float | None:
        """When the reading that has waited longest is released, whatever happens; None where nothing waits."""
        self._forget_gone()
        return self._arrived[0][0] + self.max_delay if self._arrived else None

    def positions(self) -> dict[Feed, Position]:
        """Where a successor begins to read each feed again."""
        return {feed: state.position for feed, state in self._feeds.items()}

    def _take(self, reading: Reading, offset: int, now: float) -> None:
        if not self._is_late(reading.order):
            heappush(self._waiting, (reading.order, offset, reading))
            self._arrived.append((now, reading.order))
        elif self.late_policy == "apply":
            self._late.append((offset, reading))
        else:
            self.dropped += 1
            self._feeds[reading.order.feed].settle(offset)

    def _is_late(self, order: Order) -> bool:
        if self.frontier is None:
            return False
        return order.time <= self.frontier.time if self.ticks else order < self.frontier

    def _may_go(self, order: Order, closed: float) -> bool:
        overdue = self._overdue is not None and order <= self._overdue
        return order.time <= closed or overdue or len(self._waiting) > MAX_WAITING

    def _pop(self) -> tuple[Reading, ...]:
        """The first in order, and with `ticks` all of its time; the frontier goes with them."""
        taken = [heappop(self._waiting)]
        while self.ticks and self._waiting and self._waiting[0][0].time == taken[0][0].time:
            taken.append(heappop(self._waiting))
        for order, offset, _ in taken:
            self._feeds[order.feed].settle(offset)
        self.frontier = taken[-1][0]
        return tuple(reading for _, _, reading in taken)

    def _let_go(self, now: float) -> None:
        """What has waited for too long may go, and all before it in the order."""
        self._forget_gone()
        while self._arrived and self._arrived[0][0] + self.max_delay <= now:
            order = self._arrived.popleft()[1]
            self._overdue = max(order, self._overdue or order)

    def _forget_gone(self) -> None:
        """Arrivals that were released in order need no watching; now and then also those behind one that waits."""
        frontier = self.frontier
        if frontier is None:
            return
        while self._arrived and self._arrived[0][1] <= frontier:
            self._arrived.popleft()
        if len(self._arrived) > 2 * len(self._waiting) + 64:
            self._arrived = deque(pair for pair in self._arrived if pair[1] > frontier)


def _check(max_delay: float, late_policy: str) -> None:
    if not max_delay >= 0:
        raise ConfigError("max_delay is a number of seconds, zero or more", max_delay=max_delay)
    if late_policy not in ("apply", "drop"):
        raise ConfigError("late_policy is 'apply' or 'drop'", late_policy=late_policy)
