"""Policies of assignment by name, as the verb and the bench try them side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import Literal, get_args

from thinwire.errors import ConfigError
from thinwire_lab.workload.assignment.assignment_costs_demands import Demands
from thinwire_lab.workload.assignment.broker_assignment import by_interest, by_place, jointly
from thinwire_lab.workload.random_rows_randomness import Rows

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

    def choose(self, groups: Demands) -> Rows:
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
