"""What is known of one feed: how far it is complete, what has arrived of each source, and what is worked off.

The one order in which all events of a watch are looked at, whoever published them.

Many feeds into one order, closed by watermarks.

Each feed tells in its own log up to which time it is complete. A reading is released when every feed is complete up to
its time, or when it has waited for `max_delay` seconds, and with it all that come before it in the order. What comes
behind something that was released and should have come before it is *late*.

Clocks may go backwards. The number that a publisher gives to the events of a source decides which is newer, and an
event counts no earlier than the one before it of the same source.
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
    """The log of one publisher of one topic: what arrives in order, and tells watermarks of its own."""

    topic: str
    publisher: str


class Order(NamedTuple):
    """The place of an event among all: by time, and where times are equal by who published it, and when.

    time: of the event, in any whole unit that all feeds share; never before the event of its source that came before
    life, ordinal: which life of the publisher, and the number of the event within its source
    source: whose, in writing; it decides between events of two sources that are equal in everything else

    >>> Order(5, "market", "feed", ordinal=1) < Order(5, "market", "feed", ordinal=2) < Order(6, "a", "a")
    True
    """

    time: int
    topic: str = ""
    publisher: str = ""
    life: int = 0
    ordinal: int = 0
    source: str = ""

    @property
    def feed(self) -> WatchInput:
        return WatchInput(self.topic, self.publisher)

    @property
    def number(self) -> tuple[int, int]:
        """Life and ordinal: what orders the events of one source of a feed."""
        return self.life, self.ordinal


@dataclass(frozen=True, slots=True)
class EventReadings:
    """What an event says of the quantities of a watch.

    values: in ticks; a quantity that is null or not in the event is left out, and stays what it was
    """

    order: Order
    values: dict[Quantity, int]


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One message of a feed's log, read as a whole: places in the log are counted in messages.

    offset: its place
    readings: of its events, those that speak of a quantity of the watch
    complete: the watermark that holds behind it, where it tells one: no event up to this time follows
    """

    feed: WatchInput
    offset: int
    readings: tuple[EventReadings, ...] = ()
    complete: int | None = None


@dataclass(frozen=True, slots=True)
class Delivery:
    """A notification: the condition was true, and these are the quantities that made it so.

    number: 1 for the first of a watch, then one more each
    order: the event behind which the condition was true
    values: in ticks; what the subscriber holds from now on
    late: the event came behind others that should have come later; it was looked at when it came
    conjuncts: those of the condition that were true, by their places
    """

    number: int
    order: Order
    values: dict[Quantity, int]
    late: bool = False
    conjuncts: tuple[int, ...] = field(default=(), compare=False)


class FeedPosition(NamedTuple):
    """How far a feed is worked off.

    offset: every reading up to it was looked at, or dropped; None where nothing was read yet
    complete: the watermark that the log told up to there; None where it told none
    """

    offset: int | None = None
    complete: int | None = None


NOWHERE = FeedPosition()


class FeedState:
    """The arrivals of one feed.

    Readings are looked at in the order of time, which is not the order of the log: what was looked at ahead of its
    turn is recognised by the number within its source when it is read a second time.
    """

    def __init__(self, at: FeedPosition = NOWHERE, settled: Iterable[Order] = ()) -> None:
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

    def mark_processed(self, offset: int) -> None:
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
    def position(self) -> FeedPosition:
        """Everything up to here is settled. The watermark is the one of that place too: of a later one, a successor
        would believe that what it has not read again yet does not exist."""
        low = next(iter(self._open)) - 1 if self._open else self._read
        while self._marks and low is not None and self._marks[0][0] <= low:
            self._settled_complete = self._marks.popleft()[1]
        return FeedPosition(low, self._settled_complete)


MAX_WAITING = 65_536
"""readings that wait at once; the first in order is released when there are more"""

LatePolicy = Literal["apply", "drop"]


class Released(NamedTuple):
    """Readings to be looked at together: one, or all of one time."""

    readings: tuple[EventReadings, ...]
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
        positions: Mapping[WatchInput, FeedPosition] | None = None,
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
        self._waiting: list[tuple[Order, int, EventReadings]] = []
        self._late: deque[tuple[int, EventReadings]] = deque()
        self._arrived: deque[tuple[float, Order]] = deque()
        self._overdue: Order | None = None

    def expect(self, feeds: Iterable[WatchInput]) -> None:
        """Wait for these feeds too, from now on."""
        for feed in feeds:
            self._feeds.setdefault(feed, FeedState())

    def forget(self, feed: WatchInput) -> None:
        """Wait for a feed no longer, until it speaks again. What it told is still looked at."""
        if feed in self._feeds:
            self._feeds[feed].ended = True

    def offer(self, entry: LogEntry, now: float) -> None:
        """A message of a log arrives; readings that were there before are passed over."""
        feed = self._feeds.setdefault(entry.feed, FeedState())
        for reading in entry.readings:
            order = feed.arrive(reading.order, entry.offset)
            if order is not None:
                self._take(EventReadings(order, reading.values), entry.offset, now)
        feed.reach(entry.offset, entry.complete)

    def released(self, now: float) -> Iterator[Released]:
        """What can be looked at now, one at a time: positions are right behind each."""
        while self._late:
            offset, reading = self._late.popleft()
            self._feeds[reading.order.feed].mark_processed(offset)
            yield Released((reading,), late=True)
        self._let_go(now)
        closed = min((feed.complete for feed in self._feeds.values() if not feed.ended), default=math.inf)
        while self._waiting and self._may_go(self._waiting[0][0], closed):
            yield Released(self._pop(), late=False)

    @property
    def deadline(self) -> float | None:
        """When the reading that has waited longest is released, whatever happens; None where nothing waits."""
        self._forget_released()
        return self._arrived[0][0] + self.max_delay if self._arrived else None

    def positions(self) -> dict[WatchInput, FeedPosition]:
        """Where a successor begins to read each feed again."""
        return {feed: state.position for feed, state in self._feeds.items()}

    def _take(self, reading: EventReadings, offset: int, now: float) -> None:
        if not self._is_late(reading.order):
            heappush(self._waiting, (reading.order, offset, reading))
            self._arrived.append((now, reading.order))
        elif self.late_policy == "apply":
            self._late.append((offset, reading))
        else:
            self.dropped += 1
            self._feeds[reading.order.feed].mark_processed(offset)

    def _is_late(self, order: Order) -> bool:
        if self.frontier is None:
            return False
        return order.time <= self.frontier.time if self.ticks else order < self.frontier

    def _may_go(self, order: Order, closed: float) -> bool:
        overdue = self._overdue is not None and order <= self._overdue
        return order.time <= closed or overdue or len(self._waiting) > MAX_WAITING

    def _pop(self) -> tuple[EventReadings, ...]:
        """The first in order, and with `ticks` all of its time; the frontier goes with them."""
        taken = [heappop(self._waiting)]
        while self.ticks and self._waiting and self._waiting[0][0].time == taken[0][0].time:
            taken.append(heappop(self._waiting))
        for order, offset, _ in taken:
            self._feeds[order.feed].mark_processed(offset)
        self.frontier = taken[-1][0]
        return tuple(reading for _, _, reading in taken)

    def _let_go(self, now: float) -> None:
        """What has waited for too long may go, and all before it in the order."""
        self._forget_released()
        while self._arrived and self._arrived[0][0] + self.max_delay <= now:
            order = self._arrived.popleft()[1]
            self._overdue = max(order, self._overdue or order)

    def _forget_released(self) -> None:
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
