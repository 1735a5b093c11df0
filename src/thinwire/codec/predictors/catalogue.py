"""Predictors by name, and the ones `auto` chooses from."""

from __future__ import annotations

from typing import NamedTuple

from thinwire.codec.predictors import predictor as steps
from thinwire.codec.predictors.extrapolation import Cadence, LastValue, Linear, Smooth, Trend
from thinwire.codec.predictors.predictor import Predictor
from thinwire.codec.predictors.seasonal import Seasonal
from thinwire.errors import ConfigError, UnknownPredictor

_SIMPLE: dict[str, type[Predictor]] = {kind.name: kind for kind in (LastValue, Linear, Trend, Smooth, Cadence)}


def names() -> list[str]:
    """The names a rule may use, `auto` aside.

    >>> names()
    ['cadence', 'last', 'linear', 'seasonal', 'smooth', 'trend']
    """
    return sorted([*_SIMPLE, Seasonal.name])


def by_name(name: str, period: int | None = None) -> Predictor:
    """The predictor of this name, with its default gains.

    >>> by_name("smooth").mode == by_name("trend").mode
    True
    """
    if name in _SIMPLE:
        return _SIMPLE[name]()
    if name != Seasonal.name:
        raise UnknownPredictor(predictor=name, known=names())
    if period is None:
        raise ConfigError("the seasonal predictor needs the property's period", predictor=name)
    return Seasonal(period)


class PredictorCandidate(NamedTuple):
    """A way to predict and to send that `auto` may choose."""

    mode: int
    coefficients: int


def candidates() -> list[PredictorCandidate]:
    """What `auto` tries, the cheapest to run first; the seasonal one comes last and only where a period is known."""
    described = [LastValue(), Linear(), Trend(), Smooth(64), Smooth(24), Cadence()]
    plain = [PredictorCandidate(p.mode, p.coefficients) for p in described]
    fine = [PredictorCandidate(p.mode | steps.FINE, p.coefficients) for p in plain[:1]]
    return [*plain[:1], *fine, *plain[1:], PredictorCandidate(steps.SEASONAL, 0)]
