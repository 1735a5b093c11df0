"""The fewest hosts by column generation over types of topics, with a lower bound that holds.

Patterns of types are generated until none is worth more than a host. The value of that relaxation, rounded up, is a
lower bound on the number of hosts; cut short, a weaker bound holds still. The relaxation knows that a lighter type fits
wherever a heavier one does, which takes most of its steps away; a quick look at patterns close to those in use takes
most of the others, and only what is left is searched for. Hosts in whole numbers are found by diving: take what the
relaxation uses whole, fix the largest part, generate patterns for the rest, solve again.

Better patterns close to those in use: a topic more, or one exchanged for another. Quick, and never the last word.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from thinwire.placement.feasibility import HostFeasibility, Lighter, Places, lighter, steps
from thinwire.placement.heuristics import Shared, first_fit, pairs
from thinwire.placement.hosts import Vector, bucketed, check_together
from thinwire.placement.pattern_pricing import Counts, every_pattern, price
from thinwire.placement.simplex import Master

MOST_ASKED = 20_000
"""sets looked at for patterns of one size, the most valuable ones"""
HANDED = 60
"""patterns handed back at once, at most"""
ABOVE = 1e-6


def nearby(judge: HostFeasibility, master: Master, k: int) -> tuple[list[Vector], int]:
    """Patterns worth more than a host, the best ones first, as counts by type; and how many sets were asked about."""
    prices, demands, asked = master.prices, master.demands, 0
    good: list[tuple[float, Vector]] = []
    for sets in _by_size(_changed(prices, demands, pattern, k) for pattern, _ in master.used):
        worths = prices[sets].sum(axis=1)
        best = np.argsort(-worths, kind="stable")[:MOST_ASKED]
        kept = best[judge.allowed(sets[best])][:HANDED]
        asked += len(best)
        good += [(float(worths[n]), _counted(sets[n], len(prices))) for n in kept.tolist()]
    good.sort(key=lambda pair: -pair[0])
    return [counts for _, counts in good[:HANDED]], asked


def _changed(prices: Vector, demands: Vector, pattern: Vector, k: int) -> Iterator[Places]:
    """What a pattern becomes by one topic more and by one exchanged, where that is worth more than a host."""
    held = np.repeat(np.arange(len(prices)), pattern.astype(np.int64))
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
    """The sets of each size, each once."""
    found: dict[int, list[Places]] = {}
    for some in (sets for change in changes for sets in change if len(sets)):
        found.setdefault(some.shape[1], []).append(np.sort(some, axis=1))
    return [np.unique(np.concatenate(sets), axis=0) for sets in found.values()]


def _counted(kinds: Places, types: int) -> Vector:
    return np.bincount(kinds, minlength=types).astype(np.float64)


BUDGET = 2_000_000
"""sets that a search for patterns may ask the judge about"""
EVERY = 500_000
"""sets that it may be asked about where all patterns are wanted: they are kept"""
FEW_TYPES = (28, 24, 20, 14)
"""types to which topics are rounded for a bound, until all their patterns can be looked at"""
MATCHED = 150
"""topics whose pairs are matched, at most: two on a host is a problem that can be solved for good"""
OFFERED = 50
"""patterns added to a relaxation at once, at most"""
ENOUGH = 24
"""patterns of a search that are enough to solve again"""
FEW, ROUNDS = 5, 100
"""new patterns close to those in use below which it is time to search; and how often they are looked at, at most"""
DIVING = 6
"""the same, while diving"""
DIVES = 8
"""how often diving is tried, each time beginning elsewhere, as long as the bound is not reached"""
AGAIN = 500
"""topics up to which it is tried again"""
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


def relax(judge: HostFeasibility, k: int, *, budget: int = BUDGET) -> Relaxed:
    """Generate patterns until the bound stands or the budget is spent."""
    master, offered = Master(judge.demands, steps(lighter(judge))), first_fit(judge, k)
    least = math.ceil(len(judge.of) / check_together(k))
    _offer_all(master, (_counts(judge, shared) for shared in offered))
    if least == len(offered):
        master.solve()
        return Relaxed(master, least, True)
    if k == 2 and len(judge.of) <= MATCHED:
        master.solve()
        return Relaxed(master, len(pairs(judge, range(len(judge.of)))), True)
    every = every_pattern(judge, k, budget=min(budget, EVERY)) if len(judge.rates) <= FEW_TYPES[0] else None
    if every is not None:
        bound, complete = _among(master, every), True
    else:
        bound, complete = _searched(judge, master, k, budget)
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


def _searched(judge: HostFeasibility, master: Master, k: int, budget: int) -> tuple[float, bool]:
    """Column generation where patterns are searched for: the best bound met, and whether it is the last word."""
    left, bound, complete = budget, 0.0, False
    while left > 0 and not complete:
        left -= _improved(judge, master, k)
        found = price(judge, master.prices, k, budget=left, slack=_slack(master.value), enough=ENOUGH)
        left -= max(found.asked, 1)
        bound = max(bound, master.value / max(found.worth, 1.0))
        _among(master, found.patterns)
        complete = math.ceil(bound - SMALL) >= math.ceil(master.value - SMALL)
    return bound, complete


def _improved(judge: HostFeasibility, master: Master, k: int, rounds: int = ROUNDS) -> int:
    """Solve, with patterns close to those in use as long as there are many; how many sets that asked about."""
    total = 0
    for _ in range(rounds):
        master.solve()
        patterns, asked = nearby(judge, master, k)
        total += asked
        if _offer_all(master, iter(patterns)) < FEW:
            break
    master.solve()
    return total


def _slack(value: float) -> float:
    """How much more than a host a pattern may be worth without taking a whole host off the bound.

    >>> round(_slack(12.6), 3), _slack(12.0) > 0.09
    (0.05, True)
    """
    fewer = math.ceil(value - SMALL) - 1
    return max(min(value / fewer - 1.0, MOST_SLACK) - SMALL, LAST_SLACK) if fewer else MOST_SLACK


def proved(judge: HostFeasibility, k: int, relaxed: Relaxed, *, budget: int = BUDGET) -> int:
    """The best bound at hand: where the search was cut short, that of fewer types with rates rounded down as well."""
    if relaxed.complete:
        return relaxed.bound
    for types in FEW_TYPES:
        rough = bucketed(judge.topics, types=types, up=False)
        fewer = HostFeasibility(judge.model, judge.host, rough, careful=judge.careful)
        every = every_pattern(fewer, k, budget=min(budget, EVERY))
        if every is not None:
            return max(relaxed.bound, math.ceil(_among(Master(fewer.demands), every) - SMALL))
    return relaxed.bound


def dive(judge: HostFeasibility, k: int, relaxed: Relaxed) -> list[Shared]:
    """Hosts in whole numbers, from the patterns of the relaxation; never more than first fit."""
    options = [first_fit(judge, k), first_fit(judge, k, by="load")]
    if k == 2 and len(judge.of) <= MATCHED:
        options.append(pairs(judge, range(len(judge.of))))
    else:
        for turn in range(DIVES if len(judge.of) <= AGAIN else 1):
            if min(map(len, options)) > relaxed.bound:
                options.append(_dealt(judge, _rounded(judge, relaxed, k, turn)))
    return min(options, key=len)


def _rounded(judge: HostFeasibility, relaxed: Relaxed, k: int, turn: int) -> Iterator[Vector]:
    """Patterns, one a host, until every topic is covered; the first is the one with the largest share but `turn`."""
    left, below = judge.demands.copy(), lighter(judge)
    patterns, used = relaxed.master.patterns, relaxed.master.used
    while left.sum() > 0:
        whole = [(pattern, math.floor(share + SMALL)) for pattern, share in used]
        if turn or not any(times for _, times in whole):
            whole = [(sorted(used, key=lambda pair: -pair[1])[min(turn, len(used) - 1)][0], 1)]
        turn, before = 0, left
        for pattern in (pattern for pattern, times in whole for _ in range(times)):
            taken = _seated(judge, pattern, left, below)
            if taken.sum() > 0:
                left = left - taken
                yield taken
        if left is before:  # what is in use by rounding errors alone seats nobody: one topic gets a host
            taken = np.eye(len(left))[int((left > 0).argmax())]
            left = left - taken
            yield taken
        master = Master(left, steps(below))
        _offer_all(master, (np.minimum(pattern, left) for pattern in patterns))
        _improved(judge, master, k, DIVING)
        patterns, used = master.patterns, master.used


def _seated(judge: HostFeasibility, pattern: Vector, left: Vector, below: Lighter) -> Vector:
    """The topics that get the places of a pattern: of its types, else the heaviest lighter ones that are left."""
    taken = np.minimum(pattern, left)
    for kind in np.repeat(np.arange(len(left)), (pattern - taken).astype(np.int64)).tolist():
        fitting = np.flatnonzero(below[:, kind] & (taken < left))
        if len(fitting):
            taken[fitting[judge.loads[fitting].argmax()]] += 1
    return np.asarray(taken)


def _dealt(judge: HostFeasibility, patterns: Iterator[Vector]) -> list[Shared]:
    """Topics for patterns of types."""
    waiting: list[list[int]] = [[] for _ in judge.rates]
    for topic in range(len(judge.of) - 1, -1, -1):
        waiting[judge.of[topic]].append(topic)
    placed = []
    for pattern in patterns:
        kinds = np.flatnonzero(pattern).tolist()
        placed.append(tuple(waiting[kind].pop() for kind in kinds for _ in range(int(pattern[kind]))))
    return placed


def _counts(judge: HostFeasibility, shared: Shared) -> Vector:
    return np.bincount([judge.of[topic] for topic in shared], minlength=len(judge.rates)).astype(np.float64)


def _offer_all(master: Master, patterns: Iterator[Vector]) -> int:
    return sum([master.offer(pattern) for pattern in patterns if pattern.any()])
