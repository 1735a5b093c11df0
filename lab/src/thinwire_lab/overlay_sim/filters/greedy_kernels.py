"""Kernels of the greedy filter: one threshold over a column of values."""

from __future__ import annotations

from typing import Any

from thinwire.codec.kernels.jit import compiled, part


@compiled
def deliver(values: Any, threshold: int, centre: int, first: bool, places: Any) -> int:
    """Write the indexes of the delivered values to `places`; return their number."""
    count = 0
    low, high = centre - threshold, centre + threshold
    for at in range(len(values)):
        x = values[at]
        if first or x < low or x > high:
            first = False
            low, high = x - threshold, x + threshold
            places[count] = at
            count += 1
    return count


@compiled
def longest_gap(values: Any, places: Any) -> int:
    """Return the largest distance between a value and the one delivered last; the first value is delivered."""
    worst = 0
    held = values[0]
    turn = 0
    for at in range(len(values)):
        if turn < len(places) and places[turn] == at:
            held = values[at]
            turn += 1
        worst = max(worst, abs(values[at] - held))
    return worst


@part
def count_column(values: Any, threshold: int, centre: int, first: bool, quiet: int) -> tuple[int, int, int, int, int]:
    """Return last delivered value, deliveries, largest gap, current and longest run of suppressed values."""
    delivered, gap, longest = 0, 0, 0
    for x in values:
        away = abs(x - centre)
        if first or away > threshold:
            first = False
            centre = x
            delivered += 1
            longest = max(longest, quiet)
            quiet = 0
        else:
            gap = max(gap, away)
            quiet += 1
    return centre, delivered, gap, quiet, longest


@compiled
def count_rows(
    values: Any, thresholds: Any, first: bool, centres: Any, delivered: Any, gaps: Any, quiet: Any, longest: Any
) -> None:
    """Apply each threshold to all values in turn; the values stay in the CPU cache."""
    for i in range(len(thresholds)):
        centre, n, gap, now, worst = count_column(values, thresholds[i], centres[i], first, quiet[i])
        centres[i] = centre
        delivered[i] += n
        gaps[i] = max(gaps[i], gap)
        quiet[i] = now
        longest[i] = max(longest[i], worst)
