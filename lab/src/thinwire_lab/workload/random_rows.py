"""Whole numbers in proportion to weights."""

from __future__ import annotations

import numpy as np

from thinwire_lab.workload.random_rows_randomness import Floats, Rows


def quotas(weights: Floats, total: int) -> Rows:
    """How many of `total` each weight is due, by largest remainders; of equal ones the first is served first.

    >>> quotas(np.array([6.0, 3.0, 1.0]), 5).tolist()
    [3, 2, 0]
    """
    if total == 0 or weights.sum() <= 0:
        return np.zeros(weights.size, dtype=np.int64)
    due = weights * (total / weights.sum())
    whole = np.floor(due).astype(np.int64)
    missing = total - int(whole.sum())
    whole[np.argsort(whole - due, kind="stable")[:missing]] += 1
    return np.asarray(whole)
