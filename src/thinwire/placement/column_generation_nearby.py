"""Better patterns close to those in use: a topic more, or one exchanged for another. Quick, and never the last word."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from thinwire.placement.feasibility_judge import Judge, Places
from thinwire.placement.hosts_topics import Vector
from thinwire.placement.simplex import Master

MOST_ASKED = 20_000
"""sets looked at for patterns of one size, the most valuable ones"""
HANDED = 60
"""patterns handed back at once, at most"""
ABOVE = 1e-6


def nearby(judge: Judge, master: Master, k: int) -> tuple[list[Vector], int]:
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
