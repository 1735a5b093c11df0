"""Expect the last step again."""

from __future__ import annotations

from thinwire.reduction.predictors import steps
from thinwire.reduction.predictors.base import Predictor


class Linear(Predictor):
    """The line through the last two values: good for counters and ramps, bad for noise.

    >>> p = Linear()
    >>> p.observe(10); p.observe(13); p.predict()
    16
    """

    name = "linear"
    mode = steps.LINEAR
