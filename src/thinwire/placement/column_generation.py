"""Column generation over types of topics: a placement with few hosts and a lower bound.

Patterns of types are generated until none has more value than a host. The value of this relaxation, rounded up, is a
lower bound on the number of hosts; if generation stops early, a weaker bound holds. The relaxation includes that a
lighter type can replace a heavier one, which saves most pivots. Patterns near those in use are tried first (one topic
more, or one exchanged); only then the pricing problem is solved. Integer solutions are found by diving: take the
integer part of the relaxation, fix the largest fraction, generate patterns for the rest, and solve again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thinwire.placement.feasibility import HostFeasibility, Places, lighter, steps
from thinwire.placement.heuristics import Shared, first_fit, pairs
from thinwire.placement.hosts import Vector, bucketed, check_together
from thinwire.placement.pattern_pricing import Counts, PatternSearch, every_pattern
from thinwire.placement.simplex import Master

MAX_EVALUATED = 20_000
"""largest number of sets evaluated for patterns of one size"""
MAX_NEARBY = 60
"""largest number of patterns returned by `nearby`"""
ABOVE = 1e-6


def nearby(feasibility: HostFeasibility, master: Master, k: int) -> tuple[list[Vector], int]:
    """Return patterns of more value than a host, best first, as counts by type; and the number of sets evaluated."""
    prices, demands, evaluated = master.prices, master.demands, 0
    good: list[tuple[float, Vector]] = []
    for sets in _by_size(_changed(prices, demands, pattern, k) for pattern, _ in master.used):
        worths = prices[sets].sum(axis=1)
        best = np.argsort(-worths, kind="stable")[:MAX_EVALUATED]
        kept = best[feasibility.check_sets(sets[best])][:MAX_NEARBY]
        evaluated += len(best)
        good += [(float(worths[n]), _counted(sets[n], len(prices))) for n in kept.tolist()]
    good.sort(key=lambda pair: -pair[0])
    return [counts for _, counts in good[:MAX_NEARBY]], evaluated


def _changed(prices: Vector, demands: Vector, pattern: Vector, k: int) -> Iterator[Places]:
    """Yield the variants of a pattern with one topic more or one exchanged that have more value than a host."""
    held = _types_of(pattern)
    free = pattern < demands
    worth = prices[held].sum()
    if len(held) < k:
        added = np.flatnonzero(free & (worth + prices > 1.0 + ABOVE))
        yield np.column_stack((np.tile(held, (len(added), 1)), added))
    places, added = np.nonzero((worth - prices[held][:, None] + prices > 1.0 + ABOVE) & free)
    swapped = np.tile(held, (len(places), 1))
    swapped[np.arange(len(places)), places] = added
    yield swapped[held[places] != added]


def _by_size(changes: Iterator[Iterator[Places]]) -> list[Places]:
    """Return the distinct sets of each size."""
    found: dict[int, list[Places]] = {}
    for some in (sets for change in changes for sets in change if len(sets)):
        found.setdefault(some.shape[1], []).append(np.sort(some, axis=1))
    return [np.unique(np.concatenate(sets), axis=0) for sets in found.values()]


def _counted(kinds: Places, types: int) -> Vector:
    return np.bincount(kinds, minlength=types).astype(np.float64)


def _types_of(pattern: Vector) -> Places:
    """Return the type of every topic of a pattern."""
    return np.repeat(np.arange(len(pattern)), pattern.astype(np.int64))


BUDGET = 2_000_000
"""largest number of sets that a pricing search evaluates"""
MAX_ENUMERATED = 500_000
"""largest number of sets evaluated to enumerate all patterns; these are stored"""
FEW_TYPES = (28, 24, 20, 14)
"""numbers of types to round topics to until all patterns can be enumerated"""
MAX_MATCHED = 150
"""largest number of topics for which k = 2 is solved exactly by matching"""
MAX_ADDED = 50
"""largest number of patterns added before solving again"""
ENOUGH = 24
"""patterns after which a pricing search stops"""
FEW, ROUNDS = 5, 100
"""number of new nearby patterns below which pricing starts; and the largest number of rounds before it"""
DIVE_ROUNDS = 6
"""largest number of rounds while diving"""
DIVES = 8
"""largest number of dives, each with a different start"""
MAX_REPEATED = 500
"""largest number of topics for which dives are repeated"""
MOST_SLACK, LAST_SLACK = 0.5, 1e-4
SMALL = 1e-6


@dataclass(frozen=True)
class Relaxation:
    """Patterns of the relaxation and its lower bound.

    bound: no feasible placement needs fewer hosts
    complete: whether the relaxation was solved to optimality
    """

    master: Master
    bound: int
    complete: bool


def relax(feasibility: HostFeasibility, k: int, *, budget: int = BUDGET) -> Relaxation:
    """Generate patterns until the relaxation is optimal or the budget is spent."""
    master, offered = Master(feasibility.type_counts, steps(lighter(feasibility))), first_fit(feasibility, k)
    least = math.ceil(len(feasibility.types) / check_together(k))
    types, count = np.array(feasibility.types, np.int64), len(feasibility.rates)
    _offer_all(master, (_counted(types[list(shared)], count) for shared in offered))
    if least == len(offered) or (k == 2 and len(types) <= MAX_MATCHED):
        master.solve()
        return Relaxation(master, least if least == len(offered) else len(pairs(feasibility, range(len(types)))), True)
    few = len(feasibility.rates) <= FEW_TYPES[0]
    every = every_pattern(feasibility, k, budget=min(budget, MAX_ENUMERATED)) if few else None
    if every is not None:
        bound, complete = _solve_with(master, every), True
    else:
        bound, complete = _solve_by_pricing(feasibility, master, k, budget)
    return Relaxation(master, max(least, math.ceil(bound - SMALL)), complete)


def _solve_with(master: Master, every: Counts) -> float:
    """Solve with a known set of patterns and return a lower bound for it."""
    while True:
        master.solve()
        worths = every @ master.prices
        best = np.argsort(-worths, kind="stable")[:MAX_ADDED]
        good = [every[place].astype(np.float64) for place in best.tolist() if worths[place] > 1.0 + SMALL]
        if not _offer_all(master, iter(good)):
            # Prices divided by the largest value give no pattern more value than a host: their sum is a bound.
            return master.value / max(1.0, float(worths.max(initial=1.0)))


def _solve_by_pricing(feasibility: HostFeasibility, master: Master, k: int, budget: int) -> tuple[float, bool]:
    """Solve by pricing; return the best bound and whether it is optimal."""
    left, bound, complete = budget, 0.0, False
    while left > 0 and not complete:
        left -= _add_nearby(feasibility, master, k)
        slack = _slack(master.value)
        search = PatternSearch(feasibility, master.prices, k, budget=left, slack=slack, enough=ENOUGH)
        search.run()
        left -= max(search.evaluated, 1)
        bound = max(bound, master.value / search.worth)
        _solve_with(master, search.best_patterns())
        complete = math.ceil(bound - SMALL) >= math.ceil(master.value - SMALL)
    return bound, complete


def _add_nearby(feasibility: HostFeasibility, master: Master, k: int, rounds: int = ROUNDS) -> int:
    """Solve repeatedly with nearby patterns; return the number of sets evaluated."""
    total = 0
    for _ in range(rounds):
        master.solve()
        patterns, evaluated = nearby(feasibility, master, k)
        total += evaluated
        if _offer_all(master, iter(patterns)) < FEW:
            break
    master.solve()
    return total


def _slack(value: float) -> float:
    """Return how much the value of a pattern may exceed a host without lowering the rounded bound.

    >>> round(_slack(12.6), 3), _slack(12.0) > 0.09
    (0.05, True)
    """
    fewer = math.ceil(value - SMALL) - 1
    return max(min(value / fewer - 1.0, MOST_SLACK) - SMALL, LAST_SLACK) if fewer else MOST_SLACK


def best_bound(feasibility: HostFeasibility, k: int, relaxed: Relaxation, *, budget: int = BUDGET) -> int:
    """Return the best lower bound; for an incomplete relaxation also try fewer types with rates rounded down."""
    if relaxed.complete:
        return relaxed.bound
    for types in FEW_TYPES:
        rough = bucketed(feasibility.topics, types=types, up=False)
        fewer = HostFeasibility(feasibility.model, feasibility.host, rough)
        every = every_pattern(fewer, k, budget=min(budget, MAX_ENUMERATED))
        if every is not None:
            return max(relaxed.bound, math.ceil(_solve_with(Master(fewer.type_counts), every) - SMALL))
    return relaxed.bound


def dive(feasibility: HostFeasibility, k: int, relaxed: Relaxation) -> list[Shared]:
    """Return an integer solution from the relaxation, with at most as many hosts as first fit."""
    options = [first_fit(feasibility, k), first_fit(feasibility, k, by="load")]
    if k == 2 and len(feasibility.types) <= MAX_MATCHED:
        options.append(pairs(feasibility, range(len(feasibility.types))))
    else:
        for turn in range(DIVES if len(feasibility.types) <= MAX_REPEATED else 1):
            if min(map(len, options)) > relaxed.bound:
                options.append(_assign_topics(feasibility, _rounded(feasibility, relaxed, k, turn)))
    return min(options, key=len)


def _rounded(feasibility: HostFeasibility, relaxed: Relaxation, k: int, turn: int) -> Iterator[Vector]:
    """Yield one pattern per host until every topic is covered; start with the pattern of rank `turn` by share."""
    left, below = feasibility.type_counts.copy(), lighter(feasibility)
    patterns, used = relaxed.master.patterns, relaxed.master.used
    while left.sum() > 0:
        fixed = [(pattern, math.floor(share + SMALL)) for pattern, share in used]
        if turn or not any(times for _, times in fixed):
            fixed = [(sorted(used, key=lambda pair: -pair[1])[min(turn, len(used) - 1)][0], 1)]
        turn, before = 0, left
        for pattern in (pattern for pattern, times in fixed for _ in range(times)):
            taken = _fill_pattern(feasibility, pattern, left, below)
            if taken.sum() > 0:
                left = left - taken
                yield taken
        if left is before:  # shares from rounding errors cover no topic: give one topic a host
            taken = np.eye(len(left))[int((left > 0).argmax())]
            left = left - taken
            yield taken
        master = Master(left, steps(below))
        _offer_all(master, (np.minimum(pattern, left) for pattern in patterns))
        _add_nearby(feasibility, master, k, DIVE_ROUNDS)
        patterns, used = master.patterns, master.used


def _fill_pattern(feasibility: HostFeasibility, pattern: Vector, left: Vector, below: NDArray[np.bool_]) -> Vector:
    """Return the topics that fill a pattern: its own types, otherwise the heaviest lighter ones that are left."""
    taken = np.minimum(pattern, left)
    for kind in _types_of(pattern - taken).tolist():
        fitting = np.flatnonzero(below[:, kind] & (taken < left))
        if len(fitting):
            taken[fitting[feasibility.loads[fitting].argmax()]] += 1
    return np.asarray(taken)


def _assign_topics(feasibility: HostFeasibility, patterns: Iterator[Vector]) -> list[Shared]:
    waiting: list[list[int]] = [[] for _ in feasibility.rates]
    for topic in range(len(feasibility.types) - 1, -1, -1):
        waiting[feasibility.types[topic]].append(topic)
    return [tuple(waiting[kind].pop() for kind in _types_of(pattern).tolist()) for pattern in patterns]


def _offer_all(master: Master, patterns: Iterator[Vector]) -> int:
    return sum([master.offer(pattern) for pattern in patterns if pattern.any()])
