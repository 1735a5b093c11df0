"""Base class of predictors."""

from __future__ import annotations

from typing import ClassVar

from thinwire.codec.predictors import arithmetic
from thinwire.codec.ticks import UNSET


class Predictor:
    """Integer step function that predicts the next tick of a property from the ticks before it.

    A predictor describes the mode and coefficients of a rule. An instance also runs on one series: `observe` a value,
    then `predict` the next one, with the arithmetic of the kernels.
    """

    name: ClassVar[str]
    mode: ClassVar[int]

    def __init__(self) -> None:
        self._x1: int | None = None
        self._x2 = 0
        self._offset = 0
        self._trend = UNSET

    @property
    def coefficients(self) -> int:
        """The gains as one number, as sent."""
        return 0

    def observe(self, value: int) -> None:
        """Add the next value."""
        if self._x1 is None:
            self._x2 = value
        else:
            self._offset, self._trend = self.update(value, self._x1, self._x2, self._offset, self._trend)
            self._x2 = self._x1
        self._x1 = value

    def predict(self) -> int:
        """Return the predicted next value. Needs at least one value."""
        if self._x1 is None:
            raise ValueError("predict needs at least one observed value")
        return self.step(self._x1, self._x2, self._offset, self._trend)

    def step(self, x1: int, x2: int, a: int, b: int) -> int:
        """Return the prediction after the last two values; `a` and `b` are offset and trend."""
        return arithmetic.predict(self.mode, x1, x2, a, b, self.coefficients)

    def update(self, x: int, x1: int, x2: int, a: int, b: int) -> tuple[int, int]:
        """Return `a` and `b` after the value `x`, which followed `x1`."""
        is_trend = self.mode == arithmetic.TREND
        return arithmetic.observe_trend(x, x1, a, b, self.coefficients) if is_trend else (a, b)
