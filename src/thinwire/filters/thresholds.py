"""What filters take: whole ticks, and sizes that 64 bits and a machine can hold.

>>> checked_threshold(5)
5
>>> checked_threshold(-1)
Traceback (most recent call last):
    ...
thinwire.errors.DemandError: bad demand: a threshold is ... not negative: field='threshold', value=-1, low=0
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import index
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from thinwire.errors import DemandError, WrongType

Ticks: TypeAlias = npt.NDArray[np.int64]

TICK_LIMIT = (1 << 62) - 1
"""a tick and a threshold are at most this large: the sum and the difference of two stay inside 64 bits"""

SUM_LIMIT = 1 << 60
"""the same where more than two are added"""

MAX_THRESHOLDS = 1 << 24
"""distinct thresholds of one source"""


def checked_threshold(threshold: int) -> int:
    """A threshold that filters can work with."""
    ticks = _whole(threshold, "threshold")
    if ticks < 0:
        raise DemandError(
            "a threshold is a number of ticks that is not negative", field="threshold", value=ticks, low=0
        )
    return _bounded(ticks, "threshold")


def checked_tick(value: int) -> int:
    """A value that filters can work with."""
    return _bounded(_whole(value, "value"), "value")


def checked_ticks(values: Any, field: str = "values", limit: int = TICK_LIMIT) -> Ticks:
    """A column of values that filters can work with."""
    column = np.asarray(values)
    if column.ndim != 1 or (column.size and not np.issubdtype(column.dtype, np.integer)):
        raise WrongType("expected a column of whole ticks", field=field, shape=column.shape, type=str(column.dtype))
    if column.size:
        _bounded(int(column.max()), field, limit)
        _bounded(int(column.min()), field, limit)
    return np.ascontiguousarray(column, dtype=np.int64)


def checked_thresholds(thresholds: Iterable[int]) -> Ticks:
    """Distinct thresholds, ascending."""
    whole = thresholds if isinstance(thresholds, np.ndarray) else [checked_threshold(each) for each in thresholds]
    distinct = np.unique(checked_ticks(whole, "thresholds"))
    if distinct.size:
        checked_threshold(int(distinct[0]))
    checked_count(distinct.size)
    return distinct


def checked_count(count: int) -> None:
    """So many distinct thresholds fit."""
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
