"""The search for a knee: the highest rate that is held, each try costing seconds.

>>> import asyncio
>>> tried = []
>>> async def held(rate):
...     tried.append(round(rate))
...     return rate <= 7300
>>> round(asyncio.run(climb(held, 4000)))
7165
>>> tried
[4000, 6000, 9000, 7348, 6640, 6985, 7165]
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from math import sqrt

STRIDE = 1.5
PRECISION = 1.05
"""how far the lowest rate that failed may lie above the highest that was held"""
STEPS = (0.93, 0.93, 0.85, 0.75, 0.6, 0.5)
"""from one try that confirms to the next"""
LOWEST, HIGHEST = 300.0, 2_000_000.0

Held = Callable[[float], Awaitable[bool]]


async def climb(held: Held, start: float, stride: float = STRIDE, precision: float = PRECISION) -> float:
    """The highest rate that is held, to the precision; 0 where not even the lowest is."""
    good, bad = await _bracket(held, start, stride)
    while good and bad / good > precision:
        middle = sqrt(good * bad)
        if await held(middle):
            good = middle
        else:
            bad = middle
    return good


async def confirm(held: Held, rate: float) -> float:
    """The rate, or the next lower one that is held for long; 0 after a few tries, each further below the one before."""
    for step in (*STEPS, 0.0):
        if await held(rate):
            return rate
        rate *= step
    return 0.0


async def _bracket(held: Held, rate: float, stride: float) -> tuple[float, float]:
    """A rate that is held and a higher one that is not."""
    if await held(rate):
        while rate < HIGHEST and await held(rate * stride):
            rate *= stride
        return rate, rate * stride
    while rate > LOWEST:
        rate /= stride
        if await held(rate):
            return rate, rate * stride
    return 0.0, rate
