"""What a predictor is: a shared expectation of the next value, described as data and run by the kernels."""

from __future__ import annotations

from collections import deque
from typing import ClassVar

from thinwire.codec.predictors import predictor_steps as steps
from thinwire.codec.ticks import UNSET


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
            if self.mode == steps.TREND:
                self._offset, self._trend = steps.observe_trend(
                    value, self._x1, self._offset, self._trend, self.coefficients
                )
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
        if self.mode == steps.SEASONAL:
            x2 = self._season[0] if len(self._season) == self.season else UNSET
        return steps.predict(self.mode, self._x1, x2, self._offset, self._trend, self.coefficients)
