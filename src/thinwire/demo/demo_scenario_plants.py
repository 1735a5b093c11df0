"""What the plants say, and when: publishers and subscribers work it out from the same seed, each for itself.

>>> plant = Plant(1)
>>> plant.name, plant.event(3)["timestamp"]
('karlsruhe-solar-cooling-02', '2018-07-02T05:00:02.052Z')
>>> pace = Pace(start=1_000_000, period=15_000)
>>> pace.instant(0, ordinal=3), pace.due(0, now=1_031_000)
(1030000, 3)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from thinwire.codec.kernel_warmup import warm_up
from thinwire.demo import building
from thinwire.errors import ConfigError

PLANTS = 3
SEED = 1
TOPIC = building.schema().name

_BLOCK = 500
"""events made at once; making them must not hold up the next one for long"""


class Plant:
    """The events of one plant, by their number. They are made one after another: asking goes forwards only."""

    def __init__(self, number: int) -> None:
        self.number = number
        plant = building.Plant(SEED, number)
        self.name = plant.name
        self.publisher = f"plant-{number + 1}"
        self._events = _made(plant)
        self._ordinal = 1
        self._event = next(self._events)

    def event(self, ordinal: int) -> dict[str, Any]:
        """The event of this number; the first is 1."""
        if ordinal < self._ordinal:
            raise ConfigError("this event has gone by", ordinal=ordinal, present=self._ordinal)
        while self._ordinal < ordinal:
            self._event = next(self._events)
            self._ordinal += 1
        return self._event


@dataclass(frozen=True)
class Pace:
    """When events are meant to be sent, in microseconds since the epoch. The plants take turns.

    start: of the first event; period: from one event of a plant to its next
    """

    start: int
    period: int

    @classmethod
    def of(cls, rate: float, start: int) -> Pace:
        """So many events a second, of all plants together."""
        return cls(start, max(1, round(PLANTS * 1e6 / rate)))

    def to_document(self) -> dict[str, int]:
        return {"start": self.start, "period": self.period}

    def instant(self, plant: int, ordinal: int) -> int:
        """When this event is to be sent."""
        return self.start + plant * self.period // PLANTS + (ordinal - 1) * self.period

    def due(self, plant: int, now: int) -> int:
        """The number of the last event that is due by now; 0 before the first."""
        return max(0, (now - self.instant(plant, 1)) // self.period + 1)


def _made(plant: building.Plant) -> Iterator[dict[str, Any]]:
    while True:
        yield from plant.block(_BLOCK).to_pylist()


def rehearse() -> None:
    """Run everything that is compiled once: the first time on a machine this takes up to a minute, later a moment."""
    warm_up()
    Plant(0).event(1)
