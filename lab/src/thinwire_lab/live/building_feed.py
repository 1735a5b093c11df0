"""The building's plants at a fixed pace: one plant a publisher, its events in their own order.

The events keep the timestamps the plant gave them, a second apart; only the pace at which they are published differs.

>>> feed = BuildingFeed(publisher=0, publishers=1, rate=100, start=0)
>>> len(feed.due(1_000_000)), feed.published
(101, 101)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from thinwire.demo import building

BLOCK = 50
"""events made at a time: more of them would hold up what is due meanwhile"""


class BuildingFeed:
    """The events of one plant; see `Feed` for the arguments."""

    def __init__(self, publisher: int, publishers: int, rate: float, start: int, turn: int = 0, seed: int = 1) -> None:
        self.start = start
        self.rate = rate
        self.published = 0
        self.period = round(publishers * 1e6 / rate)
        self._events = _events(building.BuildingPlant(seed, turn * publishers + publisher))
        self._next = next(self._events)

    def due(self, until: int) -> list[dict[str, Any]]:
        """The events due up to this instant that were not given out yet."""
        return [self._take() for _ in range(self.published, (until - self.start) // self.period + 1)]

    def instant(self, number: int) -> int:
        """When an event is due."""
        return self.start + number * self.period

    def final_events(self) -> list[dict[str, Any]]:
        """One more event, with a reading that nobody expects."""
        event = self._take()
        return [event | {"hot_tank_1": event["hot_tank_1"] + 20.0}]

    def _take(self) -> dict[str, Any]:
        event, self._next = self._next, next(self._events)
        self.published += 1
        return event


def _events(plant: building.BuildingPlant) -> Iterator[dict[str, Any]]:
    while True:
        yield from plant.block(BLOCK).to_pylist()
