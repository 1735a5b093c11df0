"""Predictors, one idea a file."""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire.codec.predictors.catalogue import by_name, names
    from thinwire.codec.predictors.extrapolation import Cadence, LastValue, Linear, Smooth, Trend
    from thinwire.codec.predictors.predictor import Predictor
    from thinwire.codec.predictors.seasonal import Seasonal, find_period
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "catalogue": "by_name names",
            "extrapolation": "Cadence LastValue Linear Smooth Trend",
            "predictor": "Predictor",
            "seasonal": "Seasonal find_period",
        },
    )

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
