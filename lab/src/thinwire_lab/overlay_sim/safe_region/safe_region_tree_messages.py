"""What travels in a safe-region tree."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

LIMIT = 2**62
"""beyond every value: ticks are 64-bit integers"""


class Interval(NamedTuple):
    """Values from low to high, both included."""

    low: int
    high: int

    def holds(self, value: int) -> bool:
        """Is the value inside?"""
        return self.low <= value <= self.high


EVERYTHING = Interval(-LIMIT, LIMIT)
"""where nothing fires, whatever comes: no threshold is below"""


def common(intervals: Iterable[Interval]) -> Interval:
    """What lies in all of them.

    >>> common([Interval(0, 9), Interval(4, 12)]), common([]) == EVERYTHING
    (Interval(low=4, high=9), True)
    """
    every = [EVERYTHING, *intervals]
    return Interval(max(i.low for i in every), min(i.high for i in every))


class Event(NamedTuple):
    """Down: a value, numbered by the root."""

    number: int
    value: int


class Join(NamedTuple):
    """Down: a new threshold, on its way to the leaf that is to keep it; numbered as an event is, since it must overtake
    none and be overtaken by none. `value` is the newest at that number."""

    number: int
    value: int
    threshold: int


class Leave(NamedTuple):
    """Down: a threshold nobody asks for any more. The interval can only grow, so nobody hurries to tell."""

    threshold: int


class Advert(NamedTuple):
    """Up: having seen all events up to this number, nothing below fires inside the interval."""

    number: int
    safe: Interval


Message = Event | Join | Leave | Advert

Sent = tuple[str, Message]
"""to whom, what"""
