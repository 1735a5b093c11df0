"""Which filters look first: as few as cover all thresholds, chosen greedily (Greedy-MFA).

A first filter c1 covers c where (c1 + 1) divides (c + 1) and the step allows it. So a threshold before a prime covers
itself alone: of all thresholds up to N about N / ln N look first, however they are chosen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush

from thinwire_lab.overlay_sim.filters.threshold_decomposition_decomposition import Chain, decompositions

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
