"""A world whose time is a number: things happen in the order of their instants, and nothing takes time by itself.

>>> world = Kernel()
>>> def ring(count):
...     print(world.now, "ring", count)
...     if count:
...         world.after(0.5, ring, count - 1)
>>> world.at(2.0, ring, 1)
>>> world.run()
2.0 ring 1
2.5 ring 0
2

Somebody who does one thing after the other: a processor, a disk.

>>> processor = Station()
>>> processor.work(0.25, now=0.0), processor.work(0.25, now=0.125), processor.work(0.25, now=9.0)
(0.25, 0.5, 9.25)
>>> processor.worked
0.75
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from typing import Any


class Kernel:
    """What will happen, and when. What is to happen at the same instant happens in the order in which it was asked for.

    Attributes: `now`, the instant it is.
    """

    def __init__(self, start: float = 0.0) -> None:
        self.now = start
        self._order = 0
        self._ahead: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []

    def __len__(self) -> int:
        """How many things are still to happen."""
        return len(self._ahead)

    def at(self, time: float, action: Callable[..., None], *facts: Any) -> None:
        """Let something happen at an instant, now or later."""
        if not self.now <= time < math.inf:
            raise ValueError(f"it is {self.now} already: {time} cannot come")
        self._order += 1
        heapq.heappush(self._ahead, (time, self._order, action, facts))

    def after(self, seconds: float, action: Callable[..., None], *facts: Any) -> None:
        """Let something happen so many seconds from now."""
        self.at(self.now + seconds, action, *facts)

    def run(self, until: float = math.inf) -> int:
        """Let everything happen, up to an instant where one is given; how many things did."""
        happened = 0
        while self._ahead and self._ahead[0][0] <= until:
            self.now, _, action, facts = heapq.heappop(self._ahead)
            action(*facts)
            happened += 1
        if until < math.inf:
            self.now = max(self.now, until)
        return happened


class Station:
    """A queue with one server.

    Attributes: `worked`, the seconds it has been busy.
    """

    def __init__(self) -> None:
        self.worked = 0.0
        self._free = -math.inf

    def work(self, seconds: float, now: float) -> float:
        """When something that comes now and takes so long is done."""
        self.worked += seconds
        self._free = max(now, self._free) + seconds
        return self._free
