"""Arithmetic of the built-in predictors: integer functions that scalar code and compiled kernels share.

The state of a slot is four integers: `x1` and `x2`, the last two decoded values, and `offset` and `trend`, in 256ths of
a tick. The slot's `coefficients` hold the gains. All values stay inside 64 bits; shifts round down at both ends.
"""

from __future__ import annotations

from thinwire.codec.ticks import TICK_LIMIT, UNSET

LAST, LINEAR, TREND, SEASONAL = 0, 1, 2, 3
FINE = 16
"""added to a mode: residuals are sent exactly, not in bins"""
MODES = 4
"""number of built-in modes"""

_FAR = 1 << 38
_WIDE = 1 << 46


def clamp(value: int, limit: int) -> int:
    """Limit a value to the range from -limit to limit."""
    if value > limit:
        return limit
    if value < -limit:
        return -limit
    return value


def damped(trend: int, coefficients: int) -> int:
    """Return the damped trend."""
    return (trend * (coefficients >> 18)) >> 8


def predict(mode: int, x1: int, x2: int, offset: int, trend: int, coefficients: int) -> int:
    """Return the predicted next value. For the seasonal mode `x2` is the value one period ago."""
    kind = mode & 15
    if kind == LINEAR:
        return clamp(2 * x1 - x2, TICK_LIMIT)
    if kind == TREND and trend != UNSET:
        return clamp(x1 + ((offset + damped(trend, coefficients)) >> 8), TICK_LIMIT)
    if kind == SEASONAL and x2 != UNSET:
        return x2
    return x1


def observe_trend(x: int, x1: int, offset: int, trend: int, coefficients: int) -> tuple[int, int]:
    """Return offset and trend after a value, both corrected by a share of the prediction error."""
    moved = clamp(x - x1, _FAR) << 8
    beta = (coefficients >> 9) & 511
    if trend == UNSET:
        return 0, (moved if beta else 0)
    error = clamp(moved - offset - damped(trend, coefficients), _WIDE)
    level_part = (error * (coefficients & 511)) >> 8
    return level_part - error, clamp(trend + ((error * beta) >> 8), _WIDE)
