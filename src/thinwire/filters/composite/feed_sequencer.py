"""Total order of the events of several feeds, closed by watermarks.

The log of each feed contains its watermarks. A reading is released when the watermark of every feed has reached its
time, or after `max_delay` seconds, together with all readings before it in the order. A reading that arrives after a
later one was released is *late*.

Clocks may go backwards. Incarnation and ordinal decide which event of a source is newer, and the time of an event is
at least the time of the previous event of its source.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Literal, NamedTuple

from thinwire.errors import ConfigError
from thinwire.filters.composite.condition import Quantity


class WatchInput(NamedTuple):
    """The log of one publisher of one topic. Its messages arrive in order and contain its watermarks."""

    topic: str
    publisher: str


class Order(NamedTuple):
    """Sort key of an event: its time; for equal times topic, publisher, incarnation, ordinal and source.

    time: of the event, as an integer in a unit that all feeds share; not before the previous event of the source
    source: in text form

    >>> Order(5, "market", "feed", ordinal=1) < Order(5, "market", "feed", ordinal=2) < Order(6, "a", "a")
    True
    """

    time: int
    topic: str = ""
    publisher: str = ""
    incarnation: int = 0
    ordinal: int = 0
    source: str = ""

    @property
    def feed(self) -> WatchInput:
        return WatchInput(self.topic, self.publisher)

    @property
    def sequence(self) -> tuple[int, int]:
        """Incarnation and ordinal: the order of the events of one source of a feed."""
        return self.incarnation, self.ordinal


@dataclass(frozen=True, slots=True)
class EventReadings:
    """Values of the quantities of a watch in one event.

    values: in ticks; without quantities that are null or absent, which do not change
    """

    order: Order
    values: dict[Quantity, int]


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One message of the log of a feed.

    readings: of the events with a quantity of the watch
    complete: the watermark after the message, if it contains one
    """

    feed: WatchInput
    offset: int
    readings: tuple[EventReadings, ...] = ()
    complete: int | None = None


@dataclass(frozen=True, slots=True)
class Delivery:
    """A notification: the condition was true, with the quantities of its true conjuncts.

    number: 1 for the first notification of a watch
    order: of the event after which the condition was true
    values: in ticks; the values that the subscriber holds afterwards
    late: the event was late
    conjuncts: indexes of the true conjuncts
    """

    number: int
    order: Order
    values: dict[Quantity, int]
    late: bool = False
    conjuncts: tuple[int, ...] = field(default=(), compare=False)


class FeedPosition(NamedTuple):
    """Position in the log of a feed.

    offset: every reading up to it was processed or dropped; None before the first message
    complete: the last watermark up to the offset, if any
    """

    offset: int | None = None
    complete: int | None = None


START = FeedPosition()


class InputState:
    """Watermark, position and last events of one feed.

    Readings are processed in the order of time, which differs from the order of the log. After a restart from the
    position, a reading that was already processed is recognised by its incarnation and ordinal.
    """

    def __init__(self, position: FeedPosition = START, settled: Iterable[Order] = ()) -> None:
        self.complete: float = -math.inf if position.complete is None else position.complete
        self.has_ended = False
        self._settled_complete = position.complete
        self._read = position.offset
        self._last = {order.source: order for order in settled}
        self._unprocessed: OrderedDict[int, int] = OrderedDict()
        self._watermarks: deque[tuple[int, int]] = deque()

    def arrive(self, order: Order, offset: int) -> Order | None:
        """Register an event; return its sort key, or None if it was already registered."""
        last = self._last.get(order.source)
        if last is not None:
            if order.sequence <= last.sequence:
                return None
            order = order._replace(time=max(order.time, last.time))
        self._last[order.source] = order
        self._unprocessed[offset] = self._unprocessed.get(offset, 0) + 1
        return order

    def mark_processed(self, offset: int) -> None:
        """Register that an event of the message at `offset` was processed or dropped."""
        self._unprocessed[offset] -= 1
        if not self._unprocessed[offset]:
            del self._unprocessed[offset]

    def advance(self, offset: int, complete: int | None) -> None:
        """Set the offset read last, and the watermark if the message contains one."""
        self.has_ended = False
        self._read = offset if self._read is None else max(self._read, offset)
        if complete is not None and complete > self.complete:
            self.complete = complete
            self._watermarks.append((offset, complete))

    @property
    def position(self) -> FeedPosition:
        """The position up to which every reading is processed.

        Its watermark is the one at that offset. With a later one, a successor would release readings before it has
        read all messages again.
        """
        low = next(iter(self._unprocessed)) - 1 if self._unprocessed else self._read
        while self._watermarks and low is not None and self._watermarks[0][0] <= low:
            self._settled_complete = self._watermarks.popleft()[1]
        return FeedPosition(low, self._settled_complete)


MAX_WAITING = 65_536
"""waiting readings; above it the first in order is released"""

