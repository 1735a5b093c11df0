"""Expect no change."""

from __future__ import annotations

from thinwire.codec.predictors import predictor_steps as steps
from thinwire.codec.predictors.predictor import Predictor


class LastValue(Predictor):
    """Expect no change.

    The cheapest predictor and the one conformance filtering is defined with.

    >>> p = LastValue()
    >>> p.observe(210); p.predict()
    210
    """

    name = "last"
    mode = steps.LAST
