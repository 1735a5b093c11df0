"""The pattern that is worth most at given prices: what column generation asks for, and what makes its bound valid.

Patterns grow topic by topic, dearest type first, and only feasible ones grow further, only by types that a smaller
pattern could take: a set that breaks a promise breaks it with any topic more. A pattern that cannot become worth more
than the best one found is dropped. Where the
search is cut short, the worth that was still possible is told, so that the bound stays a bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thinwire.placement.feasibility import HostFeasibility, Places
from thinwire.placement.hosts import Vector

Counts = NDArray[np.float32]
Mates = NDArray[np.bool_]
"""a row a pattern, a column a type: may it join?"""

AT_ONCE = 4096
BLOCK = 64
KEPT = 20_000
"""patterns handed back, at most"""
NEARLY = 0.95
"""what a pattern must be worth to be handed back: at other prices it may be worth more than a host"""
ABOVE = 1e-6


def every_pattern(judge: HostFeasibility, k: int, *, budget: int) -> Counts | None:
    """All patterns that keep every promise, as counts by type, a row each; None where they are too many to look at.

    A pattern grows only by types that its parent could take as well: what breaks a promise, breaks it in company.
    """
    kinds, demands = len(judge.rates), judge.demands
    level: Places = np.zeros((1, 0), np.int64)
    mates = np.ones((1, kinds), bool)
    found: list[Counts] = []
    for _ in range(k):
        rows, added = np.nonzero(mates)
        budget -= len(rows)
        if budget < 0:
            return None
        grown = np.column_stack((level[rows], added))
        kept = (grown == added[:, None]).sum(axis=1) <= demands[added]
        kept &= judge.allowed(grown)
        after = np.zeros((len(level), kinds), bool)
        after[rows[kept], added[kept]] = True
        level, last = grown[kept], added[kept]
        mates = after[rows[kept]] & (np.arange(kinds)[None, :] >= last[:, None])
        found.append(_as_counts(level, kinds))
        if not len(level):
            break
    return np.concatenate(found)


def _as_counts(patterns: Places, kinds: int) -> Counts:
    counts = np.zeros((len(patterns), kinds), np.float32)
    for column in patterns.T:
        np.add.at(counts, (np.arange(len(patterns)), column), 1)
    return counts


@dataclass(frozen=True)
class Priced:
    """What the search found.

    patterns: those met that are worth nearly a host or more, best first, as counts by type, a row each
    worth: no pattern is worth more than this
    asked: sets the judge was asked about
    cut: did the search end before everything was looked at?
    """

    patterns: Counts
    worth: float
    asked: int
    cut: bool


def price(
    judge: HostFeasibility, prices: Vector, k: int, *, budget: int, slack: float = ABOVE, enough: int | None = None
) -> Priced:
    """The patterns worth most.

    budget: how many sets the judge may be asked about
    slack: patterns that could be better only by this much are not looked for; the worth told allows for them
    enough: end with so many patterns that are worth more than a host and the slack, instead of looking for the best
    """
    search = _Search(judge, prices, k, budget, slack, enough)
    search.run()
    worth = max(search.best, search.minimum_value, search.open)
    return Priced(search.handed_back(), worth, search.asked, search.open > 0)


class _Search:
    """Depth first, in blocks of patterns of one size.

    With every pattern go its mates: the types that may still join it. A type that broke a promise beside a smaller
    pattern is no mate of a larger one.
    """

    def __init__(
        self, judge: HostFeasibility, prices: Vector, k: int, budget: int, slack: float, enough: int | None = None
    ) -> None:
        self.judge, self.k, self.budget, self.slack, self.enough = judge, k, budget, slack, enough
        self.order = np.argsort(-prices, kind="stable")[: int((prices > ABOVE).sum())]
        self.prices = prices[self.order]
        self.demands = judge.demands[self.order]
        self.best, self.open, self.asked = 1.0, 0.0, 0
        self.beyond = 0
        """patterns met that are worth more than a host and the slack"""
        self.found: list[Places] = []

    def run(self) -> None:
        nobody, anybody = np.zeros((1, 0), np.int64), np.ones((1, len(self.order)), bool)
        stack = [(nobody, anybody, np.array([np.inf]))]
        while stack:
            block, mates, possible = stack.pop()
            hopeful = possible > self.minimum_value
            if not hopeful.any():
                continue
            if self.asked >= self.budget or self.beyond >= (self.enough or self.budget):
                self.open = max(self.open, float(possible[hopeful].max()))
                continue
            stack += self._blocks(*self._grown(block[hopeful], mates[hopeful]))

    @property
    def minimum_value(self) -> float:
        """What a pattern must be worth to be looked for."""
        return (self.best if self.enough is None else 1.0) + self.slack

    def _blocks(self, patterns: Places, mates: Mates, possible: Vector) -> list[tuple[Places, Mates, Vector]]:
        """Patterns that can still grow, the most promising on top of the stack."""
        if not len(patterns) or patterns.shape[1] == self.k:
            return []
        ranked = np.argsort(possible, kind="stable")
        cuts = [ranked[start : start + BLOCK] for start in range(0, len(ranked), BLOCK)]
        return [(patterns[cut], mates[cut], possible[cut]) for cut in cuts]

    def _grown(self, block: Places, mates: Mates) -> tuple[Places, Mates, Vector]:
        """Every pattern of the block with one mate more, as far as it is feasible and may become the best."""
        copies = self._copies(block, mates)
        rows, added = np.nonzero(copies)
        worths = self.prices[block].sum(axis=1)
        reach = worths[rows] + self._dearest(copies, rows, added, self.k - block.shape[1])
        rows, added = rows[reach > self.minimum_value], added[reach > self.minimum_value]
        grown = np.column_stack((block[rows], added))
        kept = self._allowed(grown)
        mates = mates.copy()
        mates[rows[~kept], added[~kept]] = False
        rows, added, grown = rows[kept], added[kept], grown[kept]
        self._note(grown)
        mates = mates[rows] & (np.arange(len(self.order))[None, :] >= added[:, None])
        rest = self._dearest(self._copies(grown, mates), np.arange(len(grown)), added, self.k - grown.shape[1])
        return grown, mates, self.prices[grown].sum(axis=1) + rest

    def _copies(self, patterns: Places, mates: Mates) -> Vector:
        """How many topics of each type may still join each pattern."""
        copies = mates * self.demands
        if patterns.shape[1]:
            last = patterns[:, -1]
            held = (patterns == last[:, None]).sum(axis=1)
            places = np.arange(len(patterns))
            copies[places, last] = np.maximum(copies[places, last] - held, 0.0)
        return np.asarray(copies)

    def _dearest(self, copies: Vector, rows: Places, starts: Places, count: int) -> Vector:
        """What so many of the topics that may join can be worth, at most, from a type on: types come dearest first."""
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

    def _allowed(self, patterns: Places) -> Mates:
        parts = [patterns[start : start + AT_ONCE] for start in range(0, len(patterns), AT_ONCE)]
        self.asked += len(patterns)
        return np.concatenate([np.zeros(0, bool), *(self.judge.allowed(self.order[part]) for part in parts)])

    def _note(self, patterns: Places) -> None:
        worths = self.prices[patterns].sum(axis=1)
        self.found.append(patterns[worths > NEARLY])
        self.beyond += int((worths > 1.0 + self.slack).sum())
        self.best = max(self.best, float(worths.max(initial=0.0)))

    def handed_back(self) -> Counts:
        """The best patterns met, as counts of the judge's types."""
        sizes = {some.shape[1] for some in self.found if len(some)}
        level = [np.concatenate([some for some in self.found if some.shape[1] == size]) for size in sorted(sizes)]
        worths = np.concatenate([np.zeros(0), *(self.prices[some].sum(axis=1) for some in level)])
        best = np.argsort(-worths, kind="stable")[:KEPT]
        kinds = len(self.judge.rates)
        return np.concatenate([np.zeros((0, kinds), np.float32), *(_as_counts(self.order[s], kinds) for s in level)])[
            best
        ]
