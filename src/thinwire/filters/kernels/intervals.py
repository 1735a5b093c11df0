"""Kernels of interval indexes: which intervals does a value lie outside of?

Intervals are stored in blocks of 32 and blocks in blocks of 32. Each level is padded to whole blocks with unbounded
intervals. The summary of a block is the intersection of its intervals: a value inside it is inside all of them.

`offer_rows` has two methods. The tree search visits only blocks whose summary excludes the value and updates their
summaries. The scan visits every interval without updating summaries, which is cheaper if many blocks are hit. After
some consecutive values for which the other method is cheaper, the method changes; changing to the tree recomputes all
summaries, which costs about two scans.
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
def left(low: Any, high: Any, at: int, x: int) -> Any:
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
def sum_up(low: Any, high: Any, block: int, into: int) -> None:
    """Compute the summary of a block."""
    most, least = low[block], high[block]
    for j in range(1, BLOCK):
        most = max(most, low[block + j])
        least = min(least, high[block + j])
    low[into] = most
    high[into] = least


@part
def sum_up_levels(low: Any, high: Any, starts: Any) -> None:
    """Compute the summaries of all levels, bottom-up."""
    for level in range(len(starts) - 2):
        below, above = starts[level], starts[level + 1]
        for block in range((above - below) // BLOCK):
            sum_up(low, high, below + BLOCK * block, above + block)


@compiled
def build(low: Any, high: Any, starts: Any) -> None:
    """`sum_up_levels`, for callers outside kernels."""
    sum_up_levels(low, high, starts)


SUMMED, STREAK, NEXT, COMPARED, CELLS = range(5)
"""cells of a state: whether summaries are current, consecutive values for which the other method is cheaper, index of
the next value, blocks compared"""

HEAVY_SHARE = 4
"""a value is heavy if it hits at least one block in this many"""
HEAVY_STREAK, LIGHT_STREAK = 4, 8
"""consecutive heavy values that end the tree search, and light values that end the scan"""

_ALL = (1 << BLOCK) - 1


@part
def fire_all(
    thresholds: Any, low: Any, high: Any, block: int, x: int, at: int, places: Any, fired: Any, count: int
) -> int:
    """`fire` for a block of which no interval contains x."""
    for j in range(BLOCK):
        c = thresholds[block + j]
        low[block + j] = x - c
        high[block + j] = x + c
        fired[count + j] = c
        places[count + j] = at
    return count + BLOCK


@part
def fire(
    thresholds: Any, low: Any, high: Any, block: int, mask: int, x: int, at: int, places: Any, fired: Any, count: int
) -> int:
    """Centre the intervals of the mask on x and write their thresholds; return the number of written pairs."""
    while mask:
        i = block + lowest_bit(mask)
        mask &= mask - 1
        c = thresholds[i]
        low[i] = x - c
        high[i] = x + c
        fired[count] = c
        places[count] = at
        count += 1
    return count


@part
def descend(low: Any, high: Any, starts: Any, found: Any, counts: Any, x: int) -> None:
    """Find the blocks hit by x, level by level; the list of a level starts in `found` at the start of the level."""
    top = len(starts) - 2
    found[starts[top]] = 0
    counts[top] = 1
    for level in range(top, 1, -1):
        here, below = starts[level], starts[level - 1]
        n = 0
        for k in range(counts[level]):
            node = BLOCK * found[here + k]
            mask = left(low, high, below + node, x)
            while mask:
                found[below + n] = node + lowest_bit(mask)
                mask &= mask - 1
                n += 1
        counts[level - 1] = n


@part
def ascend(low: Any, high: Any, starts: Any, found: Any, counts: Any) -> None:
    """Recompute the summaries of the blocks found by `descend`."""
    for level in range(1, len(starts) - 1):
        here, below = starts[level], starts[level - 1]
        for k in range(counts[level]):
            node = found[here + k]
            sum_up(low, high, below + BLOCK * node, here + node)


@part
def quiet_until(values: Any, at: int, low: int, high: int) -> int:
    """Return the index of the next value outside of [low, high]."""
    while at < len(values) and low <= values[at] <= high:
        at += 1
    return at


@part
def scan_rows(
    values: Any, thresholds: Any, low: Any, high: Any, starts: Any, state: Any, places: Any, fired: Any, count: int
) -> int:
    """Process values by the scan until the tree search is cheaper.

    One loop without a call per value: a call costs more than comparing a few dozen thresholds.
    """
    leaves = starts[1]
    heavy = max(1, leaves // BLOCK // HEAVY_SHARE)
    at, streak = state[NEXT], state[STREAK]
    while at < len(values) and count + leaves <= len(fired) and streak < LIGHT_STREAK:
        x, hits = values[at], 0
        for block in range(0, leaves, BLOCK):
            mask = left(low, high, block, x)
            hits += mask != 0
            if mask == _ALL:
                count = fire_all(thresholds, low, high, block, x, at, places, fired, count)
            elif mask:
                count = fire(thresholds, low, high, block, mask, x, at, places, fired, count)
        streak = streak + 1 if hits < heavy else 0
        at += 1
    state[COMPARED] += (at - state[NEXT]) * (leaves // BLOCK)
    state[NEXT], state[STREAK] = at, streak
    return count


@part
def visit_rows(
    values: Any,
    thresholds: Any,
    low: Any,
    high: Any,
    starts: Any,
    found: Any,
    counts: Any,
    state: Any,
    places: Any,
    fired: Any,
    count: int,
) -> int:
    """Process values by the tree search until the scan is cheaper."""
    root, leaves = starts[-2], starts[1]
    heavy = max(1, leaves // BLOCK // HEAVY_SHARE)
    at, streak = quiet_until(values, state[NEXT], low[root], high[root]), state[STREAK]
    while at < len(values) and count + leaves <= len(fired) and streak < HEAVY_STREAK:
        x = values[at]
        descend(low, high, starts, found, counts, x)
        for k in range(counts[1]):
            block = BLOCK * found[leaves + k]
            mask = left(low, high, block, x)
            if mask == _ALL:
                count = fire_all(thresholds, low, high, block, x, at, places, fired, count)
            else:
                count = fire(thresholds, low, high, block, mask, x, at, places, fired, count)
        ascend(low, high, starts, found, counts)
        state[COMPARED] += counts.sum()
        streak = streak + 1 if counts[1] >= heavy else 0
        at = quiet_until(values, at + 1, low[root], high[root])
    state[NEXT], state[STREAK] = at, streak
    return count


@compiled
def offer_rows(
    values: Any,
    thresholds: Any,
    low: Any,
    high: Any,
    starts: Any,
    found: Any,
    counts: Any,
    state: Any,
    places: Any,
    fired: Any,
) -> int:
    """Process values from state[NEXT] while a value that fires all thresholds fits; return the number of pairs."""
    count = 0
    while state[NEXT] < len(values) and count + starts[1] <= len(fired):
        if state[SUMMED]:
            count = visit_rows(values, thresholds, low, high, starts, found, counts, state, places, fired, count)
            if state[STREAK] == HEAVY_STREAK:
                state[SUMMED] = state[STREAK] = 0
        else:
            count = scan_rows(values, thresholds, low, high, starts, state, places, fired, count)
            if state[STREAK] == LIGHT_STREAK:
                sum_up_levels(low, high, starts)
                state[SUMMED], state[STREAK] = 1, 0
    return count


@compiled
def outside(low: Any, high: Any, starts: Any, x: int, found: Any, counts: Any, rows: Any) -> int:
    """Write the rows of the intervals that do not contain x to `rows`, ascending; return their number.

    found, counts, rows: scratch arrays, at least as large as the table
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
        sum_up(low, high, starts[level] + BLOCK * block, starts[level + 1] + block)
        row = block
