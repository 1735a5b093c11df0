"""The cheapest way to cover demands with patterns, fractions allowed: a primal simplex that is told its columns.

A pattern says how many topics of each type one host takes. Patterns come one by one (column generation); the basis is
kept as an inverse and renewed now and then. Whatever the rounding errors, a lower bound is made from the prices alone.

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
"""pivots after which the inverse is computed anew"""
MAX_PIVOTS = 20_000


class Master:
    """Covering demands with the patterns offered so far; at first, one host for every topic.

    demands: how many topics of each type there are
    lighter: pairs of types of which the first may have the place of the second
    """

    def __init__(self, demands: Vector, lighter: Sequence[tuple[int, int]] = ()) -> None:
        rows = len(demands)
        self.demands = demands
        # demands that differ a little never tie, so no step of the simplex stands still
        self._right = demands + 1e-7 * np.arange(1, rows + 1)
        self._columns = np.eye(rows)
        self._costs = np.ones(rows)
        self._keys = {column.tobytes() for column in self._columns.T}
        self._basis: NDArray[np.int64] = np.arange(rows)
        self._inverse: Vector = np.eye(rows)
        self._free(-np.eye(rows))  # more topics of a type than there are may be covered
        self._free(_exchanges(lighter, rows))

    @property
    def prices(self) -> Vector:
        """What one more topic of each type would cost."""
        return np.asarray(np.maximum(self._costs[self._basis] @ self._inverse, 0.0))

    @property
    def value(self) -> float:
        """Hosts needed, fractions allowed, with the patterns offered so far."""
        return float(self.prices @ self.demands)

    @property
    def used(self) -> list[tuple[Vector, float]]:
        """Patterns with how many hosts follow them."""
        shares = self._inverse @ self.demands
        pairs = zip(self._basis, shares, strict=True)
        return [(self._columns[:, place], float(share)) for place, share in pairs if self._costs[place] and share > 0]

    @property
    def patterns(self) -> list[Vector]:
        """Every pattern offered."""
        return [column for column, cost in zip(self._columns.T, self._costs, strict=True) if cost]

    def offer(self, pattern: Vector) -> bool:
        """Add a pattern; False if it is there already."""
        column = np.asarray(pattern, np.float64)
        if column.tobytes() in self._keys:
            return False
        self._keys.add(column.tobytes())
        self._columns = np.column_stack((self._columns, column))
        self._costs = np.append(self._costs, 1.0)
        return True

    def solve(self) -> None:
        """Pivot until no pattern is worth more than a host."""
        for turn in range(MAX_PIVOTS):
            gains = self._costs[self._basis] @ self._inverse @ self._columns - self._costs
            entering = int(gains.argmax())
            if gains[entering] <= 1e-8 or not self._pivot(entering):
                return
            if turn % RENEW == RENEW - 1:
                self._inverse = np.asarray(np.linalg.inv(self._columns[:, self._basis]), np.float64)

    def _free(self, columns: Vector) -> None:
        """What may be done at no cost."""
        self._columns = np.column_stack((self._columns, columns))
        self._costs = np.concatenate((self._costs, np.zeros(columns.shape[1])))

    def _pivot(self, entering: int) -> bool:
        column = self._inverse @ self._columns[:, entering]
        held = self._inverse @ self._right
        rising = column > SLACK
        if not rising.any():
            return False
        ratios = np.where(rising, held / np.where(rising, column, 1.0), np.inf)
        leaving = int(ratios.argmin())
        row = self._inverse[leaving] / column[leaving]
        self._inverse = self._inverse - np.outer(column, row)
        self._inverse[leaving] = row
        self._basis[leaving] = entering
        return True


def _exchanges(lighter: Sequence[tuple[int, int]], rows: int) -> Vector:
    """Give the place of a heavier topic to a lighter one, a column a pair."""
    columns = np.zeros((rows, len(lighter)))
    for number, (light, heavy) in enumerate(lighter):
        columns[light, number], columns[heavy, number] = 1.0, -1.0
    return columns
