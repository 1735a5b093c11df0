"""Predictors: integer models that both ends of a stream run."""

from thinwire.codec.predictors.catalogue import by_name, names, register
from thinwire.codec.predictors.custom import CustomPredictor
from thinwire.codec.predictors.extrapolation import Cadence, LastValue, Linear, Smooth, Trend
from thinwire.codec.predictors.predictor import Predictor
from thinwire.codec.predictors.seasonal import Seasonal, find_period

__all__ = [
    "Cadence",
    "CustomPredictor",
    "LastValue",
    "Linear",
    "Predictor",
    "Seasonal",
    "Smooth",
    "Trend",
    "by_name",
    "find_period",
    "names",
    "register",
]
