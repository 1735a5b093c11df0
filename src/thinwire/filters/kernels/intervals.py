"""Kernels of interval tables: find the intervals that do not contain a value.

Intervals are stored in blocks of 32 and blocks in blocks of 32. Each level is padded to whole blocks with unbounded
intervals. The summary of a block is the intersection of its intervals: a value inside it is inside all of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from thinwire.codec.kernels.jit import compiled, inlined, part

BLOCK = 32
LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1
"""ends of an unbounded interval"""


def _bit_indexes() -> Any:
    """Index of a single set bit, by the top five bits of its product with a de Bruijn sequence."""
    table = np.zeros(BLOCK, dtype=np.int64)
    for bit in range(BLOCK):
        table[((0x077CB531 << bit) & 0xFFFFFFFF) >> 27] = bit
    return table


BIT_INDEXES = _bit_indexes()


@part
def mask_outside(low: Any, high: Any, at: int, x: int) -> Any:
    """Return a mask of the intervals of the block at `at` that do not contain x."""
    mask = np.uint64(0)
    for j in range(BLOCK):
        mask |= np.uint64((x < low[at + j]) | (x > high[at + j])) << np.uint64(j)
    return np.int64(mask)


@inlined
def lowest_bit(mask: int) -> int:
    """Return the index of the lowest set bit."""
    return BIT_INDEXES[(((mask & -mask) * 0x077CB531) & 0xFFFFFFFF) >> 27]


@part
def summarise_block(low: Any, high: Any, block: int, summary: int) -> None:
    """Compute the summary of the block that starts at `block`, and write it to row `summary`."""
    highest_low, lowest_high = low[block], high[block]
    for j in range(1, BLOCK):
        highest_low = max(highest_low, low[block + j])
        lowest_high = min(lowest_high, high[block + j])
    low[summary] = highest_low
    high[summary] = lowest_high


@compiled
def build(low: Any, high: Any, starts: Any) -> None:
    """Compute the summaries of all levels, bottom-up."""
    for level in range(len(starts) - 2):
        below, above = starts[level], starts[level + 1]
        for block in range((above - below) // BLOCK):
            summarise_block(low, high, below + BLOCK * block, above + block)


@part
def descend(low: Any, high: Any, starts: Any, found: Any, counts: Any, x: int) -> None:
    """Find the blocks with an interval that does not contain x; write those of a level to `found` at its start."""
    top = len(starts) - 2
    found[starts[top]] = 0
    counts[top] = 1
    for level in range(top, 1, -1):
        here, below = starts[level], starts[level - 1]
        n = 0
        for k in range(counts[level]):
            node = BLOCK * found[here + k]
            mask = mask_outside(low, high, below + node, x)
            while mask:
                found[below + n] = node + lowest_bit(mask)
                mask &= mask - 1
                n += 1
        counts[level - 1] = n


@compiled
def outside(low: Any, high: Any, starts: Any, x: int, found: Any, counts: Any, rows: Any) -> int:
    """Write the rows of the intervals that do not contain x to `rows`, ascending; return their number.

    found, counts: scratch arrays; found, rows: at least as large as the table
    """
    root = starts[-2]
    if low[root] <= x <= high[root]:
        return 0
    descend(low, high, starts, found, counts, x)
    n, blocks = 0, starts[1]
    for k in range(counts[1]):
        block = BLOCK * found[blocks + k]
        mask = mask_outside(low, high, block, x)
        while mask:
            rows[n] = block + lowest_bit(mask)
            mask &= mask - 1
            n += 1
    return n


@compiled
def put_interval(low: Any, high: Any, starts: Any, row: int, lowest: int, highest: int) -> None:
    """Replace the interval at a row and recompute the summaries above it."""
    low[row] = lowest
    high[row] = highest
    for level in range(len(starts) - 2):
        block = row // BLOCK
        summarise_block(low, high, starts[level] + BLOCK * block, starts[level + 1] + block)
        row = block
