"""Linear relaxation of the covering problem: a primal simplex with columns added on demand.

A pattern is the number of topics of each type on one host. Patterns are added one by one (column generation). The
basis inverse is updated and recomputed periodically. The lower bound uses the prices alone, so rounding errors do not
affect it.

>>> master = Master(np.array([3.0, 2.0]))
>>> master.offer(np.array([1.0, 1.0]))
True
>>> master.solve()
>>> round(master.value, 3), master.prices.round(3).tolist()
(3.0, [1.0, 0.0])
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from thinwire.placement.hosts import Vector

SLACK = 1e-9
RENEW = 64
"""pivots after which the inverse is recomputed"""
MAX_PIVOTS = 20_000


class Master:
    """Covers demands with the patterns added so far; initially one pattern per type with a single topic.

    demands: number of topics of each type
    lighter: pairs of types; the first may replace the second
    """

    def __init__(self, demands: Vector, lighter: Sequence[tuple[int, int]] = ()) -> None:
        rows, single = len(demands), np.eye(len(demands))
        self.demands = demands
        # A small perturbation of the demands avoids degenerate pivots.
        self._right = demands + 1e-7 * np.arange(1, rows + 1)
        light, heavy = np.array(lighter, np.int64).reshape(-1, 2).T
        # It is free to cover more topics of a type than needed, and to replace a heavier topic by a lighter one.
        self._columns = np.hstack((single, -single, single[:, light] - single[:, heavy]))
        self._costs = np.repeat((1.0, 0.0), (rows, rows + len(light)))
        self._keys = {column.tobytes() for column in single}
        self._basis: NDArray[np.int64] = np.arange(rows)
        self._inverse: Vector = single

    @property
    def prices(self) -> Vector:
        """Dual price of each type."""
        return np.asarray(np.maximum(self._costs[self._basis] @ self._inverse, 0.0))

    @property
    def value(self) -> float:
        """Value of the relaxation with the current patterns."""
        return float(self.prices @ self.demands)

    @property
    def used(self) -> list[tuple[Vector, float]]:
        """Patterns with their multiplicity."""
        shares = self._inverse @ self.demands
        pairs = zip(self._basis, shares, strict=True)
        return [(self._columns[:, place], float(share)) for place, share in pairs if self._costs[place] and share > 0]

    @property
    def patterns(self) -> list[Vector]:
        """All patterns added."""
        return [column for column, cost in zip(self._columns.T, self._costs, strict=True) if cost]

    def offer(self, pattern: Vector) -> bool:
        """Add a pattern; return False if it was added before."""
        column = np.asarray(pattern, np.float64)
        if column.tobytes() in self._keys:
            return False
        self._keys.add(column.tobytes())
        self._columns = np.column_stack((self._columns, column))
        self._costs = np.append(self._costs, 1.0)
        return True

    def solve(self) -> None:
        """Pivot until no pattern has more value than a host."""
        for turn in range(MAX_PIVOTS):
            gains = self._costs[self._basis] @ self._inverse @ self._columns - self._costs
            entering = int(gains.argmax())
            if gains[entering] <= 1e-8 or not self._pivot(entering):
                return
            if turn % RENEW == RENEW - 1:
                self._inverse = np.asarray(np.linalg.inv(self._columns[:, self._basis]), np.float64)

    def _pivot(self, entering: int) -> bool:
        column = self._inverse @ self._columns[:, entering]
        basic = self._inverse @ self._right
        rising = column > SLACK
        if not rising.any():
            return False
        ratios = np.where(rising, basic / np.where(rising, column, 1.0), np.inf)
        leaving = int(ratios.argmin())
        row = self._inverse[leaving] / column[leaving]
        self._inverse = self._inverse - np.outer(column, row)
        self._inverse[leaving] = row
        self._basis[leaving] = entering
        return True
