"""Predictors by name, and the candidates of `auto`."""

from __future__ import annotations

import re

from thinwire.codec.predictors import arithmetic
from thinwire.codec.predictors.custom import CustomPredictor
from thinwire.codec.predictors.extrapolation import Cadence, LastValue, Linear, Smooth, Trend
from thinwire.codec.predictors.predictor import Predictor
from thinwire.codec.predictors.seasonal import Seasonal
from thinwire.errors import ConfigError, UnknownPredictor
from thinwire.lazy import load_extensions

_SIMPLE: dict[str, type[Predictor]] = {kind.name: kind for kind in (LastValue, Linear, Trend, Smooth, Cadence)}
_CUSTOM: dict[str, type[CustomPredictor]] = {}
EXTENSIONS = "thinwire.predictors"
"""entry point group of distributions whose modules register predictors"""
_NAME = re.compile(r"[a-z][a-z0-9_.-]{0,63}")


def register(predictor: type[CustomPredictor]) -> type[CustomPredictor]:
    """Make a custom predictor available by its name. Publishers and decoders must register it; may be a decorator.

    Raises ConfigError for a name that is taken or invalid, and for functions that do not return integers.
    """
    name = predictor.name
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigError("a predictor name has up to 64 lower-case letters, digits and '_.-'", predictor=name)
    if name in ("auto", Seasonal.name, *_SIMPLE) or _CUSTOM.get(name, predictor) is not predictor:
        raise ConfigError("a predictor with this name exists", predictor=name, known=names())
    for x1, x2 in ((0, 0), (7, 3), (-1_000_000, 1_000_000)):
        results = (predictor.next_value(x1, x2, 0, 0), *predictor.next_state(x1, x2, x2, 0, 0))
        if [type(result) for result in results] != [int] * 3:
            raise ConfigError("a predictor must compute with integers", predictor=name, results=results)
    _CUSTOM[name] = predictor
    return predictor


def custom_by_name(name: str) -> type[CustomPredictor]:
    """Return a registered predictor. Raises UnknownPredictor."""
    if name not in _CUSTOM:
        load_extensions(EXTENSIONS)
    if name not in _CUSTOM:
        raise UnknownPredictor(predictor=name, registered=sorted(_CUSTOM))
    return _CUSTOM[name]


def names() -> list[str]:
    """Return the names of all predictors, without `auto`.

    >>> names()
    ['cadence', 'last', 'linear', 'seasonal', 'smooth', 'trend']
    """
    return sorted([*_SIMPLE, Seasonal.name, *_CUSTOM])


def by_name(name: str, period: int | None = None) -> Predictor:
    """Return a predictor with default gains. Raises ConfigError for an unknown name.

    >>> by_name("smooth").mode == by_name("trend").mode
    True
    """
    if name in _SIMPLE:
        return _SIMPLE[name]()
    if name != Seasonal.name:
        try:
            return custom_by_name(name)()
        except UnknownPredictor:
            advice = "Choose one that `thinwire.codec.predictors.names()` lists, or 'auto'."
            raise ConfigError("unknown predictor", predictor=name, known=names(), advice=advice) from None
    if period is None:
        raise ConfigError("the seasonal predictor needs the property's period", predictor=name)
    return Seasonal(period)


def candidates() -> list[tuple[int, int]]:
    """Return mode and coefficients of the candidates of `auto`, cheapest first; the seasonal one needs a period."""
    others = (Linear(), Trend(), Smooth(64), Smooth(24), Cadence())
    held = [(arithmetic.LAST, 0), (arithmetic.LAST | arithmetic.FINE, 0)]
    return [*held, *((p.mode, p.coefficients) for p in others), (arithmetic.SEASONAL, 0)]
