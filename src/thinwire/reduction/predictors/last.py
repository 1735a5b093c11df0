"""Expect no change."""

from __future__ import annotations

from thinwire.reduction.predictors import steps
from thinwire.reduction.predictors.base import Predictor


class LastValue(Predictor):
    """Expect no change.

    The cheapest predictor and the one conformance filtering is defined with.

    >>> p = LastValue()
    >>> p.observe(210); p.predict()
    210
    """

    name = "last"
    mode = steps.LAST
