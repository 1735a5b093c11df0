"""Kernels of the threshold index: find for each value the thresholds of a source that fire.

`offer_values` has two methods. The tree search visits only blocks whose summary excludes the value and updates their
summaries. The scan visits every interval without updating summaries, which is cheaper if many blocks have intervals
that exclude the value. After some consecutive values for which the other method is cheaper, the method changes;
changing to the tree recomputes all summaries, which costs about two scans.

The arrays are those of `filters.kernels.intervals`. `indexes` and `fired` receive pairs: the index of a value and a
threshold that the value fires; `count` is the number of pairs.
"""

from __future__ import annotations

from typing import Any

from thinwire.codec.kernels.jit import compiled, part
from thinwire.filters.kernels.intervals import BLOCK, build, descend, lowest_bit, mask_outside, summarise_block

SUMMARISED, STREAK, NEXT, COMPARED, STATE_CELLS = range(5)
"""cells of the `state` array: 1 if summaries are current, consecutive values for which the other method is cheaper,
index of the next value, number of blocks compared; and the number of cells"""

HEAVY_SHARE = 4
"""a value is heavy if at least one block in this many has an interval that does not contain it"""
HEAVY_STREAK, LIGHT_STREAK = 4, 8
"""consecutive heavy values that end the tree search, and light values that end the scan"""

_ALL_OUTSIDE = (1 << BLOCK) - 1
"""mask of a block whose intervals all exclude the value"""


@part
def fire_all(
    thresholds: Any, low: Any, high: Any, block: int, x: int, at: int, indexes: Any, fired: Any, count: int
) -> int:
    """`fire` for a block whose intervals all exclude x."""
    for j in range(BLOCK):
        c = thresholds[block + j]
        low[block + j] = x - c
        high[block + j] = x + c
        fired[count + j] = c
        indexes[count + j] = at
    return count + BLOCK


@part
def fire(
    thresholds: Any, low: Any, high: Any, block: int, mask: int, x: int, at: int, indexes: Any, fired: Any, count: int
) -> int:
    """Centre the intervals of the mask on x and write their thresholds; return the number of written pairs."""
    while mask:
        i = block + lowest_bit(mask)
        mask &= mask - 1
        c = thresholds[i]
        low[i] = x - c
        high[i] = x + c
        fired[count] = c
        indexes[count] = at
        count += 1
    return count


@part
def ascend(low: Any, high: Any, starts: Any, found: Any, counts: Any) -> None:
    """Recompute the summaries of the blocks found by `descend`."""
    for level in range(1, len(starts) - 1):
        here, below = starts[level], starts[level - 1]
        for k in range(counts[level]):
            node = found[here + k]
            summarise_block(low, high, below + BLOCK * node, here + node)


@part
def skip_inside(values: Any, at: int, low: int, high: int) -> int:
    """Return the index of the first value from `at` on that is outside [low, high]."""
    while at < len(values) and low <= values[at] <= high:
        at += 1
    return at


@part
def scan_values(
    values: Any, thresholds: Any, low: Any, high: Any, starts: Any, state: Any, indexes: Any, fired: Any, count: int
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
            mask = mask_outside(low, high, block, x)
            hits += mask != 0
            if mask == _ALL_OUTSIDE:
                count = fire_all(thresholds, low, high, block, x, at, indexes, fired, count)
            elif mask:
                count = fire(thresholds, low, high, block, mask, x, at, indexes, fired, count)
        streak = streak + 1 if hits < heavy else 0
        at += 1
    state[COMPARED] += (at - state[NEXT]) * (leaves // BLOCK)
    state[NEXT], state[STREAK] = at, streak
    return count


@part
def search_tree(
    values: Any,
    thresholds: Any,
    low: Any,
    high: Any,
    starts: Any,
    found: Any,
    counts: Any,
    state: Any,
    indexes: Any,
    fired: Any,
    count: int,
) -> int:
    """Process values by the tree search until the scan is cheaper."""
    root, leaves = starts[-2], starts[1]
    heavy = max(1, leaves // BLOCK // HEAVY_SHARE)
    at, streak = skip_inside(values, state[NEXT], low[root], high[root]), state[STREAK]
    while at < len(values) and count + leaves <= len(fired) and streak < HEAVY_STREAK:
        x = values[at]
        descend(low, high, starts, found, counts, x)
        for k in range(counts[1]):
            block = BLOCK * found[leaves + k]
            mask = mask_outside(low, high, block, x)
            if mask == _ALL_OUTSIDE:
                count = fire_all(thresholds, low, high, block, x, at, indexes, fired, count)
            else:
                count = fire(thresholds, low, high, block, mask, x, at, indexes, fired, count)
        ascend(low, high, starts, found, counts)
        state[COMPARED] += counts.sum()
        streak = streak + 1 if counts[1] >= heavy else 0
        at = skip_inside(values, at + 1, low[root], high[root])
    state[NEXT], state[STREAK] = at, streak
    return count


@compiled
def offer_values(
    values: Any,
    thresholds: Any,
    low: Any,
    high: Any,
    starts: Any,
    found: Any,
    counts: Any,
    state: Any,
    indexes: Any,
    fired: Any,
) -> int:
    """Process values from state[NEXT] while a value that fires all thresholds fits; return the number of pairs."""
    count = 0
    while state[NEXT] < len(values) and count + starts[1] <= len(fired):
        if state[SUMMARISED]:
            count = search_tree(values, thresholds, low, high, starts, found, counts, state, indexes, fired, count)
            if state[STREAK] == HEAVY_STREAK:
                state[SUMMARISED] = state[STREAK] = 0
        else:
            count = scan_values(values, thresholds, low, high, starts, state, indexes, fired, count)
            if state[STREAK] == LIGHT_STREAK:
                build(low, high, starts)
                state[SUMMARISED], state[STREAK] = 1, 0
    return count
