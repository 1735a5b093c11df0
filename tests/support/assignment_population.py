"""A population of subscriptions for tests of assignments: its groups, and the exact costs of an assignment."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from thinwire_lab.workload.assignment.assignment_costs import (
    QUANTILES,
    AssignmentCosts,
    GroupDemands,
    broker_load,
    group_keys,
    nearest_brokers,
)
from thinwire_lab.workload.random_rows import Floats, Ints


class AssignmentPopulation(NamedTuple):
    """Subscriptions with rectangles and locations, brokers, and a sample of events."""

    low: Floats
    high: Floats
    locations: Floats
    brokers: Floats
    events: Floats


def group_subscriptions(population: AssignmentPopulation) -> tuple[GroupDemands, Ints]:
    """Return the groups of a population, and the group of each subscription."""
    low, high, locations, brokers, events = population
    nearest, latency = nearest_brokers(locations, brokers)
    _, first, of = np.unique(group_keys(low, high, nearest), return_index=True, return_inverse=True)
    weight = np.bincount(of).astype(np.float64)
    centres = np.stack([np.bincount(of, column) for column in locations.T], axis=1) / weight[:, None]
    distance = np.bincount(of, latency) / weight
    return GroupDemands(low[first], high[first], weight, nearest[first], distance, centres, brokers, events), of


def compute_costs(population: AssignmentPopulation, groups: GroupDemands, of: Ints, chosen: Ints) -> AssignmentCosts:
    """Return the costs with the latency of each subscription."""
    latency = np.linalg.norm(population.locations - population.brokers[chosen[of]], axis=1)
    return broker_load(groups, chosen).costs(np.quantile(latency, QUANTILES))
