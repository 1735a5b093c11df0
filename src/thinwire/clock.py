"""Clocks. Pure packages take the time as an argument `now`, in seconds; their callers read it from a `Clock`.

>>> clock = VirtualClock(start=100.0)
>>> clock.advance(2.5)
>>> clock.now()
102.5
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Source of the current time, in seconds since the epoch."""

    def now(self) -> float: ...


class WallClock:
    """The clock of the machine."""

    now = staticmethod(time.time)


class VirtualClock:
    """A clock that only `advance` moves."""

    def __init__(self, start: float = 0.0) -> None:
        self._now = start

    def now(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError(f"a clock does not run backwards: {seconds}")
        self._now += seconds
