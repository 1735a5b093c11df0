"""The fewest hosts for a handful of topics, by looking at everything: the reference the solvers are held against."""

from __future__ import annotations

from itertools import combinations

from thinwire.errors import ConfigError
from thinwire.placement.feasibility_judge import Judge
from thinwire.placement.heuristics_greedy import Shared
from thinwire.placement.hosts_topics import check_together

MAX_TOPICS = 14


def fewest(judge: Judge, k: int) -> list[Shared]:
    """A placement with the fewest hosts; every set of topics is built from a smaller one."""
    count = len(judge.of)
    if count > MAX_TOPICS:
        raise ConfigError("too many topics to look at everything", field="topics", value=count, limit=MAX_TOPICS)
    good = _feasible(judge, check_together(k))
    best: dict[int, tuple[Shared, ...]] = {0: ()}
    for mask in range(1, 1 << count):
        lowest = mask & -mask
        options = (best[mask ^ part] + (shared,) for part, shared in good if part & lowest and part & mask == part)
        best[mask] = min(options, key=len)
    return list(best[(1 << count) - 1])


def _feasible(judge: Judge, k: int) -> list[tuple[int, Shared]]:
    """Sets that keep their promises, as bits and as topics."""
    count = len(judge.of)
    every = [shared for size in range(1, k + 1) for shared in combinations(range(count), size)]
    judge.learn(judge.pattern(shared) for shared in every)
    kept = [shared for shared in every if judge.fits(judge.pattern(shared))]
    return [(sum(1 << topic for topic in shared), shared) for shared in kept]
