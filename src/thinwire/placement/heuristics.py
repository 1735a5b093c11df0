"""Heuristics from the literature, and an exhaustive search for small inputs as their reference.

First fit takes topics by falling latency and puts each on the first host that can take it. Largest feasible set fills
one host after another with as many topics as possible. The hybrid starts with feasible sets and extends them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Literal

from thinwire.errors import ConfigError
from thinwire.placement.feasibility import HostFeasibility, Pattern, joined
from thinwire.placement.hosts import check_together
from thinwire.placement.matching import maximum_matching

Shared = tuple[int, ...]
"""indexes of topics that share a host"""
Order = Literal["latency", "load"]

MAX_SETS = 200_000
"""largest number of sets to evaluate in `largest_sets`"""


def first_fit(
    feasibility: HostFeasibility, k: int, topics: Iterable[int] | None = None, by: Order = "latency"
) -> list[Shared]:
    """Assign topics by falling latency or load, each to the first host that can take it."""
    hosts: list[list[int]] = []
    kinds: list[Pattern] = []
    before, start = -1, 0
    for topic in ordered(feasibility, topics, by):
        kind = feasibility.types[topic]
        if kind != before:
            before, start = kind, 0
            feasibility.evaluate({joined(pattern, kind) for pattern in kinds if len(pattern) < check_together(k)})
        # Hosts before `start` refused a topic of this type and have not changed since.
        start = next((n for n in range(start, len(hosts)) if _takes(feasibility, kinds[n], kind, k)), len(hosts))
        if start == len(hosts):
            hosts.append([])
            kinds.append(())
        hosts[start].append(topic)
        kinds[start] = joined(kinds[start], kind)
    return [tuple(host) for host in hosts]


def largest_sets(
    feasibility: HostFeasibility, k: int, topics: Iterable[int] | None = None, *, first: int | None = None
) -> list[Shared]:
    """Take feasible sets of falling size; pairs are chosen by maximum matching.

    first: start with sets of this size and fill them by first fit (the hybrid); default k
    """
    check_together(k)
    left = ordered(feasibility, topics, "latency")
    size = k if first is None else min(first, k)
    budget = [MAX_SETS]
    placed: list[Shared] = []
    if first is not None:
        while left and (found := _feasible(feasibility, left, size, budget)):
            placed.append(_filled(feasibility, found, left, k))
            left = [topic for topic in left if topic not in placed[-1]]
        size -= 1
    while left and size > 2:
        while found := _feasible(feasibility, left, size, budget):
            placed.append(found)
            left = [topic for topic in left if topic not in found]
        size -= 1
    return placed + (pairs(feasibility, left) if size == 2 else [(topic,) for topic in left])


def pairs(feasibility: HostFeasibility, topics: Sequence[int]) -> list[Shared]:
    """Return as many pairs as possible and the rest alone: the optimum for k = 2."""
    feasibility.evaluate({feasibility.pattern_of(pair) for pair in combinations(topics, 2)})
    edges = [
        (a, b)
        for a in range(len(topics))
        for b in range(a + 1, len(topics))
        if feasibility.is_feasible(feasibility.pattern_of((topics[a], topics[b])))
    ]
    partner = maximum_matching(len(topics), edges)
    return [(topics[a],) if b < 0 else (topics[a], topics[b]) for a, b in enumerate(partner) if b < 0 or a < b]


def ordered(feasibility: HostFeasibility, topics: Iterable[int] | None, by: Order) -> list[int]:
    """Return topics by falling latency alone on a host, or by falling load."""
    weight = feasibility.violations_alone() if by == "latency" else feasibility.loads
    chosen = range(len(feasibility.types)) if topics is None else topics
    return sorted(chosen, key=lambda topic: (-weight[feasibility.types[topic]], feasibility.types[topic], topic))


def _takes(feasibility: HostFeasibility, pattern: Pattern, kind: int, k: int) -> bool:
    return len(pattern) < k and feasibility.is_feasible(joined(pattern, kind))


def _feasible(feasibility: HostFeasibility, topics: Sequence[int], size: int, budget: list[int]) -> Shared | None:
    return next(_extended(feasibility, topics, (), size, budget), None)


def _extended(
    feasibility: HostFeasibility, topics: Sequence[int], chosen: Shared, size: int, budget: list[int]
) -> Iterator[Shared]:
    """Yield feasible sets of a size that contain the chosen topics."""
    if len(chosen) == size:
        yield chosen
        return
    tried: set[int] = set()
    for place, topic in enumerate(topics):
        if feasibility.types[topic] in tried:
            continue
        tried.add(feasibility.types[topic])
        budget[0] -= 1
        if budget[0] < 0:
            raise ConfigError(
                "too many sets to evaluate: use first fit or column generation", field="sets", limit=MAX_SETS
            )
        if feasibility.is_feasible(feasibility.pattern_of((*chosen, topic))):
            yield from _extended(feasibility, topics[place + 1 :], (*chosen, topic), size, budget)


def _filled(feasibility: HostFeasibility, found: Shared, left: Sequence[int], k: int) -> Shared:
    held = list(found)
    for topic in left:
        if len(held) < k and topic not in held and feasibility.is_feasible(feasibility.pattern_of((*held, topic))):
            held.append(topic)
    return tuple(held)


MAX_TOPICS = 14
"""largest input of the exhaustive search"""


def fewest(feasibility: HostFeasibility, k: int) -> list[Shared]:
    """Return an optimal placement by dynamic programming over sets of topics."""
    count = len(feasibility.types)
    if count > MAX_TOPICS:
        raise ConfigError("too many topics for an exhaustive search", field="topics", value=count, limit=MAX_TOPICS)
    good = _feasible_sets(feasibility, check_together(k))
    best: dict[int, tuple[Shared, ...]] = {0: ()}
    for mask in range(1, 1 << count):
        lowest = mask & -mask
        options = (best[mask ^ part] + (shared,) for part, shared in good if part & lowest and part & mask == part)
        best[mask] = min(options, key=len)
    return list(best[(1 << count) - 1])


def _feasible_sets(feasibility: HostFeasibility, k: int) -> list[tuple[int, Shared]]:
    """Return the feasible sets as bit masks and as indexes."""
    count = len(feasibility.types)
    every = [shared for size in range(1, k + 1) for shared in combinations(range(count), size)]
    feasibility.evaluate(feasibility.pattern_of(shared) for shared in every)
    kept = [shared for shared in every if feasibility.is_feasible(feasibility.pattern_of(shared))]
    return [(sum(1 << topic for topic in shared), shared) for shared in kept]
