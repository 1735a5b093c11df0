"""Events of the generated building at a fixed rate: one plant for each publisher.

Timestamps are those of the plant, one second apart. The rate of publishing is independent of them.

>>> feed = BuildingFeed(publisher=0, publishers=1, rate=100, start=0)
>>> len(feed.due(1_000_000)), feed.published
(101, 101)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from thinwire.demo import building

BLOCK = 50
"""events that are generated together; generating a larger block would delay events that are due"""


class BuildingFeed:
    """The events of one plant. The arguments are those of `LoadSource`."""

    def __init__(
        self, publisher: int, publishers: int, rate: float, start: int, round_number: int = 0, seed: int = 1
    ) -> None:
        self.start = start
        self.published = 0
        self.period = round(publishers * 1e6 / rate)
        self._events = _generate(building.BuildingPlant(seed, round_number * publishers + publisher))
        self._next = next(self._events)

    def due(self, until: int) -> list[dict[str, Any]]:
        """Return the events that became due up to `until` since the last call."""
        return [self._take() for _ in range(self.published, (until - self.start) // self.period + 1)]

    def instant(self, number: int) -> int:
        """Return when an event is due."""
        return self.start + number * self.period

    def final_events(self) -> list[dict[str, Any]]:
        """Return one more event, with a reading that no predictor expects."""
        event = self._take()
        return [event | {"hot_tank_1": event["hot_tank_1"] + 20.0}]

    def _take(self) -> dict[str, Any]:
        event, self._next = self._next, next(self._events)
        self.published += 1
        return event


def _generate(plant: building.BuildingPlant) -> Iterator[dict[str, Any]]:
    while True:
        yield from plant.block(BLOCK).to_pylist()