LatePolicy = Literal["apply", "drop"]


class Released(NamedTuple):
    """Readings to process together: one, or all of one time."""

    readings: tuple[EventReadings, ...]
    late: bool


class Sequencer:
    """Accepts log entries as they arrive and releases their readings in order.

    max_delay: maximum waiting time of a reading in seconds; infinity to wait for every feed
    late_policy: "apply": a late reading is released at once with a flag; "drop": it is dropped
    group_by_time: release all readings of one time together
    frontier, positions, settled: state of a predecessor: the last released event, feed positions, last event of sources
    """

    def __init__(
        self,
        max_delay: float = math.inf,
        late_policy: LatePolicy = "apply",
        group_by_time: bool = False,
        frontier: Order | None = None,
        positions: Mapping[WatchInput, FeedPosition] | None = None,
        settled: Iterable[Order] = (),
    ) -> None:
        _check(max_delay, late_policy)
        self.max_delay = max_delay
        self.late_policy = late_policy
        self.group_by_time = group_by_time
        self.frontier = frontier
        orders = list(settled)
        self._feeds = {
            feed: InputState(position, (order for order in orders if order.feed == feed))
            for feed, position in (positions or {}).items()
        }
        self._waiting: list[tuple[Order, int, EventReadings]] = []
        self._late: deque[tuple[int, EventReadings]] = deque()
        self._arrived: deque[tuple[float, Order]] = deque()
        self._overdue: Order | None = None

    def add_feeds(self, feeds: Iterable[WatchInput]) -> None:
        """Wait for the watermarks of these feeds."""
        for feed in feeds:
            self._feeds.setdefault(feed, InputState())

    def end_feed(self, feed: WatchInput) -> None:
        """Stop waiting for a feed until its next message. Its waiting readings are still released."""
        if feed in self._feeds:
            self._feeds[feed].has_ended = True

    def offer(self, entry: LogEntry, now: float) -> None:
        """Accept a log message. Readings that were already accepted are dropped."""
        feed = self._feeds.setdefault(entry.feed, InputState())
        for reading in entry.readings:
            order = feed.arrive(reading.order, entry.offset)
            if order is not None:
                self._take(EventReadings(order, reading.values), entry.offset, now)
        feed.advance(entry.offset, entry.complete)

    def released(self, now: float) -> Iterator[Released]:
        """Yield the readings that can be processed at `now`. `positions()` is correct after each of them."""
        while self._late:
            offset, reading = self._late.popleft()
            self._feeds[reading.order.feed].mark_processed(offset)
            yield Released((reading,), late=True)
        self._mark_overdue(now)
        closed = min((feed.complete for feed in self._feeds.values() if not feed.has_ended), default=math.inf)
        while self._waiting and self._can_release(self._waiting[0][0], closed):
            yield Released(self._pop(), late=False)

    @property
    def deadline(self) -> float | None:
        """Time at which the longest waiting reading is released at the latest; None if none waits."""
        self._drop_released()
        return self._arrived[0][0] + self.max_delay if self._arrived else None

    def positions(self) -> dict[WatchInput, FeedPosition]:
        """Return the position from which a successor reads each feed."""
        return {feed: state.position for feed, state in self._feeds.items()}

    def _take(self, reading: EventReadings, offset: int, now: float) -> None:
        if not self._is_late(reading.order):
            heappush(self._waiting, (reading.order, offset, reading))
            self._arrived.append((now, reading.order))
        elif self.late_policy == "apply":
            self._late.append((offset, reading))
        else:
            self._feeds[reading.order.feed].mark_processed(offset)

    def _is_late(self, order: Order) -> bool:
        if self.frontier is None:
            return False
        return order.time <= self.frontier.time if self.group_by_time else order < self.frontier

    def _can_release(self, order: Order, closed: float) -> bool:
        overdue = self._overdue is not None and order <= self._overdue
        return order.time <= closed or overdue or len(self._waiting) > MAX_WAITING

    def _pop(self) -> tuple[EventReadings, ...]:
        """Remove the first reading, or all of its time, and advance the frontier."""
        taken = [heappop(self._waiting)]
        while self.group_by_time and self._waiting and self._waiting[0][0].time == taken[0][0].time:
            taken.append(heappop(self._waiting))
        for order, offset, _ in taken:
            self._feeds[order.feed].mark_processed(offset)
        self.frontier = taken[-1][0]
        return tuple(reading for _, _, reading in taken)

    def _mark_overdue(self, now: float) -> None:
        """Mark readings that waited for `max_delay`, and all before them in the order."""
        self._drop_released()
        while self._arrived and self._arrived[0][0] + self.max_delay <= now:
            order = self._arrived.popleft()[1]
            self._overdue = max(order, self._overdue or order)

    def _drop_released(self) -> None:
        """Drop arrival times of released readings; those after a waiting one only if there are many."""
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
