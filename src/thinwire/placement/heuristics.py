"""First fit, maximum pairing, and an exhaustive search for small inputs.

First fit takes topics by falling latency and puts each on the first host that can take it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Literal

from thinwire.errors import ConfigError
from thinwire.placement.feasibility import HostFeasibility, Pattern, joined
from thinwire.placement.hosts import check_together
from thinwire.placement.matching import maximum_matching

Shared = tuple[int, ...]
"""indexes of topics that share a host"""
Order = Literal["latency", "load"]
MAX_TOPICS = 14
"""largest input of the exhaustive search"""


def first_fit(feasibility: HostFeasibility, k: int, by: Order = "latency") -> list[Shared]:
    """Assign topics by falling latency or load, each to the first host that can take it."""
    hosts: list[list[int]] = []
    kinds: list[Pattern] = []
    before, start = -1, 0
    for topic in ordered(feasibility, by):
        kind = feasibility.types[topic]
        if kind != before:
            before, start = kind, 0
            feasibility.evaluate({joined(pattern, kind) for pattern in kinds if len(pattern) < check_together(k)})
        # Hosts before `start` refused a topic of this type and have not changed since.
        open_hosts = (n for n in range(start, len(hosts)) if len(kinds[n]) < k)
        start = next((n for n in open_hosts if feasibility.is_feasible(joined(kinds[n], kind))), len(hosts))
        if start == len(hosts):
            hosts.append([])
            kinds.append(())
        hosts[start].append(topic)
        kinds[start] = joined(kinds[start], kind)
    return [tuple(host) for host in hosts]


def pairs(feasibility: HostFeasibility, topics: Sequence[int]) -> list[Shared]:
    """Return as many pairs as possible and the rest alone: the optimum for k = 2."""
    feasibility.evaluate({feasibility.pattern_of(pair) for pair in combinations(topics, 2)})
    numbers = combinations(range(len(topics)), 2)
    edges = [(a, b) for a, b in numbers if feasibility.is_feasible(feasibility.pattern_of((topics[a], topics[b])))]
    partner = maximum_matching(len(topics), edges)
    return [(topics[a],) if b < 0 else (topics[a], topics[b]) for a, b in enumerate(partner) if b < 0 or a < b]


def ordered(feasibility: HostFeasibility, by: Order = "latency") -> list[int]:
    """Return topics by falling latency alone on a host, or by falling load."""
    weight = feasibility.violations_alone() if by == "latency" else feasibility.loads
    kinds = feasibility.types
    return sorted(range(len(kinds)), key=lambda topic: (-weight[kinds[topic]], kinds[topic], topic))


def fewest(feasibility: HostFeasibility, k: int) -> list[Shared]:
    """Return an optimal placement by dynamic programming over sets of topics."""
    count = len(feasibility.types)
    if count > MAX_TOPICS:
        raise ConfigError("too many topics for an exhaustive search", field="topics", value=count, limit=MAX_TOPICS)
    every = [shared for size in range(1, check_together(k) + 1) for shared in combinations(range(count), size)]
    feasibility.evaluate(feasibility.pattern_of(shared) for shared in every)
    feasible = [shared for shared in every if feasibility.is_feasible(feasibility.pattern_of(shared))]
    good = [(sum(1 << topic for topic in shared), shared) for shared in feasible]  # as bit masks and as indexes
    best: dict[int, tuple[Shared, ...]] = {0: ()}
    for mask in range(1, 1 << count):
        lowest = mask & -mask
        options = (best[mask ^ part] + (shared,) for part, shared in good if part & lowest and part & mask == part)
        best[mask] = min(options, key=len)
    return list(best[(1 << count) - 1])
