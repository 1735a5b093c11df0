"""Expect the last step again."""

from __future__ import annotations

from thinwire.codec.predictors import predictor_steps as steps
from thinwire.codec.predictors.predictor import Predictor


class Linear(Predictor):
    """The line through the last two values: good for counters and ramps, bad for noise.

    >>> p = Linear()
    >>> p.observe(10); p.observe(13); p.predict()
    16
    """

    name = "linear"
    mode = steps.LINEAR
