"""Ordinary least squares over a handful of observations: how long dictionaries with such features have lasted.

>>> lives = Lives()
>>> for volatility in (1.0, 2.0, 3.0):
...     lives.record((volatility, 5.0), 4000.0 - 1000 * volatility)
>>> len(lives), round(lives.predict((2.5, 5.0)))
(3, 1500)
"""

from __future__ import annotations

from collections import deque

import numpy as np

Features = tuple[float, float]
"""mean standard deviation of the scores of substrings, and their mean"""
MOST = 256
"""observations that are kept, the latest"""


class Lives:
    """Observed lives of dictionaries, in messages, with the features they had."""

    def __init__(self) -> None:
        self._seen: deque[tuple[Features, float]] = deque(maxlen=MOST)

    def __len__(self) -> int:
        return len(self._seen)

    def record(self, features: Features, life: float) -> None:
        """One more observation."""
        self._seen.append((features, life))

    def predict(self, features: Features) -> float:
        """The life to be expected; of all lines that fit equally well the flattest is taken."""
        rows = np.asarray([(1.0, *of) for of, _ in self._seen])
        lives = np.asarray([life for _, life in self._seen])
        weights = np.linalg.lstsq(rows, lives, rcond=None)[0]
        return float(np.asarray((1.0, *features)) @ weights)
