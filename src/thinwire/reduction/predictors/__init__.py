"""Predictors, one idea a file."""

from thinwire.reduction.predictors.base import Predictor
from thinwire.reduction.predictors.catalogue import by_name, names
from thinwire.reduction.predictors.last import LastValue
from thinwire.reduction.predictors.linear import Linear
from thinwire.reduction.predictors.seasonal import Seasonal, find_period
from thinwire.reduction.predictors.trend import Cadence, Smooth, Trend

__all__ = [
    "Cadence",
    "LastValue",
    "Linear",
    "Predictor",
    "Seasonal",
    "Smooth",
    "Trend",
    "by_name",
    "find_period",
    "names",
]
