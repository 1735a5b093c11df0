"""Discrete-event simulation: actions run in the order of their times.

>>> scheduler = EventScheduler()
>>> def ring(count):
...     print(scheduler.now, "ring", count)
...     if count:
...         scheduler.after(0.5, ring, count - 1)
>>> scheduler.at(2.0, ring, 1)
>>> scheduler.run()
2.0 ring 1
2.5 ring 0
2

A station processes one item at a time, such as a processor or a disk.

>>> processor = Station()
>>> processor.work(0.25, now=0.0), processor.work(0.25, now=0.125), processor.work(0.25, now=9.0)
(0.25, 0.5, 9.25)
>>> processor.busy_seconds
0.75
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from typing import Any


class EventScheduler:
    """Scheduler of actions. Actions with the same time run in the order in which they were scheduled.

    Attributes: `now`, the current time.
    """

    def __init__(self, start: float = 0.0) -> None:
        self.now = start
        self._order = 0
        self._scheduled: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []

    def __len__(self) -> int:
        """Return the number of scheduled actions."""
        return len(self._scheduled)

    def at(self, time: float, action: Callable[..., None], *arguments: Any) -> None:
        """Schedule an action, with its arguments, at a finite time that is not before `now`."""
        if not self.now <= time < math.inf:
            raise ValueError(f"the time {time} is before the current time {self.now}, or not finite")
        self._order += 1
        heapq.heappush(self._scheduled, (time, self._order, action, arguments))

    def after(self, seconds: float, action: Callable[..., None], *arguments: Any) -> None:
        """Schedule an action in this many seconds."""
        self.at(self.now + seconds, action, *arguments)

    def run(self, until: float = math.inf) -> int:
        """Run all actions, or those up to and including a time. Return their number."""
        count = 0
        while self._scheduled and self._scheduled[0][0] <= until:
            self.now, _, action, arguments = heapq.heappop(self._scheduled)
            action(*arguments)
            count += 1
        if until < math.inf:
            self.now = max(self.now, until)
        return count


class Station:
    """A queue with one server, which processes items in the order of arrival.

    Attributes: `busy_seconds`, the processing time of all items so far.
    """

    def __init__(self) -> None:
        self.busy_seconds = 0.0
        self._free = -math.inf

    def work(self, seconds: float, now: float) -> float:
        """Return the time at which an item that arrives now and takes this long is done."""
        self.busy_seconds += seconds
        self._free = max(now, self._free) + seconds
        return self._free
