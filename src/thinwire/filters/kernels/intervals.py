"""Blocks of intervals: which of them does a value leave, and what do they have in common?

Thresholds are kept in blocks of 32 and blocks in blocks of 32, each level padded to whole blocks with intervals that
nothing leaves. A block knows the largest low and the smallest high end of its members: a value between them leaves
none of them.

Values against all thresholds of a source: which fire, found by the cheaper of two ways.

The tree goes down only into blocks that a value leaves and sums them up again on the way back. The scan looks at every
threshold and sums up nothing, which is cheaper where a good part of the blocks is left anyway. After a few values in a
row that the other way would have served better, it takes over; going over to the tree costs about two scans.

Which intervals of a line does a value leave, and one interval put in another's place: by blocks of blocks.
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
