"""Numbers as people write them, and the ticks that filters count in.

>>> ticks_of([0.5, 2], step=0.25)
[2, 8]
>>> ranged("1..4,10", step=1)
[1, 2, 3, 4, 10]
>>> ranged("0.01..0.03", step=0.01)
[1, 2, 3]
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from thinwire.errors import DemandError, NotFinite
from thinwire.filters.thresholds import TICK_LIMIT, Ticks, checked_count, checked_threshold


def ticks_of(thresholds: Iterable[float | str], step: float) -> list[int]:
    """Thresholds as whole numbers of steps."""
    return [_whole(threshold, step) for threshold in thresholds]


def ranged(text: str, step: float) -> list[int]:
    """Thresholds joined by commas, `a..b` for every step from a to b, each once and ascending."""
    found: set[int] = set()
    for part in filter(None, map(str.strip, text.split(","))):
        first, dots, last = part.partition("..")
        low = _whole(first, step)
        high = _whole(last, step) if dots else low
        if high < low:
            raise DemandError("a range goes upwards", field="thresholds", value=part)
        checked_count(len(found) + high - low + 1)
        found.update(range(low, high + 1))
    if not found:
        raise DemandError("write numbers joined by commas, or a range a..b", field="thresholds", value=text)
    return sorted(found)


def nearest_ticks(values: npt.NDArray[np.float64], step: float) -> Ticks:
    """Values as the ticks next to them."""
    counts = np.rint(values / float(checked_step(step)))
    if not np.isfinite(counts).all():
        raise NotFinite(field="values")
    if counts.size and np.abs(counts).max() > TICK_LIMIT:
        facts = {"field": "values", "value": float(np.abs(values).max()), "step": step, "limit": TICK_LIMIT}
        raise DemandError("more ticks than the limit, choose a coarser step", **facts)
    return counts.astype(np.int64)


def checked_step(step: float) -> Fraction:
    """The size of a tick, exactly as it is written."""
    found = _number(step, "step")
    if found <= 0:
        raise DemandError("a step is a number above 0", field="step", value=step)
    return found


def _whole(threshold: float | str, step: float) -> int:
    ticks = _number(threshold, "threshold") / checked_step(step)
    if ticks.denominator != 1:
        detail = "a threshold is a whole number of steps: round it, or choose a finer step"
        raise DemandError(detail, field="threshold", value=threshold, step=step)
    return checked_threshold(int(ticks))


def _number(text: float | str, field: str) -> Fraction:
    try:
        return Fraction(str(text))
    except (ValueError, ZeroDivisionError):
        raise DemandError("not a finite number", field=field, value=text) from None
