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


@part
def count_column(values: Any, threshold: int, centre: int, first: bool, quiet: int) -> tuple[int, int, int, int, int]:
    """Apply a threshold to values. Return the state and the results, in the order of the names below.

    centre: value delivered last
    first: whether the first value is delivered in any case
    quiet: length of the current run of suppressed values
    Return centre, number of deliveries, largest gap, quiet, and the longest run that a delivery ended.
    """
    delivered, gap, longest = 0, 0, 0
    for x in values:
        distance = abs(x - centre)
        if first or distance > threshold:
            first = False
            centre = x
            delivered += 1
            longest = max(longest, quiet)
            quiet = 0
        else:
            gap = max(gap, distance)
            quiet += 1
    return centre, delivered, gap, quiet, longest


@compiled
def count_rows(
    values: Any, thresholds: Any, first: bool, centres: Any, delivered: Any, gaps: Any, quiet: Any, longest: Any
) -> None:
    """Apply each threshold to all values in delivered; the values stay in the CPU cache."""
    for i in range(len(thresholds)):
        centre, n, gap, now, worst = count_column(values, thresholds[i], centres[i], first, quiet[i])
        centres[i] = centre
        delivered[i] += n
        gaps[i] = max(gaps[i], gap)
        quiet[i] = now
        longest[i] = max(longest[i], worst)
