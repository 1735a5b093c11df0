"""The fewest hosts by column generation over types of topics, with a lower bound that holds.

Patterns of types are generated until none is worth more than a host. The value of that relaxation, rounded up, is a
lower bound on the number of hosts; cut short, a weaker bound holds still. Hosts in whole numbers are found by diving:
take what the relaxation uses whole, fix the largest part, solve again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from thinwire.placement.bucketing import bucketed
from thinwire.placement.greedy import Shared, first_fit, pairs
from thinwire.placement.judge import Judge
from thinwire.placement.pricing import Counts, every_pattern, price
from thinwire.placement.simplex import Master
from thinwire.placement.topics import Vector, check_together

BUDGET = 1_000_000
"""sets the judge may be asked about in all"""
FEW_TYPES = (28, 24, 20, 14)
"""types to which topics are rounded for a bound, until all their patterns can be looked at"""
MATCHED = 150
"""topics whose pairs are matched, at most: two on a host is a problem that can be solved for good"""
OFFERED = 50
"""patterns added to a relaxation at once, at most"""
FIRST_LOOK = 4000
MOST_SLACK, LAST_SLACK = 0.5, 1e-4
SMALL = 1e-6


@dataclass(frozen=True)
class Relaxed:
    """The relaxation: its patterns and the bound it proves.

    bound: no placement that this judge allows needs fewer hosts
    complete: was the relaxation solved to its end?
    """

    master: Master
    bound: int
    complete: bool


def relax(judge: Judge, k: int, *, budget: int = BUDGET) -> Relaxed:
    """Generate patterns until the bound stands or the budget is spent."""
    master, offered = Master(judge.demands), first_fit(judge, k)
    least = math.ceil(len(judge.of) / check_together(k))
    _offer_all(master, (_counts(judge, shared) for shared in offered))
    if least == len(offered):
        master.solve()
        return Relaxed(master, least, True)
    if k == 2 and len(judge.of) <= MATCHED:
        master.solve()
        return Relaxed(master, len(pairs(judge, range(len(judge.of)))), True)
    every = every_pattern(judge, k, budget=budget // 2) if len(judge.rates) <= FEW_TYPES[0] else None
    if every is not None:
        bound, complete = _among(master, every), True
    else:
        bound, complete = _searched(judge, master, k, budget // 2)
    return Relaxed(master, max(least, math.ceil(bound - SMALL)), complete)


def _among(master: Master, every: Counts) -> float:
    """Column generation where all patterns are known: the value of the relaxation."""
    while True:
        master.solve()
        worths = every @ master.prices
        best = np.argsort(-worths, kind="stable")[:OFFERED]
        good = [every[place].astype(np.float64) for place in best.tolist() if worths[place] > 1.0 + SMALL]
        if not _offer_all(master, iter(good)):
            # prices divided by the largest worth price no pattern above a host: their sum is a bound
            return master.value / max(1.0, float(worths.max(initial=1.0)))


def _searched(judge: Judge, master: Master, k: int, budget: int) -> tuple[float, bool]:
    """Column generation where patterns are searched for: the best bound met, and whether it is the last word."""
    left, look, bound, complete = budget, FIRST_LOOK, 0.0, False
    while left > 0 and not complete:
        master.solve()
        found = price(judge, master.prices, k, budget=min(left, look), slack=_slack(master.value))
        left -= max(found.asked, 1)
        bound = max(bound, master.value / max(found.worth, 1.0))
        if _offer_all(master, iter(found.patterns)):
            continue  # a quick look is enough as long as it finds something; only the last one must see everything
        look *= 8
        complete = not found.cut
    master.solve()
    return bound, complete


def _slack(value: float) -> float:
    """How much more than a host a pattern may be worth without taking a whole host off the bound.

    >>> round(_slack(12.6), 3), _slack(12.0) > 0.09
    (0.05, True)
    """
    fewer = math.ceil(value - SMALL) - 1
    return max(min(value / fewer - 1.0, MOST_SLACK) - SMALL, LAST_SLACK) if fewer else MOST_SLACK


def proved(judge: Judge, k: int, relaxed: Relaxed, *, budget: int = BUDGET) -> int:
    """The best bound at hand: where the search was cut short, that of fewer types with rates rounded down as well."""
    if relaxed.complete:
        return relaxed.bound
    for types in FEW_TYPES:
        rough = bucketed(judge.topics, types=types, up=False)
        fewer = Judge(judge.model, judge.host, rough, careful=judge.careful)
        every = every_pattern(fewer, k, budget=budget // 2)
        if every is not None:
            return max(relaxed.bound, math.ceil(_among(Master(fewer.demands), every) - SMALL))
    return relaxed.bound


def dive(judge: Judge, k: int, relaxed: Relaxed) -> list[Shared]:
    """Hosts in whole numbers, from the patterns of the relaxation; never more than first fit."""
    options = [first_fit(judge, k), first_fit(judge, k, by="load")]
    if k == 2 and len(judge.of) <= MATCHED:
        options.append(pairs(judge, range(len(judge.of))))
    elif min(map(len, options)) > relaxed.bound:
        options.append(_dealt(judge, _rounded(judge, relaxed)))
    return min(options, key=len)


def _rounded(judge: Judge, relaxed: Relaxed) -> Iterator[Vector]:
    """Patterns, one a host, until every topic is covered."""
    left = judge.demands.copy()
    patterns = relaxed.master.patterns
    used = relaxed.master.used
    while left.sum() > 0:
        whole = [(pattern, math.floor(share + SMALL)) for pattern, share in used]
        if not any(times for _, times in whole):
            whole = [(max(used, key=lambda pair: pair[1])[0], 1)]
        for pattern, times in whole:
            for _ in range(times):
                taken = np.minimum(pattern, left)
                if taken.sum() > 0:
                    left = left - taken
                    yield taken
        used = _again(left, patterns)


def _again(left: Vector, patterns: list[Vector]) -> list[tuple[Vector, float]]:
    """The relaxation of what is left, over the patterns at hand."""
    rows = np.flatnonzero(left > 0)
    if not len(rows):
        return []
    master = Master(left[rows])
    _offer_all(master, (np.minimum(pattern, left)[rows] for pattern in patterns))
    master.solve()
    found = []
    for short, share in master.used:
        pattern = np.zeros(len(left))
        pattern[rows] = short
        found.append((pattern, share))
    return found


def _dealt(judge: Judge, patterns: Iterator[Vector]) -> list[Shared]:
    """Topics for patterns of types."""
    waiting: list[list[int]] = [[] for _ in judge.rates]
    for topic in range(len(judge.of) - 1, -1, -1):
        waiting[judge.of[topic]].append(topic)
    placed = []
    for pattern in patterns:
        kinds = np.flatnonzero(pattern).tolist()
        placed.append(tuple(waiting[kind].pop() for kind in kinds for _ in range(int(pattern[kind]))))
    return placed


def _counts(judge: Judge, shared: Shared) -> Vector:
    return np.bincount([judge.of[topic] for topic in shared], minlength=len(judge.rates)).astype(np.float64)


def _offer_all(master: Master, patterns: Iterator[Vector]) -> int:
    return sum([master.offer(pattern) for pattern in patterns if pattern.any()])
