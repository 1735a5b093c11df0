"""Base class of predictors."""

from __future__ import annotations

from collections import deque
from typing import ClassVar

from thinwire.codec.predictors.arithmetic import SEASONAL, TREND, observe_trend, predict
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
        self._season: deque[int] = deque(maxlen=self.season)

    @property
    def coefficients(self) -> int:
        """The gains as one number, as sent."""
        return 0

    @property
    def season(self) -> int:
        """Number of past values that the predictor uses."""
        return 0

    def observe(self, value: int) -> None:
        """Add the next value."""
        if self._x1 is not None:
            if self.mode == TREND:
                self._offset, self._trend = observe_trend(value, self._x1, self._offset, self._trend, self.coefficients)
            self._x2 = self._x1
        else:
            self._x2 = value
        self._x1 = value
        self._season.append(value)

    def predict(self) -> int:
        """Return the predicted next value. Needs at least one value."""
        if self._x1 is None:
            raise ValueError("predict needs at least one observed value")
        x2 = self._x2
        if self.mode == SEASONAL:
            x2 = self._season[0] if len(self._season) == self.season else UNSET
        return predict(self.mode, self._x1, x2, self._offset, self._trend, self.coefficients)
