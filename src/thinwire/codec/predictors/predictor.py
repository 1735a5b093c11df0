"""What a predictor is: a shared expectation of the next value, described as data and run by the kernels.

The arithmetic of every predictor: plain functions on integers, called per event, and compiled for batches.

A slot's state is four integers: `x1` and `x2` (the last two reconstructed values), `offset` and `trend` (in 256ths of a
tick), read with the slot's `coefficients`. All values stay inside 64 bits; shifts round down on both sides.
"""

from __future__ import annotations

from collections import deque
from typing import ClassVar

from thinwire.codec.ticks import TICK_LIMIT, UNSET

LAST, LINEAR, TREND, SEASONAL = 0, 1, 2, 3
FINE = 16
"""added to a mode: residuals travel exactly, not in bins"""
MODES = 4

_FAR = 1 << 38
_WIDE = 1 << 46


def clamp(value: int, limit: int) -> int:
    """The value, or the limit it went beyond."""
    if value > limit:
        return limit
    if value < -limit:
        return -limit
    return value


def damped(trend: int, coefficients: int) -> int:
    """The trend as far as it is trusted."""
    return (trend * (coefficients >> 18)) >> 8


def predict(mode: int, x1: int, x2: int, offset: int, trend: int, coefficients: int) -> int:
    """The value expected next. For the seasonal mode `x2` is the value one period ago."""
    kind = mode & 15
    if kind == LINEAR:
        return clamp(2 * x1 - x2, TICK_LIMIT)
    if kind == TREND and trend != UNSET:
        return clamp(x1 + ((offset + damped(trend, coefficients)) >> 8), TICK_LIMIT)
    if kind == SEASONAL and x2 != UNSET:
        return x2
    return x1


def observe_trend(x: int, x1: int, offset: int, trend: int, coefficients: int) -> tuple[int, int]:
    """Offset and trend after a value: both lean towards what the prediction missed."""
    moved = clamp(x - x1, _FAR) << 8
    beta = (coefficients >> 9) & 511
    if trend == UNSET:
        return 0, (moved if beta else 0)
    missed = clamp(moved - offset - damped(trend, coefficients), _WIDE)
    level_part = (missed * (coefficients & 511)) >> 8
    return level_part - missed, clamp(trend + ((missed * beta) >> 8), _WIDE)


class Predictor:
    """Two verbs on ticks: `observe` a value, `predict` the next one.

    The object is the description that rules and reports speak of, and a replica for one series that runs the same
    arithmetic as the kernels.
    """

    name: ClassVar[str]
    mode: ClassVar[int]

    def __init__(self) -> None:
        self._x1: int | None = None
        self._x2 = 0
        self._offset = 0
        self._trend = UNSET
        self._season: deque[int] = deque(maxlen=self.season)

    @property
    def coefficients(self) -> int:
        """The predictor's gains as one number, as they travel."""
        return 0

    @property
    def season(self) -> int:
        """How many past values the predictor needs to keep."""
        return 0

    def observe(self, value: int) -> None:
        """Take in the value that both sides now have."""
        if self._x1 is not None:
            if self.mode == TREND:
                self._offset, self._trend = observe_trend(value, self._x1, self._offset, self._trend, self.coefficients)
            self._x2 = self._x1
        else:
            self._x2 = value
        self._x1 = value
        self._season.append(value)

    def predict(self) -> int:
        """The value expected next; nothing can be expected before the first."""
        if self._x1 is None:
            raise ValueError("a predictor needs one value before it can predict")
        x2 = self._x2
        if self.mode == SEASONAL:
            x2 = self._season[0] if len(self._season) == self.season else UNSET
        return predict(self.mode, self._x1, x2, self._offset, self._trend, self.coefficients)
