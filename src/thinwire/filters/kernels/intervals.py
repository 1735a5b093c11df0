"""Blocks of intervals: which of them does a value leave, and what do they have in common?

Thresholds are kept in blocks of 32 and blocks in blocks of 32, each level padded to whole blocks with intervals that
nothing leaves. A block knows the largest low and the smallest high end of its members: a value between them leaves
none of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from thinwire.codec.kernels.jit import compiled, part, woven

BLOCK = 32
LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1
"""ends of an interval that nothing leaves"""


def _places() -> Any:
    """Place of the only bit that is set, by the top five bits of its product with a de Bruijn sequence."""
    table = np.zeros(BLOCK, dtype=np.int64)
    for place in range(BLOCK):
        table[((0x077CB531 << place) & 0xFFFFFFFF) >> 27] = place
    return table


PLACES = _places()


@part
def left(low: Any, high: Any, at: int, x: int) -> Any:
    """The members of the block at `at` that x has left, one bit each."""
    mask = np.uint64(0)
    for j in range(BLOCK):
        mask |= np.uint64((x < low[at + j]) | (x > high[at + j])) << np.uint64(j)
    return np.int64(mask)


@woven
def lowest_bit(mask: int) -> int:
    """Place of the lowest bit that is set."""
    return PLACES[(((mask & -mask) * 0x077CB531) & 0xFFFFFFFF) >> 27]


@part
def sum_up(low: Any, high: Any, block: int, into: int) -> None:
    """What the members of a block have in common."""
    most, least = low[block], high[block]
    for j in range(1, BLOCK):
        most = max(most, low[block + j])
        least = min(least, high[block + j])
    low[into] = most
    high[into] = least


@part
def sum_up_levels(low: Any, high: Any, starts: Any) -> None:
    """All levels above the thresholds, from below."""
    for level in range(len(starts) - 2):
        below, above = starts[level], starts[level + 1]
        for block in range((above - below) // BLOCK):
            sum_up(low, high, below + BLOCK * block, above + block)


@compiled
def build(low: Any, high: Any, starts: Any) -> None:
    """`sum_up_levels`, for callers outside kernels."""
    sum_up_levels(low, high, starts)
