"""What every candidate would have cost on a block of events."""

from __future__ import annotations

from typing import Any

import numpy as np

from thinwire.codec import ticks as residual
from thinwire.codec.kernels.bit_codes import bit_length
from thinwire.codec.kernels.jit import compiled, part
from thinwire.codec.predictors.predictor import FINE, SEASONAL, TREND, observe_trend, predict
from thinwire.codec.ticks import ABSENT, OFF_GRID, TICK_LIMIT, UNSET
from thinwire.wire.stream_state import adapt

PRESENCE = 3
"""bits that sending a value costs beside its code"""

FRAME = 32
"""bits of the frame, which a value pays that travels alone"""

encode_residual = residual.encode
decode_residual = residual.decode


@part
def _season(series: Any, k: int, period: int, season: Any, start: int, first: int) -> int:
    """The value one period before event k of a block."""
    if k >= period:
        return series[k - period]
    if len(season) == 0:
        return UNSET
    return season[start + (first + k) % period]


@part
def _run(
    series: Any,
    limits: Any,
    mode: int,
    gains: int,
    period: int,
    season: Any,
    start: int,
    first: int,
    others: Any,
    travels: Any,
) -> Any:
    """One candidate over one series, in closed loop: the bits it costs and the trend it ends with.

    others: how many other values of each event travel; travels: filled in with which values of this series do
    """
    tolerance = limits[0]
    half = 0 if mode & FINE else limits[1]
    x1 = x2 = series[0]
    offset = 0
    trend = UNSET
    level = 0
    cost = 0
    for k in range(1, len(series)):
        t = series[k]
        travels[k] = 0
        if t in (ABSENT, OFF_GRID) or abs(t) > TICK_LIMIT or x1 == ABSENT or abs(x1) > TICK_LIMIT:
            x1 = x2 = t
            trend = UNSET
            continue
        if mode & 15 == SEASONAL:
            x2 = _season(series, k, period, season, start, first)
        x = predict(mode, x1, x2, offset, trend, gains)
        miss = t - x
        if miss > tolerance or miss < -tolerance:
            code = encode_residual(miss, tolerance, half)
            x += decode_residual(code, tolerance, half)
            order = bit_length(level >> 5)
            code = min(code, 1 << 60)
            cost += 2 * bit_length(code + (1 << order)) - 1 - order + PRESENCE
            level = adapt(level, code)
            travels[k] = 1
            if others[k] == 0:
                cost += FRAME
        if mode & 15 == TREND:
            offset, trend = observe_trend(x, x1, offset, trend, gains)
        x2 = x1
        x1 = x
    return cost, trend


@compiled
def shadow(
    block: Any, present: Any, limits: Any, candidates: Any, periods: Any, season: Any, season_starts: Any, first: int
) -> tuple[Any, Any]:
    """Bits of every candidate for every series of a block, and the trends they end with.

    A series is judged beside the others as they are sent at present, so that one which alone makes events travel pays
    for their frames.
    """
    series_count = len(limits)
    travels = np.zeros((series_count, len(block)), dtype=np.int64)
    alone = np.zeros(len(block), dtype=np.int64)
    for a in range(series_count):
        _run(
            block[:, a].copy(),
            limits[a],
            present[a, 0],
            present[a, 1],
            periods[a],
            season,
            season_starts[a],
            first,
            alone,
            travels[a],
        )
    together = travels.sum(axis=0)
    costs = np.zeros((series_count, len(candidates)), dtype=np.int64)
    trends = np.zeros((series_count, len(candidates)), dtype=np.int64)
    for a in range(series_count):
        series = block[:, a].copy()
        others = together - travels[a]
        for c in range(len(candidates)):
            mode = candidates[c, 0]
            pointless = (mode & 15 == SEASONAL and periods[a] == 0) or (mode & FINE and limits[a, 0] == 0)
            if pointless:
                costs[a, c] = 1 << 40
                continue
            costs[a, c], trends[a, c] = _run(
                series, limits[a], mode, candidates[c, 1], periods[a], season, season_starts[a], first, others, alone
            )
    return costs, trends
