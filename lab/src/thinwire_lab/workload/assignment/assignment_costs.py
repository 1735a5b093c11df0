"""What an assignment costs: events that brokers get for nothing, latency, and how unevenly brokers are loaded."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from thinwire_lab.workload.assignment.assignment_costs_deliveries import Deliveries, Places
from thinwire_lab.workload.assignment.assignment_costs_demands import Demands, Population
from thinwire_lab.workload.assignment.assignment_kernels import count_useful, held
from thinwire_lab.workload.random_rows_randomness import Floats, Rows

QUANTILES = (0.5, 0.9, 0.99)


class Costs(NamedTuple):
    """Costs of an assignment.

    delivered: deliveries to brokers for each event published, by their super-interests: the box of all rectangles
    wasted: those of them that no subscription of the broker matches
    p50, p90, p99: latency from subscribers to their brokers, in milliseconds
    heaviest: the load of the most loaded broker, in mean loads
    """

    delivered: float
    wasted: float
    p50: float
    p90: float
    p99: float
    heaviest: float


class Burden(NamedTuple):
    """What brokers bear, in the words of `Costs`."""

    delivered: float
    wasted: float
    heaviest: float

    def costs(self, latency: Floats) -> Costs:
        """All costs, with the quantiles of the latency."""
        p50, p90, p99 = map(float, latency)
        return Costs(self.delivered, self.wasted, p50, p90, p99, self.heaviest)


def burden(groups: Demands, chosen: Rows) -> Burden:
    """What brokers bear when each group goes to the broker chosen for it."""
    brokers, events = len(groups.brokers), len(groups.events)
    sets = Deliveries.of(groups.events)
    begin, end = sets.sides(groups.low, groups.high)
    needed = np.zeros((brokers, sets.until.shape[2]), dtype=np.uint64)
    useful = count_useful(sets.until, begin, end, chosen, needed) / events
    delivered = _delivered(sets, begin, end, chosen, brokers) / events
    loads = np.bincount(chosen, groups.weight, minlength=brokers)
    return Burden(delivered, delivered - useful, float(loads.max() / loads.mean()))


def costs(population: Population, groups: Demands, of: Rows, chosen: Rows) -> Costs:
    """The costs of giving each group to the broker chosen for it; latency is that of every single subscriber."""
    latency = np.linalg.norm(population.places - population.brokers[chosen[of]], axis=1)
    return burden(groups, chosen).costs(np.quantile(latency, QUANTILES))


def _delivered(sets: Deliveries, begin: Places, end: Places, chosen: Rows, brokers: int) -> int:
    """How many events the super-interests of all brokers hold."""
    begins, ends = nowhere(sets, brokers)
    np.minimum.at(begins, chosen, begin)
    np.maximum.at(ends, chosen, end)
    return sum(int(held(sets.until, low, high)) for low, high in zip(begins, ends, strict=True))


def nowhere(sets: Deliveries, brokers: int) -> tuple[Places, Places]:
    """The super-interests of brokers that have no group yet."""
    axes, events = sets.ordered.shape
    return np.full((brokers, axes), events, dtype=np.int32), np.zeros((brokers, axes), dtype=np.int32)
