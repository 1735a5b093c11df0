"""Values against all thresholds of a source: which fire, found by the cheaper of two ways.

The tree goes down only into blocks that a value leaves and sums them up again on the way back. The scan looks at every
threshold and sums up nothing, which is cheaper where a good part of the blocks is left anyway. After a few values in a
row that the other way would have served better, it takes over; going over to the tree costs about two scans.
"""

from __future__ import annotations

from typing import Any

from thinwire.codec.kernels.jit import compiled, part
from thinwire.filters.kernels.intervals import BLOCK, left, lowest_bit, sum_up, sum_up_levels

SUMMED, STREAK, NEXT, LOOKED, CELLS = range(5)
"""cells of a state: are the blocks summed up, values in a row that the other way serves better, the next value, and
blocks looked at"""

HEAVY_SHARE = 4
"""a value is heavy that leaves one block in so many, or more"""
HEAVY_STREAK, LIGHT_STREAK = 4, 8
"""so many heavy values in a row end the tree, so many light ones the scan"""

_ALL = (1 << BLOCK) - 1


@part
def fire_all(
    thresholds: Any, low: Any, high: Any, block: int, x: int, at: int, places: Any, fired: Any, count: int
) -> int:
    """`fire` where x has left the whole block."""
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
    """Moves the intervals that x has left, writes the place and their thresholds; how many are written by now."""
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
    """Finds the blocks that x has left, level by level; the lists lie in `found` where the levels start."""
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
    """Sums up again what `descend` has found."""
    for level in range(1, len(starts) - 1):
        here, below = starts[level], starts[level - 1]
        for k in range(counts[level]):
            node = found[here + k]
            sum_up(low, high, below + BLOCK * node, here + node)


@part
def quiet_until(values: Any, at: int, low: int, high: int) -> int:
    """The next value that lies outside."""
    while at < len(values) and low <= values[at] <= high:
        at += 1
    return at


@part
def scan_rows(
    values: Any, thresholds: Any, low: Any, high: Any, starts: Any, state: Any, places: Any, fired: Any, count: int
) -> int:
    """Values by the scan, until the tree would serve better. One loop, and nothing shared with the tree's: calling a
    function for each value costs more than a few dozen thresholds do."""
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
    state[LOOKED] += (at - state[NEXT]) * (leaves // BLOCK)
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
    """Values by the tree, until the scan would serve better."""
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
        state[LOOKED] += counts.sum()
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
    """Values from state[NEXT] on, as long as all thresholds could still fire; writes and counts what fired."""
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
