"""Scenario of the demonstration: the events of three plants, when they are published, and five subscriptions.

Publishers and subscribers generate the same events from one seed. The subscriptions start in this order. A stricter one
decreases the tolerance of the publishers:

>>> [publisher_tolerance(SUBSCRIPTIONS[:count]) for count in range(1, 6)]
['1', '1', '0.5 to 1', '0.5', '0']
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, count
from typing import Any, Literal

from thinwire.codec import Demand
from thinwire.codec.kernel_warmup import warm_up
from thinwire.demo import building
from thinwire.schema import Kind, Role
from thinwire.topics.demand_class import DemandClass
from thinwire.topics.tolerance_budget import budget, budget_of_demand
from thinwire.topics.topic_documents import SubscriptionDocument

PLANTS = 3
SEED = 1
SCHEMA = building.schema()
TOPIC = SCHEMA.name
NUMBERS = tuple(p.name for p in SCHEMA.wire if p.kind is Kind.NUMBER)
_ALWAYS_DELIVERED = frozenset(p.name for p in SCHEMA if p.role in (Role.DIMENSION, Role.HEADER))

_BLOCK = 500
"""events generated at a time; a larger block would delay the next event"""


class PlantEvents:
    """The events of one plant by ordinal. Ordinals start at 1 and are read in ascending order."""

    def __init__(self, number: int) -> None:
        self.number = number
        plant = building.BuildingPlant(SEED, number)
        self.name = plant.name
        self.publisher = f"plant-{number + 1}"
        self._events = chain.from_iterable(plant.block(_BLOCK).to_pylist() for _ in count())
        self._ordinal = 1
        self._event: dict[str, Any] = next(self._events)

    def event(self, ordinal: int) -> dict[str, Any]:
        """Return the event with this ordinal, which is at least that of the previous call."""
        while self._ordinal < ordinal:
            self._event = next(self._events)
            self._ordinal += 1
        return self._event


@dataclass(frozen=True)
class SendSchedule:
    """When events are due, in microseconds since the epoch. The plants take turns.

    start: instant of the first event; period: microseconds between two events of a plant
    """

    start: int
    period: int

    @classmethod
    def of(cls, rate: float, start: int) -> SendSchedule:
        """Return the schedule for a rate of all plants together, in events per second."""
        return cls(start, max(1, round(PLANTS * 1e6 / rate)))

    def instant(self, plant: int, ordinal: int) -> int:
        """Return when an event is due."""
        return self.start + plant * self.period // PLANTS + (ordinal - 1) * self.period

    def due(self, plant: int, now: int) -> int:
        """Return the ordinal of the last event of a plant that is due, 0 before the first."""
        return max(0, (now - self.instant(plant, 1)) // self.period + 1)


@dataclass(frozen=True)
class DemoSubscription:
    """A subscription of the demonstration.

    name: its row in the tables; tolerance: of every number; time_tolerance: of the timestamp, in seconds
    emit, properties: as in `Bus.subscribe`
    """

    name: str
    tolerance: float
    time_tolerance: float = 0.0
    emit: Literal["all", "changes"] = "all"
    properties: tuple[str, ...] | None = None

    @property
    def request(self) -> dict[str, Any]:
        """The arguments of `Bus.subscribe`."""
        return {
            "tolerance": {"timestamp": self.time_tolerance} if self.time_tolerance else {},
            "default_tolerance": self.tolerance,
            "emit": self.emit,
            "properties": self.properties,
        }

    @property
    def document(self) -> SubscriptionDocument:
        """The subscription as stored in the registry."""
        return SubscriptionDocument(TOPIC, "demo", **self.request)

    @property
    def class_id(self) -> str:
        """The id of its demand class."""
        return DemandClass.of(self.document).id

    def selects(self, name: str) -> bool:
        """Return whether delivered events contain a property."""
        return self.properties is None or name in self.properties or name in _ALWAYS_DELIVERED

    def project(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Return the selected properties of an event."""
        return {name: value for name, value in event.items() if self.selects(name)}


TANKS = ("hot_tank_1", "hot_tank_2", "hot_tank_3", "hot_tank_4")
TIME_TOLERANCE = 0.05
"""tolerance of timestamps in seconds; their milliseconds are random and cannot be predicted"""

SUBSCRIPTIONS = (
    DemoSubscription("1", 1.0, TIME_TOLERANCE),
    DemoSubscription("1 changes", 1.0, TIME_TOLERANCE, emit="changes"),
    DemoSubscription("0.5 tanks", 0.5, TIME_TOLERANCE, properties=("timestamp", *TANKS)),
    DemoSubscription("0.5", 0.5, TIME_TOLERANCE),
    DemoSubscription("0", 0.0),
)


def publisher_tolerance(subscriptions: Iterable[DemoSubscription]) -> str:
    """Return the tolerance of publishers with these subscriptions, as text."""
    return _describe(budget(SCHEMA, [subscription.document for subscription in subscriptions]).amounts)


def describe_demand(demand: Demand) -> str:
    """Return the tolerance in a demand for publishers, as text.

    >>> describe_demand(Demand({"hot_tank_1": 0.5}, default_tolerance=1))
    '0.5 to 1'
    """
    return _describe(budget_of_demand(SCHEMA, demand, wanted=True).amounts)


def _describe(tolerances: Mapping[str, Fraction]) -> str:
    strictest, loosest = (float(limit(tolerances[name] for name in NUMBERS)) for limit in (min, max))
    return f"{strictest:g}" if strictest == loosest else f"{strictest:g} to {loosest:g}"


def compile_kernels() -> None:
    """Compile all kernels of the demonstration, up to a minute on the first run on a machine."""
    warm_up()
    PlantEvents(0).event(1)
