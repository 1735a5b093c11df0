"""Which intervals of a line does a value leave, and one interval put in another's place: by blocks of blocks."""

from __future__ import annotations

from typing import Any

from thinwire.codec.kernels.jit import compiled
from thinwire.filters.kernels.intervals import BLOCK, left, lowest_bit, sum_up
from thinwire.filters.kernels.intervals_offering import descend


@compiled
def outside(low: Any, high: Any, starts: Any, x: int, found: Any, counts: Any, places: Any) -> int:
    """Writes the places of the intervals that x lies outside of, ascending; how many there are.

    found, counts, places: room to work in, at least as large as the line
    """
    root = starts[-2]
    if low[root] <= x <= high[root]:
        return 0
    descend(low, high, starts, found, counts, x)
    n, blocks = 0, starts[1]
    for k in range(counts[1]):
        block = BLOCK * found[blocks + k]
        mask = left(low, high, block, x)
        while mask:
            places[n] = block + lowest_bit(mask)
            mask &= mask - 1
            n += 1
    return n


@compiled
def put_interval(low: Any, high: Any, starts: Any, place: int, lowest: int, highest: int) -> None:
    """Another interval at a place; the blocks above it are summed up again."""
    low[place] = lowest
    high[place] = highest
    for level in range(len(starts) - 2):
        block = place // BLOCK
        sum_up(low, high, starts[level] + BLOCK * block, starts[level + 1] + block)
        place = block
