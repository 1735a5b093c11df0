"""Policies that assign subscribers to brokers.

By proximity: each subscriber gets the nearest broker. The super-interest of a broker, the box around all of its
rectangles, then covers nearly all events. By interest: subscribers with similar interests share a broker, independently
of latency. Jointly: like by interest, but with a latency limit and a price per millisecond of latency. The joint policy
runs twice and returns the result with fewer wasted deliveries. One run starts with the super-interests of a joint
assignment, the other with those of the assignment by interest, each moved to the broker nearest to its subscribers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import Literal, get_args

import numpy as np

from thinwire.errors import ConfigError
from thinwire_lab.workload.assignment.assignment_costs import (
    EventSample,
    GroupDemands,
    Positions,
    broker_load,
    empty_super_interests,
    super_interests,
)
from thinwire_lab.workload.assignment.assignment_kernels import assign_groups, sum_distances, swap_brokers
from thinwire_lab.workload.random_rows import Floats, Ints

MAX_LOAD = 4.0
"""maximum load of a broker in mean loads; raised if one group alone is larger"""
PRICE = 1e-6
"""share of all events that may be wasted to save a millisecond"""


def assign_by_proximity(groups: GroupDemands) -> Ints:
    """Return the nearest broker of each group."""
    return groups.nearest


def assign_by_interest(groups: GroupDemands, *, max_load: float = MAX_LOAD) -> Ints:
    """Return for each group the broker whose super-interest grows least."""
    return _SequentialAssignment(groups, max_load).assign(np.full(len(groups.weight), np.inf), 0.0)


def assign_jointly(groups: GroupDemands, limit: float, *, price: float = PRICE, max_load: float = MAX_LOAD) -> Ints:
    """Return for each group the broker within the limit whose super-interest grows least.

    limit: maximum latency in milliseconds, or infinity; a group whose nearest broker is farther is assigned to that
        broker
    price: share of all events that may be wasted to save a millisecond
    """
    if not limit > 0 or not price >= 0:
        raise ConfigError("the limit must be above 0 and the price at least 0", limit=limit, price=price)
    assignment = _SequentialAssignment(groups, max_load)
    nearest_distance = np.linalg.norm(groups.centres - groups.brokers[groups.nearest], axis=1)
    # The factor keeps the nearest broker within the limit in spite of rounding.
    limits = np.maximum(limit, nearest_distance * (1 + 1e-9))
    similar = _move_to_subscribers(groups, assign_by_interest(groups, max_load=max_load))
    starts = (assignment.assign(limits, price), similar)
    results = [assignment.assign(limits, price, assignment.super_interests(start)) for start in starts]
    return min(results, key=lambda chosen: broker_load(groups, chosen).wasted)


def _move_to_subscribers(groups: GroupDemands, chosen: Ints) -> Ints:
    """Return the same partition of groups, with brokers exchanged so that latency is low."""
    count = len(groups.brokers)
    total, broker_of = np.zeros((count, count)), np.arange(count)
    sum_distances(chosen, groups.weight, groups.centres, groups.brokers, total)
    swap_brokers(total, broker_of)
    return np.asarray(broker_of[chosen])


class _SequentialAssignment:
    """Assigns all groups, broad interests first, so that narrow ones fit into existing super-interests."""

    def __init__(self, groups: GroupDemands, max_load: float) -> None:
        if not max_load >= 1.0:
            raise ConfigError("the maximum load must be at least the mean load", max_load=max_load, lowest=1)
        groups.check()
        self.groups = groups
        self.capacity = max(max_load * groups.weight.sum() / len(groups.brokers), groups.weight.max())
        self.sample = EventSample.of(groups.events)
        self.group_begin, self.group_end = self.sample.ranges(groups.low, groups.high)
        self.order = np.argsort(-np.prod(groups.high - groups.low, axis=1), kind="stable")

    def assign(self, limits: Floats, price: float, initial: tuple[Positions, Positions] | None = None) -> Ints:
        """Return the broker of each group. `initial`: begin and end of the initial super-interests."""
        groups, count = self.groups, len(self.groups.brokers)
        broker_begin, broker_end = initial or empty_super_interests(self.sample, count)
        chosen, capacity = np.full(len(groups.weight), -1, dtype=np.int64), np.full(count, self.capacity)
        boxes = (self.sample.events_before, self.group_begin, self.group_end)
        inputs = (*boxes, groups.weight, groups.centres, groups.brokers)
        assign_groups(
            self.order, *inputs, limits, capacity, price * len(groups.events), broker_begin, broker_end, chosen
        )
        return chosen

    def super_interests(self, chosen: Ints) -> tuple[Positions, Positions]:
        """Return the super-interests of an assignment."""
        return super_interests(self.sample, len(self.groups.brokers), chosen, self.group_begin, self.group_end)


PolicyKind = Literal["proximity", "interest", "joint"]
LIMITS = (1.1, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, inf)
"""of joint policies, in multiples of the p90 latency to the nearest broker"""
MIN_LIMIT = 1e-9
"""milliseconds, for the case that the p90 latency is 0"""


@dataclass(frozen=True)
class Policy:
    """A policy of assignment.

    limit: latency limit of a joint policy, in multiples of the p90 latency to the nearest broker
    """

    kind: PolicyKind
    limit: float = inf

    @property
    def name(self) -> str:
        """Name of the policy in tables.

        >>> Policy("joint", 1.5).name, Policy("joint").name, Policy("interest").name
        ('joint, 1.5x', 'joint, no limit', 'interest')
        """
        if self.kind != "joint":
            return self.kind
        return f"joint, {self.limit:g}x" if isfinite(self.limit) else "joint, no limit"

    def choose(self, groups: GroupDemands) -> Ints:
        """Return the broker of each group."""
        if self.kind == "proximity":
            return assign_by_proximity(groups)
        if self.kind == "interest":
            return assign_by_interest(groups)
        limit = self.limit * groups.p90_distance if isfinite(self.limit) else inf
        return assign_jointly(groups, max(limit, MIN_LIMIT))


def policies(kind: str, limits: Sequence[float] = LIMITS) -> list[Policy]:
    """Return the policies of a kind, or of all kinds for `all`.

    >>> [policy.name for policy in policies("all", [2.0])]
    ['proximity', 'joint, 2x', 'interest']
    """
    if kind not in (*get_args(PolicyKind), "all"):
        raise ConfigError("no such policy", policy=kind, known=[*get_args(PolicyKind), "all"])
    wrong = [limit for limit in limits if not limit > 0]
    if wrong or not limits:
        raise ConfigError("limits must be above 0", limits=list(limits))
    all_policies = [Policy("proximity"), *(Policy("joint", limit) for limit in limits), Policy("interest")]
    return [policy for policy in all_policies if kind in ("all", policy.kind)]
