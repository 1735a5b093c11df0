"""Where batches do as well as dictionaries: bytes a message over the messages that are deflated together."""

from __future__ import annotations

from collections.abc import Sequence
from math import log

import numpy as np

Points = Sequence[tuple[float, float]]
"""batch and value, batches rising"""


def equal_at(points: Points, level: float) -> float | None:
    """The batch at which bytes have fallen to this level, between two measured ones straight over the logarithm.

    None where they stay above the level.

    >>> equal_at([(1, 100.0), (2, 60.0), (8, 40.0)], 50.0), equal_at([(1, 100.0), (55, 60.0)], 50.0)
    (4.0, None)
    """
    before: tuple[float, float] | None = None
    for batch, size in points:
        if size <= level:
            if before is None:
                return batch
            share = (before[1] - level) / (before[1] - size)
            return float(before[0] * (batch / before[0]) ** share)
        before = batch, size
    return None


def between(points: Points, batch: float) -> float:
    """The value at a batch between measured ones.

    >>> between([(1, 100.0), (2, 60.0), (8, 40.0)], 4.0)
    50.0
    """
    return float(np.interp(log(batch), [log(at) for at, _ in points], [value for _, value in points]))


def shown(batch: float | None) -> str:
    """A batch in a sentence.

    >>> shown(12.34), shown(None)
    ('12.3', 'no number')
    """
    return "no number" if batch is None else f"{batch:.1f}"
