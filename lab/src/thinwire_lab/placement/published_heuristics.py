"""Published placement heuristics based on feasible sets of topics.

Largest feasible set fills one host after another with as many topics as possible. The hybrid starts with feasible sets
of a given size and extends them by first fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from thinwire.errors import ConfigError
from thinwire.placement.feasibility import HostFeasibility
from thinwire.placement.heuristics import Shared, ordered, pairs
from thinwire.placement.hosts import check_together

MAX_SETS = 200_000
"""largest number of sets to evaluate"""


def largest_sets(feasibility: HostFeasibility, k: int, *, first: int | None = None) -> list[Shared]:
    """Take feasible sets of falling size; pairs are chosen by maximum matching.

    first: start with sets of this size and fill them by first fit (the hybrid); default k
    """
    check_together(k)
    left = ordered(feasibility)
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
