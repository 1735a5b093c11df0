"""Who comes to the demonstration: five subscribers that each ask for something else, so each is a class of its own.

They join in this order, the loosest first. Whoever asks for more makes the log finer, and those before, who read the
log, go over to channels of their own.

>>> [guest.name for guest in GUESTS]
['1', '1 changes', '0.5 tanks', '0.5', '0']
>>> [asked_of(GUESTS[: 1 + joined]) for joined in range(len(GUESTS))]
['1', '1', '0.5 to 1', '0.5', '0']

What the plants say, and when: publishers and subscribers work it out from the same seed, each for itself.

>>> plant = PlantEvents(1)
>>> plant.name, plant.event(3)["timestamp"]
('karlsruhe-solar-cooling-02', '2018-07-02T05:00:02.052Z')
>>> pace = SendSchedule(start=1_000_000, period=15_000)
>>> pace.instant(0, ordinal=3), pace.due(0, now=1_031_000)
(1030000, 3)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from thinwire.codec import Demand
from thinwire.codec.kernel_warmup import warm_up
from thinwire.demo import building
from thinwire.errors import ConfigError
from thinwire.schema import Kind, Role
from thinwire.topics.demand_class import DemandClass
from thinwire.topics.tolerance_budget import budget, budget_of_demand
from thinwire.topics.topic_documents import SubscriptionDocument

PLANTS = 3
SEED = 1
TOPIC = building.schema().name

_BLOCK = 500
"""events made at once; making them must not hold up the next one for long"""


class PlantEvents:
    """The events of one plant, by their number. They are made one after another: asking goes forwards only."""

    def __init__(self, number: int) -> None:
        self.number = number
        plant = building.BuildingPlant(SEED, number)
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
class SendSchedule:
    """When events are meant to be sent, in microseconds since the epoch. The plants take turns.

    start: of the first event; period: from one event of a plant to its next
    """

    start: int
    period: int

    @classmethod
    def of(cls, rate: float, start: int) -> SendSchedule:
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


def _made(plant: building.BuildingPlant) -> Iterator[dict[str, Any]]:
    while True:
        yield from plant.block(_BLOCK).to_pylist()


def rehearse() -> None:
    """Run everything that is compiled once: the first time on a machine this takes up to a minute, later a moment."""
    warm_up()
    PlantEvents(0).event(1)


SCHEMA = building.schema()
ALWAYS = frozenset(p.name for p in SCHEMA if p.role in (Role.DIMENSION, Role.HEADER))
"""what every event has, whatever is asked for"""
NUMBERS = tuple(p.name for p in SCHEMA.wire if p.kind is Kind.NUMBER)


@dataclass(frozen=True)
class Guest:
    """A subscriber, by what it asks for.

    name: its tolerance, and what else is special about it; tolerance: of every number it looks at
    time: seconds by which timestamps may be off
    emit: "all" events or only "changes"; properties: the ones it looks at, None for all
    """

    name: str
    tolerance: float
    time: float = 0.0
    emit: Literal["all", "changes"] = "all"
    properties: tuple[str, ...] | None = None

    @property
    def asks(self) -> dict[str, Any]:
        """As it is said to `Bus.subscribe`."""
        tolerance = {"timestamp": self.time} if self.time else {}
        return {
            "tolerance": tolerance,
            "default_tolerance": self.tolerance,
            "emit": self.emit,
            "properties": self.properties,
        }

    @property
    def document(self) -> SubscriptionDocument:
        """As the registry has it."""
        return SubscriptionDocument(TOPIC, "guest", **self.asks)

    @property
    def class_id(self) -> str:
        """What its class is called at the broker."""
        return DemandClass.of(self.document).id

    def wants(self, name: str) -> bool:
        return self.properties is None or name in self.properties or name in ALWAYS

    def share_of(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """What is for it in an event."""
        return {name: value for name, value in event.items() if self.wants(name)}


TANKS = ("hot_tank_1", "hot_tank_2", "hot_tank_3", "hot_tank_4")
TIME = 0.05
"""seconds by which timestamps may be off, for all but the strictest: their milliseconds are jitter, a second apart"""

GUESTS = (
    Guest("1", 1.0, TIME),
    Guest("1 changes", 1.0, TIME, emit="changes"),
    Guest("0.5 tanks", 0.5, TIME, properties=("timestamp", *TANKS)),
    Guest("0.5", 0.5, TIME),
    Guest("0", 0.0),
)


def asked_of(guests: Iterable[Guest]) -> str:
    """What publishers are asked for while these listen."""
    return _describe_tolerances(budget(SCHEMA, [guest.document for guest in guests]).amounts)


def describe_demand(demand: Demand) -> str:
    """What publishers have been asked for, in the same words.

    >>> describe_demand(Demand({"hot_tank_1": 0.5}, default_tolerance=1))
    '0.5 to 1'
    """
    return _describe_tolerances(budget_of_demand(SCHEMA, demand, wanted=True).amounts)


def _describe_tolerances(amounts: Mapping[str, Fraction]) -> str:
    finest, loosest = (float(pick(amounts[name] for name in NUMBERS)) for pick in (min, max))
    return f"{finest:g}" if finest == loosest else f"{finest:g} to {loosest:g}"
