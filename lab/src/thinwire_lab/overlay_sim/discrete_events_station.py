"""Somebody who does one thing after the other: a processor, a disk.

>>> processor = Station()
>>> processor.work(0.25, now=0.0), processor.work(0.25, now=0.125), processor.work(0.25, now=9.0)
(0.25, 0.5, 9.25)
>>> processor.worked
0.75
"""

from __future__ import annotations

import math


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
