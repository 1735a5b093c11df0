"""Cost of each predictor on a block of events."""

from __future__ import annotations

from typing import Any

import numpy as np

from thinwire.codec.kernels.bit_codes import bit_length
from thinwire.codec.kernels.jit import compiled, part
from thinwire.codec.predictors.arithmetic import FINE, SEASONAL, TREND, observe_trend, predict
from thinwire.codec.ticks import ABSENT, OFF_GRID, TICK_LIMIT, UNSET, decode_residual, encode_residual
from thinwire.wire.stream_state import adapt

PRESENCE = 3
"""bits of a sent value beside its code"""

FRAME = 32
"""bits of the frame of a value that is sent alone"""


@part
def _earlier(series: Any, period: int, season: Any, start: int, first: int) -> Any:
    """Return the values one period before each event of a block."""
    earlier = np.full(len(series), UNSET)
    if period and len(season):
        for k in range(min(period, len(series))):
            earlier[k] = season[start + (first + k) % period]
    if period:
        earlier[period:] = series[: max(0, len(series) - period)]
    return earlier


@part
def _run(series: Any, limits: Any, mode: int, gains: int, earlier: Any, others: Any, is_sent: Any) -> Any:
    """Run one candidate over one series in closed loop. Return its cost in bits and its final trend.

    earlier: per event, the value one period before it
    others: per event, how many other values are sent
    is_sent: set to 1 for each event in which this series sends a value
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
        is_sent[k] = 0
        if t in (ABSENT, OFF_GRID) or abs(t) > TICK_LIMIT or x1 == ABSENT or abs(x1) > TICK_LIMIT:
            x1 = x2 = t
            trend = UNSET
            continue
        if mode & 15 == SEASONAL:
            x2 = earlier[k]
        x = predict(mode, x1, x2, offset, trend, gains)
        residual = t - x
        if residual > tolerance or residual < -tolerance:
            code = encode_residual(residual, tolerance, half)
            x += decode_residual(code, tolerance, half)
            order = bit_length(level >> 5)
            code = min(code, 1 << 60)
            cost += 2 * bit_length(code + (1 << order)) - 1 - order + PRESENCE
            level = adapt(level, code)
            is_sent[k] = 1
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
    """Return the cost in bits and the final trend of every candidate for every series of a block.

    The other series are assumed to be sent as at present. A series that alone causes frames therefore pays for them.
    """
    series_count = len(limits)
    is_sent = np.zeros((series_count, len(block)), dtype=np.int64)
    alone = np.zeros(len(block), dtype=np.int64)
    earlier = np.zeros((series_count, len(block)), dtype=np.int64)
    for a in range(series_count):
        series = block[:, a].copy()
        earlier[a] = _earlier(series, periods[a], season, season_starts[a], first)
        _run(series, limits[a], present[a, 0], present[a, 1], earlier[a], alone, is_sent[a])
    together = is_sent.sum(axis=0)
    costs = np.zeros((series_count, len(candidates)), dtype=np.int64)
    trends = np.zeros((series_count, len(candidates)), dtype=np.int64)
    for a in range(series_count):
        series = block[:, a].copy()
        others = together - is_sent[a]
        for c in range(len(candidates)):
            mode = candidates[c, 0]
            pointless = (mode & 15 == SEASONAL and periods[a] == 0) or (mode & FINE and limits[a, 0] == 0)
            if pointless:
                costs[a, c] = 1 << 40
                continue
            costs[a, c], trends[a, c] = _run(series, limits[a], mode, candidates[c, 1], earlier[a], others, alone)
    return costs, trends
