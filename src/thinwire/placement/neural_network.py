"""L-BFGS: the minimum of a smooth function from its slopes, remembering the last few steps.

>>> found = minimise(lambda x: (float(((x - 3.0) ** 2).sum()), 2.0 * (x - 3.0)), np.zeros(2))
>>> found.round(4).tolist()
[3.0, 3.0]
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from thinwire.placement.hosts_topics import Vector

Sloped = Callable[[Vector], tuple[float, Vector]]
"""a place -> the value there and its slope"""

MEMORY = 10
SHORTEST = 1e-10


def minimise(function: Sloped, start: Vector, *, rounds: int = 200, flat: float = 1e-6) -> Vector:
    """The lowest place found within so many rounds; earlier where the slope is flat or no step helps."""
    place, (value, slope) = start.copy(), function(start)
    past: deque[tuple[Vector, Vector]] = deque(maxlen=MEMORY)
    for _ in range(rounds):
        if float(np.abs(slope).max()) < flat:
            break
        step = _direction(slope, past)
        size = 1.0 if past else min(1.0, 1.0 / float(np.abs(slope).sum()))
        found = _searched(function, place, value, slope, step, size)
        if found is None:
            break
        lower, (value, after) = found
        if float((lower - place) @ (after - slope)) > SHORTEST:
            past.append((lower - place, after - slope))
        place, slope = lower, after
    return place


def _direction(slope: Vector, past: deque[tuple[Vector, Vector]]) -> Vector:
    """Downhill, bent by the curvature that the past steps met."""
    step, shares = -slope, []
    for moved, changed in reversed(past):
        share = float(moved @ step) / float(moved @ changed)
        step = step - share * changed
        shares.append(share)
    if past:
        moved, changed = past[-1]
        step = step * (float(moved @ changed) / float(changed @ changed))
    for (moved, changed), share in zip(past, reversed(shares), strict=True):
        step = step + moved * (share - float(changed @ step) / float(moved @ changed))
    return step


def _searched(
    function: Sloped, place: Vector, value: float, slope: Vector, step: Vector, size: float
) -> tuple[Vector, tuple[float, Vector]] | None:
    """A place along the step that is clearly lower and not still falling steeply; None where there is none."""
    fall = float(slope @ step)
    if fall >= 0:
        return None
    low, high = 0.0, np.inf
    for _ in range(30):
        there = place + size * step
        value_there, slope_there = function(there)
        if not value_there <= value + 1e-4 * size * fall:
            high = size
        elif float(slope_there @ step) < 0.9 * fall:
            low = size
        else:
            return there, (value_there, slope_there)
        size = 0.5 * (low + high) if np.isfinite(high) else 2.0 * size
    return (there, (value_there, slope_there)) if value_there < value else None
