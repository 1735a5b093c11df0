"""Validation and conversion of thresholds and values in ticks.

>>> checked_threshold(5)
5
>>> checked_threshold(-1)
Traceback (most recent call last):
    ...
thinwire.errors.DemandError: bad demand: a threshold is ... not negative: field='threshold', value=-1, low=0

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
from operator import index
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from thinwire.errors import DemandError, NotFinite, WrongType

Ticks: TypeAlias = npt.NDArray[np.int64]

TICK_LIMIT = (1 << 62) - 1
"""largest tick and threshold; the sum and the difference of two fit into 64 bits"""

SUM_LIMIT = 1 << 60
"""limit of ticks where more than two are added"""

MAX_THRESHOLDS = 1 << 24
"""distinct thresholds of one source"""


def checked_threshold(threshold: int) -> int:
    """Return a threshold; raise `DemandError` if it is negative or above the limit."""
    ticks = _whole(threshold, "threshold")
    if ticks < 0:
        raise DemandError("a threshold is a number of ticks, not negative", field="threshold", value=ticks, low=0)
    return _bounded(ticks, "threshold")


def checked_tick(value: int) -> int:
    """Return a value in ticks; raise `DemandError` if it is above the limit."""
    return _bounded(_whole(value, "value"), "value")


def checked_ticks(values: Any, field: str = "values", limit: int = TICK_LIMIT) -> Ticks:
    """Return a column of ticks; raise `WrongType` or `DemandError` if it is not one."""
    column = np.asarray(values)
    if column.ndim != 1 or (column.size and not np.issubdtype(column.dtype, np.integer)):
        raise WrongType("expected a column of whole ticks", field=field, shape=column.shape, type=str(column.dtype))
    if column.size:
        _bounded(int(column.max()), field, limit)
        _bounded(int(column.min()), field, limit)
    return np.ascontiguousarray(column, dtype=np.int64)


def checked_thresholds(thresholds: Iterable[int]) -> Ticks:
    """Return the distinct thresholds, ascending."""
    whole = thresholds if isinstance(thresholds, np.ndarray) else [checked_threshold(each) for each in thresholds]
    distinct = np.unique(checked_ticks(whole, "thresholds"))
    if distinct.size:
        checked_threshold(int(distinct[0]))
    checked_count(distinct.size)
    return distinct


def checked_count(count: int) -> None:
    """Raise `DemandError` above the limit of distinct thresholds."""
    if count > MAX_THRESHOLDS:
        facts = {"field": "thresholds", "count": count, "limit": MAX_THRESHOLDS}
        raise DemandError("too many thresholds, round them to fewer", **facts)


def _whole(number: int, field: str) -> int:
    try:
        return index(number)
    except TypeError:
        raise WrongType("ticks are whole numbers: divide by the step", field=field, value=number) from None


def _bounded(ticks: int, field: str, limit: int = TICK_LIMIT) -> int:
    if abs(ticks) > limit:
        raise DemandError("more ticks than the limit, choose a coarser step", field=field, value=ticks, limit=limit)
    return ticks


def ticks_of(thresholds: Iterable[float | str], step: float) -> list[int]:
    """Return thresholds, such as 0.5, as numbers of ticks of size `step`."""
    return [_whole_steps(threshold, step) for threshold in thresholds]


def ranged(text: str, step: float) -> list[int]:
    """Parse thresholds separated by commas, with `a..b` for every step from a to b; distinct and ascending."""
    found: set[int] = set()
    for part in filter(None, map(str.strip, text.split(","))):
        first, dots, last = part.partition("..")
        low = _whole_steps(first, step)
        high = _whole_steps(last, step) if dots else low
        if high < low:
            raise DemandError("the second number of a range is below the first", field="thresholds", value=part)
        checked_count(len(found) + high - low + 1)
        found.update(range(low, high + 1))
    if not found:
        raise DemandError("write numbers joined by commas, or a range a..b", field="thresholds", value=text)
    return sorted(found)


def nearest_ticks(values: npt.NDArray[np.float64], step: float) -> Ticks:
    """Return the nearest tick of each value."""
    counts = np.rint(values / float(checked_step(step)))
    if not np.isfinite(counts).all():
        raise NotFinite(field="values")
    if counts.size and np.abs(counts).max() > TICK_LIMIT:
        facts = {"field": "values", "value": float(np.abs(values).max()), "step": step, "limit": TICK_LIMIT}
        raise DemandError("more ticks than the limit, choose a coarser step", **facts)
    return counts.astype(np.int64)


def checked_step(step: float) -> Fraction:
    """Return the step as an exact fraction."""
    found = _number(step, "step")
    if found <= 0:
        raise DemandError("a step is a number above 0", field="step", value=step)
    return found


def _whole_steps(threshold: float | str, step: float) -> int:
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
