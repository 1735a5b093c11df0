"""Three ways to assign subscribers to brokers, and the trade-off between the first two.

By place: everybody goes to the nearest broker; the super-interest of a broker, the box around all its rectangles, then
covers nearly everything. By interest: similar interests share a broker, wherever it is. Jointly: like by interest, but
nobody is sent further than a limit allows, and a millisecond has a price in events; it begins once with nothing and
once with the super-interests of going by interest, each moved to where most of its subscribers are, and keeps the
better outcome.

Policies of assignment by name, as the verb and the bench try them side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import Literal, get_args

import numpy as np

from thinwire.errors import ConfigError
from thinwire_lab.workload.assignment.assignment_costs import Deliveries, GroupDemands, Places, burden, nowhere
from thinwire_lab.workload.assignment.assignment_kernels import exchange, give, travel
from thinwire_lab.workload.random_rows import Floats, Rows

FULL = 4.0
"""mean loads that a broker takes at most, unless more are nearest to it"""
PRICE = 1e-6
"""share of all events that a millisecond is worth"""


def by_place(groups: GroupDemands) -> Rows:
    """The nearest broker of every group."""
    return groups.nearest


def by_interest(groups: GroupDemands, *, full: float = FULL) -> Rows:
    """For every group the broker whose super-interest grows least, wherever it is."""
    return _Giving(groups, full).give(np.full(len(groups.weight), np.inf), 0.0)


def jointly(groups: GroupDemands, limit: float, *, price: float = PRICE, full: float = FULL) -> Rows:
    """For every group the broker whose super-interest grows least among those within the limit.

    limit: milliseconds that a group accepts, infinity for no limit; one whose nearest broker is further goes there
    price: share of all events that a millisecond is worth where both can be had
    """
    if not limit > 0 or not price >= 0:
        raise ConfigError("a limit is above 0 and a price at least 0", limit=limit, price=price)
    giving = _Giving(groups, full)
    home = np.linalg.norm(groups.centres - groups.brokers[groups.nearest], axis=1)
    reach = np.maximum(limit, home * (1 + 1e-9))  # rounding must not put a group's own nearest broker out of reach
    first = giving.give(reach, price)
    ways = [
        giving.give(reach, price, giving.covered(first)),
        giving.give(reach, price, giving.covered(_seated(groups, by_interest(groups, full=full)))),
    ]
    return min(ways, key=lambda chosen: burden(groups, chosen).wasted)


def _seated(groups: GroupDemands, chosen: Rows) -> Rows:
    """The same companies of groups, each with the broker that all of them together have the least way to."""
    count = len(groups.brokers)
    total, seat = np.zeros((count, count)), np.arange(count)
    travel(chosen, groups.weight, groups.centres, groups.brokers, total)
    exchange(total, seat)
    return np.asarray(seat[chosen])


class _Giving:
    """Gives all groups to brokers, broad interests first: a narrow one then finds a super-interest that holds it."""

    def __init__(self, groups: GroupDemands, full: float) -> None:
        if not full >= 1.0:
            raise ConfigError("a broker takes at least the mean load", full=full, lowest=1)
        groups.check()
        self.groups = groups
        self.room = max(full * groups.weight.sum() / len(groups.brokers), groups.weight.max())
        self.sets = Deliveries.of(groups.events)
        self.begin, self.end = self.sets.sides(groups.low, groups.high)
        self.order = np.argsort(-np.prod(groups.high - groups.low, axis=1), kind="stable")

    def give(self, limits: Floats, price: float, boxes: tuple[Places, Places] | None = None) -> Rows:
        """The broker of each group; `boxes` are super-interests to begin with."""
        groups, count = self.groups, len(self.groups.brokers)
        begins, ends = boxes or nowhere(self.sets, count)
        chosen, room = np.full(len(groups.weight), -1, dtype=np.int64), np.full(count, self.room)
        given = (self.sets.until, self.begin, self.end, groups.weight, groups.centres, groups.brokers)
        give(self.order, *given, limits, room, price * len(groups.events), begins, ends, chosen)
        return chosen

    def covered(self, chosen: Rows) -> tuple[Places, Places]:
        """The super-interests of an assignment."""
        begins, ends = nowhere(self.sets, len(self.groups.brokers))
        np.minimum.at(begins, chosen, self.begin)
        np.maximum.at(ends, chosen, self.end)
        return begins, ends


Kind = Literal["proximity", "interest", "joint"]
LIMITS = (1.1, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, inf)
"""of a joint policy, in usual latencies: what nine in ten have to their nearest broker"""
SHORTEST = 1e-9
"""milliseconds: a limit where everybody sits at a broker"""


@dataclass(frozen=True)
class Policy:
    """A way to assign subscribers.

    limit: of a joint one, how far subscribers may be sent, in usual latencies
    """

    kind: Kind
    limit: float = inf

    @property
    def name(self) -> str:
        """How it is called in a table.

        >>> Policy("joint", 1.5).name, Policy("joint").name, Policy("interest").name
        ('joint, 1.5x', 'joint, no limit', 'interest')
        """
        if self.kind != "joint":
            return self.kind
        return f"joint, {self.limit:g}x" if isfinite(self.limit) else "joint, no limit"

    def choose(self, groups: GroupDemands) -> Rows:
        """The broker of every group."""
        if self.kind == "proximity":
            return by_place(groups)
        if self.kind == "interest":
            return by_interest(groups)
        limit = self.limit * groups.usual if isfinite(self.limit) else inf
        return jointly(groups, max(limit, SHORTEST))


def policies(kind: str, limits: Sequence[float] = LIMITS) -> list[Policy]:
    """The policies of a kind; `all` are those of every kind, from near to similar.

    >>> [policy.name for policy in policies("all", [2.0])]
    ['proximity', 'joint, 2x', 'interest']
    """
    if kind not in (*get_args(Kind), "all"):
        raise ConfigError("no such policy", policy=kind, known=[*get_args(Kind), "all"])
    wrong = [limit for limit in limits if not limit > 0]
    if wrong or not limits:
        raise ConfigError("limits are above 0, in usual latencies", limits=list(limits))
    every = [Policy("proximity"), *(Policy("joint", limit) for limit in limits), Policy("interest")]
    return [policy for policy in every if kind in ("all", policy.kind)]
