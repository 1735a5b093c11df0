"""The same number of hosts, the load spread: what keeps promises where a model errs.

A solver stops at the first placement that is allowed; topics are then moved and swapped between hosts as long as the
worst hosts get better. The cost of a host is the sum over its topics of (p90 / promise) to the fourth power, so a topic
near its promise weighs as much as many that are far from it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thinwire.placement.feasibility import HostFeasibility, Pattern
from thinwire.placement.heuristics import Shared
from thinwire.placement.hosts import Vector

SHARPNESS = 4.0
ROUNDS = 300
PARTNERS = 24
"""hosts with which a host tries to swap, the least strained ones"""
TRIES = 2
"""hosts that spreading tries to save, at most"""
BETTER = 1e-6


def balanced(
    judge: HostFeasibility, placed: Sequence[Shared], k: int, *, least: int = 0, rounds: int = ROUNDS
) -> list[Shared]:
    """The topics on as many hosts, or fewer, spread; never what the judge refuses where the first was allowed.

    least: a lower bound; where it is below what was found, spreading over fewer hosts is tried
    """
    for count in range(max(least, 1, len(placed) - TRIES), len(placed)):
        fewer = _improved(judge, spread(judge, count, k), k, rounds) if count * k >= len(judge.of) else []
        if fewer and _allowed(judge, fewer):
            return fewer
    found = [_improved(judge, start, k, rounds) for start in (list(placed), spread(judge, len(placed), k))]
    allowed = [hosts for hosts in found if _allowed(judge, hosts)]
    return min(allowed or [list(placed)], key=lambda hosts: sum(_costs(judge, [judge.pattern(s) for s in hosts])))


def _allowed(judge: HostFeasibility, hosts: Sequence[Sequence[int]]) -> bool:
    return all(judge.fits(judge.pattern(shared)) for shared in hosts if shared)


def spread(judge: HostFeasibility, hosts: int, k: int) -> list[Shared]:
    """Heaviest topic first, each to the host with the least load that has room."""
    held: list[list[int]] = [[] for _ in range(hosts)]
    loads = np.zeros(hosts)
    order = sorted(range(len(judge.of)), key=lambda topic: (-judge.loads[judge.of[topic]], topic))
    for topic in order:
        least = int(loads.argmin())
        held[least].append(topic)
        loads[least] += judge.loads[judge.of[topic]]
        if len(held[least]) == k:
            loads[least] = np.inf
    return [tuple(shared) for shared in held]


def _improved(judge: HostFeasibility, placed: list[Shared], k: int, rounds: int) -> list[Shared]:
    hosts = [list(shared) for shared in placed]
    costs = np.array(_costs(judge, [judge.pattern(shared) for shared in hosts]))
    settled: set[int] = set()
    for _ in range(rounds):
        open_hosts = [host for host in np.argsort(-costs, kind="stable").tolist() if host not in settled]
        if not open_hosts:
            break
        worst = open_hosts[0]
        change = _best_change(judge, hosts, costs, worst, k)
        if change is None:
            settled.add(worst)
            continue
        other, own, theirs = change
        hosts[worst], hosts[other] = own, theirs
        costs[[worst, other]] = _costs(judge, [judge.pattern(own), judge.pattern(theirs)])
        settled -= {worst, other}
    return [tuple(shared) for shared in hosts]


def _best_change(
    judge: HostFeasibility, hosts: list[list[int]], costs: Vector, worst: int, k: int
) -> tuple[int, list[int], list[int]] | None:
    """The move or swap with another host that helps most, and leaves both allowed if they are; None where none does."""
    partners = [host for host in np.argsort(costs, kind="stable").tolist() if host != worst][:PARTNERS]
    changes = [change for other in partners for change in _changes(judge, hosts, worst, other, k)]
    if not changes:
        return None
    priced = _costs(judge, [judge.pattern(part) for _, own, theirs in changes for part in (own, theirs)])
    after = np.array(priced).reshape(-1, 2).sum(axis=1)
    before = np.array([costs[worst] + costs[other] for other, _, _ in changes])
    for best in map(int, np.argsort(after - before, kind="stable")):
        if after[best] >= before[best] * (1 - BETTER) - BETTER:
            return None
        other, own, theirs = changes[best]
        if _allowed(judge, [own, theirs]) or not _allowed(judge, [hosts[worst], hosts[other]]):
            return changes[best]
    return None


def _changes(
    judge: HostFeasibility, hosts: list[list[int]], worst: int, other: int, k: int
) -> list[tuple[int, list[int], list[int]]]:
    """Moves and swaps between two hosts; of topics of one type, one is tried."""
    found, seen = [], set()
    gifts: list[int | None] = [*hosts[other], *([None] if len(hosts[other]) < k else [])]
    for given in hosts[worst]:
        for taken in gifts:
            kinds = (judge.of[given], None if taken is None else judge.of[taken])
            if kinds in seen or kinds[0] == kinds[1]:
                continue
            seen.add(kinds)
            back = [] if taken is None else [taken]
            own = [topic for topic in hosts[worst] if topic != given] + back
            theirs = [topic for topic in hosts[other] if topic != taken] + [given]
            found.append((other, own, theirs))
    return found


def _costs(judge: HostFeasibility, patterns: Sequence[Pattern]) -> list[float]:
    """The cost of each set, in their order; those of one size are asked about together."""
    found = [0.0] * len(patterns)
    for size in sorted({len(pattern) for pattern in patterns if pattern}):
        places = [place for place, pattern in enumerate(patterns) if len(pattern) == size]
        strains = judge.strains(np.array([patterns[place] for place in places], np.int64))
        costs = np.exp(SHARPNESS * np.minimum(strains, 20.0)).sum(axis=1)
        for place, cost in zip(places, costs.tolist(), strict=True):
            found[place] = cost
    return found
