"""Time is an argument.

The pure rooms never ask what time it is: they are told `now`, in seconds. Whoever drives them holds a `Clock`.

>>> clock = VirtualClock(start=100.0)
>>> clock.advance(2.5)
>>> clock.now()
102.5
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """What tells the time, in seconds since the epoch."""

    def now(self) -> float: ...


class WallClock:
    """The machine's clock."""

    def now(self) -> float:
        return time.time()


class VirtualClock:
    """A clock that moves when told to."""

    def __init__(self, start: float = 0.0) -> None:
        self._now = start

    def now(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError(f"time does not run backwards: {seconds}")
        self._now += seconds
