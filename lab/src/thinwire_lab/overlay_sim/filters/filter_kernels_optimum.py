"""How long each value would serve, and the fewest that serve all the time."""

from __future__ import annotations

from typing import Any

import numpy as np

from thinwire.codec.kernels.jit import compiled, part


@part
def first_beyond(values: Any, stack: Any, top: int, limit: int, sign: int) -> int:
    """Of the records on the stack, the nearest beyond the limit; those further down lie further out and later."""
    low, high = 0, top
    while low < high:
        middle = (low + high) // 2
        if sign * values[stack[middle]] > limit:
            low = middle + 1
        else:
            high = middle
    return stack[low - 1] if low else len(values)


@part
def push(values: Any, stack: Any, top: int, at: int, sign: int) -> int:
    """A value hides the later ones that are not beyond it."""
    while top and sign * values[stack[top - 1]] <= sign * values[at]:
        top -= 1
    stack[top] = at
    return top + 1


@compiled
def serves_until(values: Any, threshold: int, until: Any) -> None:
    """For each place the first later one that is further than the threshold away, or the end."""
    size = len(values)
    highs, lows = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
    high, low = 0, 0
    for at in range(size - 1, -1, -1):
        above = first_beyond(values, highs, high, values[at] + threshold, 1)
        below = first_beyond(values, lows, low, threshold - values[at], -1)
        until[at] = min(above, below)
        high = push(values, highs, high, at, 1)
        low = push(values, lows, low, at, -1)


@compiled
def choose(until: Any, places: Any) -> int:
    """Writes the places that are delivered, and says how many."""
    size = len(until)
    end, far, best, at, count = 0, 0, 0, 0, 0
    while end < size:
        while at <= min(end, size - 1):
            if until[at] > far:
                far, best = until[at], at
            at += 1
        places[count] = best
        count += 1
        end = far
    return count
