"""Pricing problem of the column generation: the patterns with the highest value at given prices.

Patterns grow by one type at a time, most expensive type first. An infeasible set stays infeasible with more topics,
so only feasible patterns grow, and only by types that could join their parent. A pattern that cannot exceed the best
one is dropped. If the search stops early, the largest value that was still possible is returned, so that the bound
stays valid.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thinwire.placement.feasibility import HostFeasibility, Places
from thinwire.placement.hosts import Vector

Counts = NDArray[np.float32]
Candidates = NDArray[np.bool_]
"""matrix over patterns and types: whether the type may join the pattern"""

BLOCK = 64
KEPT = 20_000
"""largest number of patterns returned"""
MIN_RETURNED_VALUE = 0.95
"""patterns of slightly less value than a host are returned too; they may exceed it at the next prices"""
ABOVE = 1e-6


def every_pattern(feasibility: HostFeasibility, k: int, *, budget: int) -> Counts | None:
    """Return all feasible patterns as rows of counts by type; None if their number exceeds the budget."""
    kinds, demands = len(feasibility.rates), feasibility.type_counts
    level: Places = np.zeros((1, 0), np.int64)
    candidates = np.ones((1, kinds), bool)
    found: list[Counts] = []
    for _ in range(k):
        rows, added = np.nonzero(candidates)
        budget -= len(rows)
        if budget < 0:
            return None
        grown = np.column_stack((level[rows], added))
        kept = (grown == added[:, None]).sum(axis=1) <= demands[added]
        kept &= feasibility.check_sets(grown)
        after = np.zeros((len(level), kinds), bool)
        after[rows[kept], added[kept]] = True
        level, last = grown[kept], added[kept]
        candidates = after[rows[kept]] & (np.arange(kinds)[None, :] >= last[:, None])
        found.append(_as_counts(level, kinds))
        if not len(level):
            break
    return np.concatenate(found)


def _as_counts(patterns: Places, kinds: int) -> Counts:
    counts = np.zeros((len(patterns), kinds), np.float32)
    for column in patterns.T:
        np.add.at(counts, (np.arange(len(patterns)), column), 1)
    return counts


class PatternSearch:
    """Depth-first search of the patterns with the highest value, in blocks of patterns of one size.

    Each pattern has candidates: the types that may still join it. A type that was infeasible with a smaller pattern is
    no candidate of a larger one.

    budget: largest number of sets to evaluate
    slack: patterns that are better than a host by at most this are not searched; the upper bound includes it
    enough: stop after this many patterns of more value than a host and the slack
    worth: after `run`, upper bound of the value of any pattern
    evaluated: number of sets evaluated
    """

    def __init__(
        self, feasibility: HostFeasibility, prices: Vector, k: int, *, budget: int, slack: float, enough: int
    ) -> None:
        self.feasibility, self.k, self.budget, self.enough = feasibility, k, budget, enough
        self.minimum_value = self.worth = 1.0 + slack
        """smallest value that is searched"""
        self.order = np.argsort(-prices, kind="stable")[: int((prices > ABOVE).sum())]
        self.prices = prices[self.order]
        self.demands = feasibility.type_counts[self.order]
        self.evaluated = 0
        self.beyond = 0
        """patterns found with more value than a host and the slack"""
        self.found: list[Places] = []

    def run(self) -> None:
        empty, all_types = np.zeros((1, 0), np.int64), np.ones((1, len(self.order)), bool)
        stack = [(empty, all_types, np.array([np.inf]))]
        while stack:
            block, candidates, possible = stack.pop()
            promising = possible > self.minimum_value
            if not promising.any():
                continue
            if self.evaluated >= self.budget or self.beyond >= self.enough:
                self.worth = max(self.worth, float(possible[promising].max()))
                continue
            stack += self._blocks(*self._grown(block[promising], candidates[promising]))

    def _blocks(
        self, patterns: Places, candidates: Candidates, possible: Vector
    ) -> list[tuple[Places, Candidates, Vector]]:
        """Split patterns that can still grow into blocks, most promising last."""
        if not len(patterns) or patterns.shape[1] == self.k:
            return []
        ranked = np.argsort(possible, kind="stable")
        cuts = [ranked[start : start + BLOCK] for start in range(0, len(ranked), BLOCK)]
        return [(patterns[cut], candidates[cut], possible[cut]) for cut in cuts]

    def _grown(self, block: Places, candidates: Candidates) -> tuple[Places, Candidates, Vector]:
        """Extend every pattern by one candidate; keep feasible ones that may exceed the minimum value."""
        copies = self._copies(block, candidates)
        rows, added = np.nonzero(copies)
        worths = self.prices[block].sum(axis=1)
        reach = worths[rows] + self._largest_gain(copies, rows, added, self.k - block.shape[1])
        rows, added = rows[reach > self.minimum_value], added[reach > self.minimum_value]
        grown = np.column_stack((block[rows], added))
        self.evaluated += len(grown)
        kept = self.feasibility.check_sets(self.order[grown])
        candidates = candidates.copy()
        candidates[rows[~kept], added[~kept]] = False
        rows, added, grown = rows[kept], added[kept], grown[kept]
        self._record(grown)
        candidates = candidates[rows] & (np.arange(len(self.order))[None, :] >= added[:, None])
        rest = self._largest_gain(
            self._copies(grown, candidates), np.arange(len(grown)), added, self.k - grown.shape[1]
        )
        return grown, candidates, self.prices[grown].sum(axis=1) + rest

    def _copies(self, patterns: Places, candidates: Candidates) -> Vector:
        """Return how many topics of each type may still join each pattern."""
        copies = candidates * self.demands
        if patterns.shape[1]:
            last = patterns[:, -1]
            held = (patterns == last[:, None]).sum(axis=1)
            places = np.arange(len(patterns))
            copies[places, last] = np.maximum(copies[places, last] - held, 0.0)
        return np.asarray(copies)

    def _largest_gain(self, copies: Vector, rows: Places, starts: Places, count: int) -> Vector:
        """Return the largest value of `count` more topics, starting at a type; types are sorted by falling price."""
        if count <= 0 or not len(rows):
            return np.zeros(len(rows))
        many, worth = np.cumsum(copies, axis=1), np.cumsum(copies * self.prices, axis=1)
        at = np.arange(len(rows))
        many, worth, own = many[rows], worth[rows], copies[rows, starts]
        before = many[at, starts] - own
        ends = np.minimum((many < (before + count)[:, None]).sum(axis=1), len(self.order) - 1)
        surplus = np.maximum(many[at, ends] - before - count, 0.0)
        return np.asarray(
            worth[at, ends] - (worth[at, starts] - own * self.prices[starts]) - surplus * self.prices[ends]
        )

    def _record(self, patterns: Places) -> None:
        worths = self.prices[patterns].sum(axis=1)
        self.found.append(patterns[worths > MIN_RETURNED_VALUE])
        self.beyond += int((worths > self.minimum_value).sum())
        self.worth = max(self.worth, float(worths.max(initial=0.0)))

    def best_patterns(self) -> Counts:
        """Return patterns of about the value of a host or more, best first, as rows of counts by type."""
        sizes = {some.shape[1] for some in self.found if len(some)}
        level = [np.concatenate([some for some in self.found if some.shape[1] == size]) for size in sorted(sizes)]
        worths = np.concatenate([np.zeros(0), *(self.prices[some].sum(axis=1) for some in level)])
        best = np.argsort(-worths, kind="stable")[:KEPT]
        kinds = len(self.feasibility.rates)
        counts = [np.zeros((0, kinds), np.float32), *(_as_counts(self.order[some], kinds) for some in level)]
        return np.asarray(np.concatenate(counts)[best])
