"""The building's plants at a fixed pace: one plant a publisher, its events in their own order.

The events keep the timestamps the plant gave them, a second apart; only the pace at which they are published differs.

>>> feed = BuildingFeed(publisher=0, publishers=1, rate=100, start=0)
>>> len(feed.due(1_000_000)), feed.published
(101, 101)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from thinwire.workload.samples import building

UNBOUNDED = 1_000_000_000


class BuildingFeed:
    """The events of one plant; see `Feed` for the arguments."""

    def __init__(self, publisher: int, publishers: int, rate: float, start: int, seed: int = 1) -> None:
        self.start = start
        self.rate = rate
        self.published = 0
        self.period = round(publishers * 1e6 / rate)
        self._events: Iterator[dict[str, Any]] = building.events(UNBOUNDED, seed, first=publisher)

    def due(self, until: int) -> list[dict[str, Any]]:
        """The events due up to this instant that were not given out yet."""
        wanted = (until - self.start) // self.period + 1 - self.published
        self.published += max(0, wanted)
        return [next(self._events) for _ in range(wanted)]

    def farewell(self) -> list[dict[str, Any]]:
        """One more event, with a reading that nobody expects."""
        self.published += 1
        event = next(self._events)
        return [event | {"hot_tank_1": event["hot_tank_1"] + 20.0}]
