"""Predictors from the last values: last value, line, and smoothed level and trend."""

from __future__ import annotations

from thinwire.codec.predictors import arithmetic
from thinwire.codec.predictors.predictor import Predictor
from thinwire.errors import ConfigError


class LastValue(Predictor):
    """Predict that the value does not change.

    The cheapest predictor. Conformance filtering is defined with it.

    >>> p = LastValue()
    >>> p.observe(210); p.predict()
    210
    """

    name = "last"
    mode = arithmetic.LAST


class Linear(Predictor):
    """Predict the next value on the line through the last two: good for counters and ramps, bad for noise.

    >>> p = Linear()
    >>> p.observe(10); p.observe(13); p.predict()
    16
    """

    name = "linear"
    mode = arithmetic.LINEAR


_UNIT = 256


class Trend(Predictor):
    """Predict from a smoothed level and a smoothed, damped trend.

    alpha, beta: share of the error that corrects the level and the trend; damping: factor of the trend; in 256ths

    >>> p = Trend(alpha=256, beta=256, damping=256)
    >>> p.observe(10); p.observe(13); p.predict()
    16

    Charles C. Holt, "Forecasting seasonals and trends by exponentially weighted moving averages".
    """

    name = "trend"
    mode = arithmetic.TREND

    def __init__(self, alpha: int = 128, beta: int = 32, damping: int = 230) -> None:
        for field, value in (("alpha", alpha), ("beta", beta), ("damping", damping)):
            if not 0 <= value <= _UNIT:
                raise ConfigError("a gain is 0 to 256, in 256ths", field=field, value=value)
        self.alpha = alpha
        self.beta = beta
        self.damping = damping
        super().__init__()

    @property
    def coefficients(self) -> int:
        return self.alpha | self.beta << 9 | self.damping << 18


class Smooth(Trend):
    """Predict a running mean, for a noisy level.

    >>> p = Smooth(alpha=128)
    >>> p.observe(100); p.observe(100); p.observe(110); p.predict()
    105
    """

    name = "smooth"

    def __init__(self, alpha: int = 64) -> None:
        super().__init__(alpha=alpha, beta=0, damping=0)


class Cadence(Trend):
    """Predict events at a regular interval, each slightly early or late. The default for timestamps.

    >>> p = Cadence()
    >>> for t in (0, 1000, 2003, 3000): p.observe(t)
    >>> p.predict()
    4000
    """

    name = "cadence"

    def __init__(self, alpha: int = 64, beta: int = 8) -> None:
        super().__init__(alpha=alpha, beta=beta, damping=_UNIT)
