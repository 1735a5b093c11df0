"""How far the values of one property were from the truth, against what was promised.

>>> temperature = Deviation()
>>> temperature.add(error=0.4, bound=0.5)
>>> temperature.add(error=0.6, bound=0.5)
>>> temperature.checked, temperature.broken, temperature.worst, round(temperature.ratio, 3)
(2, 1, 0.6, 1.2)
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from thinwire.errors import LedgerError
from thinwire.ledger import histogram
from thinwire.ledger.histogram import Histogram


@dataclass
class Deviation:
    """The errors of one property.

    broken: values beyond their bound, none if the promise was kept; worst: the largest error, in the property's own
    unit; ratios: the spread of the errors divided by their bounds
    """

    broken: int = 0
    worst: float = 0.0
    ratios: Histogram = field(default_factory=Histogram)

    @property
    def checked(self) -> int:
        """How many values were compared with the truth."""
        return self.ratios.count

    @property
    def ratio(self) -> float:
        """The largest error divided by its bound; infinite where a bound of 0 was broken."""
        return max(self.ratios.most, 0.0)

    def add(self, error: float, bound: float) -> None:
        """Compare one value with its bound."""
        if not (error >= 0 and 0 <= bound < math.inf):
            raise LedgerError("errors are numbers from 0 upwards, bounds also finite", error=error, bound=bound)
        # A bound of 0 promises equality: any error at all breaks it by infinitely much.
        self.ratios.add(error / bound if bound else math.inf if error else 0.0)
        self.broken += error > bound
        self.worst = max(self.worst, error)

    def add_many(self, errors: ArrayLike, bounds: ArrayLike) -> None:
        """Compare a column of values with their bounds, or all of them with one bound."""
        error = np.asarray(errors, dtype=np.float64).ravel()
        bound = np.broadcast_to(np.asarray(bounds, dtype=np.float64), error.shape)
        if not bool(((error >= 0) & (bound >= 0) & np.isfinite(bound)).all()):
            raise LedgerError("errors are numbers from 0 upwards, bounds also finite")
        ratios = np.where(error > 0, np.inf, 0.0)
        with np.errstate(over="ignore"):
            np.divide(error, bound, out=ratios, where=bound > 0)
        self.ratios.add_many(ratios)
        self.broken += int((error > bound).sum())
        self.worst = max(self.worst, float(error.max(initial=0.0)))

    def copy(self) -> Deviation:
        return Deviation(self.broken, self.worst, self.ratios.copy())


def merged(deviations: Iterable[Deviation]) -> Deviation:
    """All of these together."""
    parts = list(deviations)
    return Deviation(
        broken=sum(part.broken for part in parts),
        worst=max((part.worst for part in parts), default=0.0),
        ratios=histogram.merged(part.ratios for part in parts),
    )
