"""Expect no change.

Expect the last step again.

Follow level and trend, smoothed.
"""

from __future__ import annotations

from thinwire.codec.predictors import predictor as steps
from thinwire.codec.predictors.predictor import Predictor
from thinwire.errors import ConfigError


class LastValue(Predictor):
    """Expect no change.

    The cheapest predictor and the one conformance filtering is defined with.

    >>> p = LastValue()
    >>> p.observe(210); p.predict()
    210
    """

    name = "last"
    mode = steps.LAST


class Linear(Predictor):
    """The line through the last two values: good for counters and ramps, bad for noise.

    >>> p = Linear()
    >>> p.observe(10); p.observe(13); p.predict()
    16
    """

    name = "linear"
    mode = steps.LINEAR


_UNIT = 256


class Trend(Predictor):
    """Level and trend, both smoothed, the trend damped.

    alpha: how much of a miss moves the level; beta: how much moves the trend; damping: how much of the trend is
    trusted; all in 256ths.

    >>> p = Trend(alpha=256, beta=256, damping=256)
    >>> p.observe(10); p.observe(13); p.predict()
    16

    Charles C. Holt, "Forecasting seasonals and trends by exponentially weighted moving averages".
    """

    name = "trend"
    mode = steps.TREND

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
    """A running mean: the best guess for a level under noise.

    >>> p = Smooth(alpha=128)
    >>> p.observe(100); p.observe(100); p.observe(110); p.predict()
    105
    """

    name = "smooth"

    def __init__(self, alpha: int = 64) -> None:
        super().__init__(alpha=alpha, beta=0, damping=0)


class Cadence(Trend):
    """Events at a steady pace, each a little early or late: the rule for timestamps.

    >>> p = Cadence()
    >>> for t in (0, 1000, 2003, 3000): p.observe(t)
    >>> p.predict()
    4000
    """

    name = "cadence"

    def __init__(self, alpha: int = 64, beta: int = 8) -> None:
        super().__init__(alpha=alpha, beta=beta, damping=_UNIT)
