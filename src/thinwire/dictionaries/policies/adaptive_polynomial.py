"""How large a dictionary should be: a parabola through a few trials, followed until it flattens.

Algorithm 5.1 of the thesis. It fits BR over the multiplier by a second-order polynomial and goes up in whole multiples
of the mean message until one more gains less than 3 points. The thesis fits with a Gauss-Newton optimiser; the
polynomial is linear in its coefficients, so one step of it is ordinary least squares, as here.

>>> multiplier([(0.5, 40.0), (1, 60.0), (2, 72.0), (3, 76.0), (5, 80.0), (8, 82.0), (13, 82.5), (21, 83.0)])
7
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

MULTIPLIERS = (0.5, 1, 2, 3, 5, 8, 13, 21)
"""equation 5.3.9"""
LEAST_GAIN = 3.0
"""points of BR"""


def multiplier(trials: Sequence[tuple[float, float]]) -> int:
    """The multiple of the mean message where one more no longer pays; `trials` are (multiplier, BR)."""
    curve = fitted(trials)
    before, place, most = 0.0, 0, max((tried for tried, _ in trials), default=1.0)
    while place <= most:
        place += 1
        gained = float(np.polyval(curve, place))
        if gained - before < LEAST_GAIN:
            break
        before = gained
    return place


def fitted(trials: Sequence[tuple[float, float]]) -> list[float]:
    """Coefficients of the parabola, highest power first; a line or a constant where trials are too few for one.

    >>> [round(c, 6) for c in fitted([(0, 1.0), (1, 3.0), (2, 9.0)])]
    [2.0, 0.0, 1.0]
    """
    if not trials:
        return [0.0]
    at, found = zip(*trials, strict=True)
    degree = min(2, len(set(at)) - 1)
    return [float(c) for c in np.linalg.lstsq(np.vander(at, degree + 1), np.asarray(found), rcond=None)[0]]
