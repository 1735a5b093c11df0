"""Events: points of the event space, as dense as the messages of the interests there.

Base interests leave gaps between them. A kernel spreads the rate of each beyond its rectangle, so that the gaps have
events too, most of them near the interests they resemble.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thinwire.errors import ConfigError, SummaryError
from thinwire_lab.workload.interests.hierarchy import Hierarchy
from thinwire_lab.workload.interests.transformations_intervals import intervals
from thinwire_lab.workload.random_rows_randomness import Floats, Rows, fallen, normals, uniforms


class EventSource:
    """Draws events.

    rates: messages per month of every combination of nodes
    bandwidth: how far the kernel reaches (standard deviation), in lengths of the interval that an event comes from
    """

    def __init__(self, axes: Sequence[Hierarchy], rates: Floats, seed: int, bandwidth: float = 0.5) -> None:
        if not 0.0 <= bandwidth <= 100.0:
            raise ConfigError("outside its limits", bandwidth=bandwidth, lowest=0, highest=100)
        if rates.sum() <= 0:
            raise SummaryError("no interest has messages", table="messages", column="per_month")
        self.seed = seed
        self.bandwidth = bandwidth
        self.rate = float(rates.sum())
        self._ends = np.cumsum(rates.ravel())
        self._shape = rates.shape
        self._intervals = [intervals(axis) for axis in axes]

    def interests(self, rows: Rows) -> tuple[Rows, ...]:
        """The interest that each row comes from, as a node of every axis."""
        interest = fallen(self._ends, uniforms(self.seed, "event", rows) * self._ends[-1])
        return tuple(axis.astype(np.int64) for axis in np.unravel_index(interest, self._shape))

    def draw(self, rows: Rows) -> Floats:
        """A point for each row, a column a dimension, within the unit cube."""
        nodes = self.interests(rows)
        steps = normals(self.seed, "event: step", rows, len(nodes)) * self.bandwidth
        points = np.empty((rows.size, len(nodes)))
        for axis, node in enumerate(nodes):
            low, high = self._intervals[axis][node].T
            within = uniforms(self.seed, "event: within", rows, axis)
            points[:, axis] = low + (high - low) * (within + steps[:, axis])
        return _reflected(points)


def _reflected(points: Floats) -> Floats:
    """Points beyond the unit cube, mirrored at its walls as often as it takes.

    >>> _reflected(np.array([-0.25, 0.5, 1.25, 2.5])).tolist()
    [0.25, 0.5, 0.75, 0.5]
    """
    around = np.mod(points, 2.0)
    return np.minimum(around, 2.0 - around)
