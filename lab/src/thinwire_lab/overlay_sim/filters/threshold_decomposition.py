"""Decomposition of thresholds into sums of smaller ones, for filters in levels.

The algorithms are those of L. Chen's dissertation (2011). Small filters evaluate every value, and large filters only
the values that the small ones pass. The filters of the first level are as few as cover all thresholds, chosen greedily
(Greedy-MFA). A first filter c1 covers c if (c1 + 1) divides (c + 1) and the step allows it. A threshold that is one
below a prime number is therefore covered only by itself: of all thresholds up to N, about N / ln N are in the first
level, regardless of the choice.
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
"""radii of the filters of one threshold, first level first"""


def base_for(largest: int, levels: int) -> int:
    """Return the smallest base in which every threshold up to the largest has at most `levels` digits.

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
    """Return the values of the non-zero digits, smallest first.

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


def digit_chains(thresholds: Iterable[int], base: int) -> list[Chain]:
    """Return the digits of every threshold as radii of filters; threshold 0 is a filter of radius 0."""
    return [digits(threshold, base) or (0,) for threshold in sorted(set(thresholds))]


def splits(threshold: int, step: int, above: int = 0) -> Iterator[tuple[int, int]]:
    """Yield the decompositions (first, second) in which first + 1 divides threshold + 1 and that the step allows.

    step: maximum difference of consecutive values
    above: sum of the radii of the filters before these two

    >>> list(splits(11, step=1)), list(splits(12, step=1))
    ([(5, 6), (3, 8), (2, 9)], [])
    """
    smallest = above + step if above else step + 1
    for first in (threshold + 1) // _divisors(threshold + 1) - 1:
        if max(1, smallest) <= first and above + first + step <= threshold - first:
            yield int(first), int(threshold - first)


def _divisors(number: int) -> Ticks:
    """Return the divisors, ascending.

    >>> _divisors(12).tolist()
    [1, 2, 3, 4, 6, 12]
    """
    candidates = np.arange(1, isqrt(number) + 1)
    small = candidates[number % candidates == 0]
    return np.union1d(small, number // small)


def decompositions(threshold: int, step: int, levels: int = 2) -> list[Chain]:
    """Return all chains of up to `levels` filters that the step allows, the single filter first (MuLeD).

    >>> decompositions(11, step=1)
    [(11,), (5, 6), (3, 8), (2, 9)]
    """
    chains: list[Chain] = [(checked_threshold(threshold),)]
    for chain in chains:
        if len(chain) < levels:
            chains.extend((*chain[:-1], *split) for split in splits(chain[-1], step, sum(chain[:-1])))
    return chains


Choices = Mapping[int, list[Chain]]
"""threshold -> possible chains"""


def chosen_chains(thresholds: Iterable[int], step: int, levels: int = 2) -> dict[int, Chain]:
    """Return one chain for every threshold, with the fewest filters level by level.

    >>> chosen_chains([3, 7, 11, 12], step=1)
    {3: (3,), 7: (3, 4), 11: (3, 8), 12: (12,)}
    """
    choices = {each: decompositions(each, step, levels) for each in sorted(set(thresholds))}
    for level in range(levels):
        choices = _narrowed(choices, level)
    return {threshold: chains[0] for threshold, chains in choices.items()}


def first_level(chains: Mapping[int, Chain]) -> list[int]:
    """Return the filters that evaluate every value.

    >>> first_level(chosen_chains(range(1, 21), step=0))
    [1, 2, 4, 6, 10, 12, 16, 18]
    """
    return sorted({chain[0] for chain in chains.values()})


def _narrowed(choices: Choices, level: int) -> dict[int, list[Chain]]:
    """Return the chains whose filter of a level is the largest chosen one: a larger filter passes fewer values."""
    assigned = _fewest(choices, level)
    narrowed = {}
    for threshold, chains in choices.items():
        best = max(_radius_at(chain, level) for chain in chains if _radius_at(chain, level) in assigned)
        narrowed[threshold] = [chain for chain in chains if _radius_at(chain, level) == best]
    return narrowed


def _fewest(choices: Choices, level: int) -> set[int]:
    """Return filters that cover all thresholds, greedily by coverage; among equals the smaller one."""
    covers: dict[int, set[int]] = defaultdict(set)
    for threshold, chains in choices.items():
        for chain in chains:
            covers[_radius_at(chain, level)].add(threshold)
    uncovered, chosen = set(choices), set()
    heap = [(-len(covered), radius) for radius, covered in covers.items()]
    heapify(heap)
    while uncovered:
        negative_count, radius = heappop(heap)
        covers[radius] &= uncovered
        if len(covers[radius]) == -negative_count:
            chosen.add(radius)
            uncovered -= covers[radius]
        else:
            # Some of its thresholds are covered by now. Counts only decrease, so the filter goes back to the heap.
            heappush(heap, (-len(covers[radius]), radius))
    return chosen


def _radius_at(chain: Chain, level: int) -> int:
    """Return the radius at a level; 0 if the chain ends before it."""
    return chain[level] if level < len(chain) else 0
