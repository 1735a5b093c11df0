"""Predictor of periodic values."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from thinwire.codec.predictors import arithmetic
from thinwire.codec.predictors.predictor import Predictor
from thinwire.errors import ConfigError
from thinwire.schema.property import MAX_PERIOD


class Seasonal(Predictor):
    """Predict the value one period ago; the last value until a full period has been observed.

    >>> p = Seasonal(period=3)
    >>> for x in (1, 5, 9): p.observe(x)
    >>> p.predict()
    1
    """

    name = "seasonal"
    mode = arithmetic.SEASONAL

    def __init__(self, period: int) -> None:
        if not 1 < period <= MAX_PERIOD:
            raise ConfigError("period out of range", period=period, limit=MAX_PERIOD)
        self.period = period
        self._season: deque[int] = deque(maxlen=period)
        super().__init__()

    def observe(self, value: int) -> None:
        super().observe(value)
        self._season.append(value)

    def step(self, x1: int, x2: int, a: int, b: int) -> int:
        return self._season[0] if len(self._season) == self.period else x1


def find_period(ticks: Sequence[int], longest: int = MAX_PERIOD) -> int | None:
    """Return the period of a series, or None if it has no clear one.

    >>> find_period([0, 3, 9, 3] * 20)
    4
    >>> find_period(list(range(80))) is None
    True
    """
    series = np.diff(np.asarray(ticks, dtype=np.float64))
    if len(series) < 8 or not series.std():
        return None
    series -= series.mean()
    spectrum = np.fft.rfft(series, 2 * len(series))
    correlation = np.fft.irfft(spectrum * np.conj(spectrum))[: len(series) // 2]
    correlation = (
        correlation / correlation[0] * len(series) / np.arange(len(series), len(series) - len(correlation), -1)
    )
    lags = np.arange(2, min(len(correlation), longest + 1))
    if not len(lags):
        return None
    strength = correlation[lags]
    at = int(np.argmax(strength >= 0.9 * strength.max()))  # the first multiple, at the start of its peak
    while at + 1 < len(strength) and strength[at + 1] > strength[at]:
        at += 1
    return int(lags[at]) if strength[at] > 0.5 else None
