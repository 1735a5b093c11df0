"""A rate over time, and the instants at which events are due by it.

Instants follow from the rate alone, never from how long anything takes: whoever falls behind is late for all that was
due meanwhile.

>>> Curve(((0.0, 0.0), (10.0, 4.0))).instants(10.0).round(2).tolist()[:4]
[1.58, 2.74, 3.54, 4.18]
>>> len(Curve(((0.0, 100.0),)).instants(2.0))
200
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from thinwire.errors import ScenarioError
from thinwire_lab.workload.random_rows_randomness import Floats, uniforms

Arrivals = Literal["even", "random"]
"""even: as regular as the rate is; random: independent of each other (Poisson)"""

MAX_EVENTS = 50_000_000


@dataclass(frozen=True)
class Curve:
    """Events a second: points (second, rate) joined by straight lines, level before the first and after the last."""

    points: tuple[tuple[float, float], ...]

    def rate(self, second: float) -> float:
        """The rate at a second."""
        return float(np.interp(second, *np.array(self.points).T))

    def instants(self, duration: float, arrivals: Arrivals = "even", seed: int = 0) -> Floats:
        """When events are due within so many seconds, ascending."""
        knots, reached = self._knots(duration)
        total = float(reached[-1])
        if total > MAX_EVENTS:
            raise ScenarioError("more events than a run takes", field="rate", events=round(total), limit=MAX_EVENTS)
        return self._inverse(knots, reached, _places(total, arrivals, seed))

    def _knots(self, duration: float) -> tuple[Floats, Floats]:
        """Seconds between which the rate is straight, and how many events are due by each."""
        inner = [at for at, _ in self.points if 0 < at < duration]
        knots = np.array([0.0, *inner, duration])
        rates = np.array([self.rate(at) for at in knots])
        due = (rates[1:] + rates[:-1]) / 2 * np.diff(knots)
        return knots, np.concatenate([[0.0], np.cumsum(due)])

    def _inverse(self, knots: Floats, reached: Floats, places: Floats) -> Floats:
        """The second at which so many events are due: a quadratic between two knots, solved without cancellation."""
        part = np.clip(np.searchsorted(reached, places, side="left") - 1, 0, len(knots) - 2)
        rates = np.array([self.rate(at) for at in knots])
        first, width = rates[part], np.diff(knots)[part]
        slope = (rates[part + 1] - first) / width
        left = places - reached[part]
        root = np.sqrt(np.maximum(first * first + 2 * slope * left, 0.0))
        return np.asarray(knots[part] + np.minimum(2 * left / np.maximum(first + root, np.finfo(float).tiny), width))


def _places(total: float, arrivals: Arrivals, seed: int) -> Floats:
    """Of every event how many are due up to it, in the middle of its turn."""
    if arrivals == "even":
        return np.arange(int(total + 0.5), dtype=np.float64) + 0.5
    chances = uniforms(seed, "scenario: arrivals", np.arange(int(total + 10 * total**0.5 + 10)))
    places = np.cumsum(-np.log1p(-chances))
    return places[places < total]
