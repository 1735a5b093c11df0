"""Which filters look first: as few as cover all thresholds, chosen greedily (Greedy-MFA).

A first filter c1 covers c where (c1 + 1) divides (c + 1) and the step allows it. So a threshold before a prime covers
itself alone: of all thresholds up to N about N / ln N look first, however they are chosen.

Thresholds as sums of smaller ones, so that small filters look first and large ones only at what these pass on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush
from math import isqrt

import numpy as np

from thinwire.errors import ConfigError
from thinwire_lab.overlay_sim.filters.thresholds import Ticks, checked_threshold

Chain = tuple[int, ...]
"""radii of the filters of one threshold, the first that looks first"""


def base_for(largest: int, levels: int) -> int:
    """The smallest base in which every threshold up to the largest has at most so many digits.

    >>> base_for(63, 3), base_for(64, 3)
    (4, 5)
    """
    if levels < 1:
        raise ConfigError("a hierarchy has at least one level", field="levels", value=levels, low=1)
    base = 2
    while base**levels < checked_threshold(largest) + 1:
        base += 1
    return base


def digits(threshold: int, base: int) -> Chain:
    """The digits that are not zero with what they stand for, the smallest first.

    >>> digits(21, 4), digits(34, 4)
    ((1, 4, 16), (2, 32))
    """
    if base < 2:
        raise ConfigError("a base is at least two", field="base", value=base, low=2)
    chain, rest, place = [], checked_threshold(threshold), 1
    while rest:
        rest, digit = divmod(rest, base)
        if digit:
            chain.append(digit * place)
        place *= base
    return tuple(chain)


def splits(threshold: int, step: int, above: int = 0) -> Iterator[tuple[int, int]]:
    """Two-level decompositions whose first filter moves by a whole part of the second.

    step: how far two values in a row lie apart at most
    above: the sum of the filters that look before these two

    >>> list(splits(11, step=1)), list(splits(12, step=1))
    ([(5, 6), (3, 8), (2, 9)], [])
    """
    smallest = above + step if above else step + 1
    for first in (threshold + 1) // _divisors(threshold + 1) - 1:
        if max(1, smallest) <= first and above + first + step <= threshold - first:
            yield int(first), int(threshold - first)


def _divisors(number: int) -> Ticks:
    """The divisors, ascending.

    >>> _divisors(12).tolist()
    [1, 2, 3, 4, 6, 12]
    """
    candidates = np.arange(1, isqrt(number) + 1)
    small = candidates[number % candidates == 0]
    return np.union1d(small, number // small)


def decompositions(threshold: int, step: int, levels: int = 2) -> list[Chain]:
    """Multilevel decomposition (MuLeD): every chain of up to so many filters that the step allows; the plain one first.

    >>> decompositions(11, step=1)
    [(11,), (5, 6), (3, 8), (2, 9)]
    """
    chains: list[Chain] = [(checked_threshold(threshold),)]
    for chain in chains:
        if len(chain) < levels:
            chains.extend((*chain[:-1], *split) for split in splits(chain[-1], step, sum(chain[:-1])))
    return chains


Choices = Mapping[int, list[Chain]]


def chosen_chains(thresholds: Iterable[int], step: int, levels: int = 2) -> dict[int, Chain]:
    """One chain for every threshold, level after level the fewest filters.

    >>> chosen_chains([3, 7, 11, 12], step=1)
    {3: (3,), 7: (3, 4), 11: (3, 8), 12: (12,)}
    """
    choices = {each: decompositions(each, step, levels) for each in sorted(set(thresholds))}
    for level in range(levels):
        choices = _narrowed(choices, level)
    return {threshold: chains[0] for threshold, chains in choices.items()}


def first_level(chains: Mapping[int, Chain]) -> list[int]:
    """The filters that look at every value.

    >>> first_level(chosen_chains(range(1, 21), step=0))
    [1, 2, 4, 6, 10, 12, 16, 18]
    """
    return sorted({chain[0] for chain in chains.values()})


def _narrowed(choices: Choices, level: int) -> dict[int, list[Chain]]:
    """Chains left when the filters of a level are chosen: of those that cover a threshold the largest passes least."""
    assigned = _fewest(choices, level)
    left = {}
    for threshold, chains in choices.items():
        best = max(_at(chain, level) for chain in chains if _at(chain, level) in assigned)
        left[threshold] = [chain for chain in chains if _at(chain, level) == best]
    return left


def _fewest(choices: Choices, level: int) -> set[int]:
    """Filters that cover all thresholds, the one that covers most first; of equals the smaller."""
    covers: dict[int, set[int]] = defaultdict(set)
    for threshold, chains in choices.items():
        for chain in chains:
            covers[_at(chain, level)].add(threshold)
    open_, chosen = set(choices), set()
    heap = [(-len(covered), radius) for radius, covered in covers.items()]
    heapify(heap)
    while open_:
        claimed, radius = heappop(heap)
        covers[radius] &= open_
        if len(covers[radius]) == -claimed:
            chosen.add(radius)
            open_ -= covers[radius]
        else:
            # What others have covered meanwhile counts no more; counts only fall, so this one waits for its turn.
            heappush(heap, (-len(covers[radius]), radius))
    return chosen


def _at(chain: Chain, level: int) -> int:
    """The radius at a level; chains that end before it need nothing there."""
    return chain[level] if level < len(chain) else 0
