"""Balancing a placement without adding hosts, so that limits are kept where the model is wrong.

Topics are moved and swapped between hosts while the cost of the most expensive hosts falls. The cost of a host is the
sum of (p90 / limit)^4 over its topics, so a topic near its limit counts as much as many that are far from theirs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thinwire.placement.feasibility import HostFeasibility
from thinwire.placement.heuristics import Shared
from thinwire.placement.hosts import Vector

SHARPNESS = 4.0
ROUNDS = 300
PARTNERS = 24
"""cheapest hosts that swaps are tried with"""
TRIES = 2
"""largest number of hosts that balancing tries to remove"""
BETTER = 1e-6


def balanced(feasibility: HostFeasibility, placed: Sequence[Shared], k: int, *, least: int = 0) -> list[Shared]:
    """Return a balanced placement on at most as many hosts; a feasible placement stays feasible.

    least: lower bound; if it is below the number of hosts, fewer hosts are tried
    """
    for count in range(max(least, 1, len(placed) - TRIES), len(placed)):
        if count * k >= len(feasibility.types):
            fewer = _improved(feasibility, spread(feasibility, count, k), k)
            if _allowed(feasibility, fewer):
                return fewer
    found = [_improved(feasibility, start, k) for start in (placed, spread(feasibility, len(placed), k))]
    allowed = [hosts for hosts in found if _allowed(feasibility, hosts)]
    return min(allowed or [list(placed)], key=lambda hosts: sum(_costs(feasibility, hosts)))


def _allowed(feasibility: HostFeasibility, hosts: Sequence[Shared]) -> bool:
    return all(feasibility.is_feasible(feasibility.pattern_of(shared)) for shared in hosts if shared)


def spread(feasibility: HostFeasibility, hosts: int, k: int) -> list[Shared]:
    """Assign topics by falling load, each to the host with the least load and free capacity."""
    held: list[list[int]] = [[] for _ in range(hosts)]
    loads = np.zeros(hosts)
    order = sorted(
        range(len(feasibility.types)), key=lambda topic: (-feasibility.loads[feasibility.types[topic]], topic)
    )
    for topic in order:
        least = int(loads.argmin())
        held[least].append(topic)
        loads[least] += feasibility.loads[feasibility.types[topic]]
        if len(held[least]) == k:
            loads[least] = np.inf
    return [tuple(shared) for shared in held]


def _improved(feasibility: HostFeasibility, placed: Sequence[Shared], k: int) -> list[Shared]:
    hosts = list(placed)
    costs = np.array(_costs(feasibility, hosts))
    finished: set[int] = set()
    for _ in range(ROUNDS):
        worst = next((host for host in np.argsort(-costs, kind="stable").tolist() if host not in finished), None)
        if worst is None:
            break
        change = _best_change(feasibility, hosts, costs, worst, k)
        if change is None:
            finished.add(worst)
            continue
        other, own, theirs = change
        hosts[worst], hosts[other] = own, theirs
        costs[[worst, other]] = _costs(feasibility, [own, theirs])
        finished -= {worst, other}
    return hosts


def _best_change(
    feasibility: HostFeasibility, hosts: Sequence[Shared], costs: Vector, worst: int, k: int
) -> tuple[int, Shared, Shared] | None:
    """Return the move or swap with the largest gain that keeps feasible hosts feasible; None if there is none."""
    partners = [host for host in np.argsort(costs, kind="stable").tolist() if host != worst][:PARTNERS]
    changes = [change for other in partners for change in _changes(feasibility, hosts, worst, other, k)]
    if not changes:
        return None
    priced = _costs(feasibility, [part for _, *parts in changes for part in parts])
    after = np.array(priced).reshape(-1, 2).sum(axis=1)
    before = np.array([costs[worst] + costs[other] for other, _, _ in changes])
    for best in map(int, np.argsort(after - before, kind="stable")):
        if after[best] >= before[best] * (1 - BETTER) - BETTER:
            return None
        other, own, theirs = changes[best]
        if _allowed(feasibility, [own, theirs]) or not _allowed(feasibility, [hosts[worst], hosts[other]]):
            return changes[best]
    return None


def _changes(
    feasibility: HostFeasibility, hosts: Sequence[Shared], worst: int, other: int, k: int
) -> list[tuple[int, Shared, Shared]]:
    """Return moves and swaps between two hosts, one per pair of types."""
    found, seen = [], set()
    offers: list[int | None] = [*hosts[other], *([None] if len(hosts[other]) < k else [])]
    for given in hosts[worst]:
        for taken in offers:
            kinds = (feasibility.types[given], None if taken is None else feasibility.types[taken])
            if kinds in seen or kinds[0] == kinds[1]:
                continue
            seen.add(kinds)
            own = [topic for topic in hosts[worst] if topic != given] + ([] if taken is None else [taken])
            theirs = [topic for topic in hosts[other] if topic != taken] + [given]
            found.append((other, tuple(own), tuple(theirs)))
    return found


def _costs(feasibility: HostFeasibility, hosts: Sequence[Shared]) -> list[float]:
    """Return the cost of each set; sets of equal size are evaluated together."""
    patterns = [feasibility.pattern_of(shared) for shared in hosts]
    found = [0.0] * len(patterns)
    for size in sorted({len(pattern) for pattern in patterns if pattern}):
        places = [place for place, pattern in enumerate(patterns) if len(pattern) == size]
        strains = feasibility.violations(np.array([patterns[place] for place in places], np.int64))
        costs = np.exp(SHARPNESS * np.minimum(strains, 20.0)).sum(axis=1)
        for place, cost in zip(places, costs.tolist(), strict=True):
            found[place] = cost
    return found
