"""How far above its expectation a model must look so that a promise is kept on purpose and not on average.

Runs differ although nothing changed, most of all where a worker is nearly always busy. The margin is read off the
errors on runs the model was not fitted to: around every prediction, the distance that so many of them stayed below.

>>> margin = learned(np.zeros(41), np.linspace(-1, 1, 41), kept=0.9)
>>> round(float(margin.above(np.array([0.0]))[0]), 2)
0.8
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from thinwire.errors import ConfigError
from thinwire.placement.hosts_topics import Vector

KEPT = 0.9
"""share of the runs that shall stay below the bound"""
STEPS = 24


@dataclass(frozen=True)
class Margin:
    """A bound for every prediction, both as logarithms; between the places it is a straight line.

    kept: share of runs that stay below
    """

    kept: float
    places: Vector
    bounds: Vector

    def above(self, logs: Vector) -> Vector:
        """The bounds of these predictions."""
        inside = np.interp(logs, self.places, self.bounds)
        low, high = self.bounds[0] - self.places[0], self.bounds[-1] - self.places[-1]
        outside = np.where(logs < self.places[0], logs + low, logs + high)
        return np.asarray(np.where((logs < self.places[0]) | (logs > self.places[-1]), outside, inside))

    def to_document(self) -> dict[str, Any]:
        """Plain numbers."""
        return {"kept": self.kept, "places": self.places.tolist(), "bounds": self.bounds.tolist()}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Margin:
        """The margin of a document."""
        try:
            places, bounds = (np.array(document[name], np.float64) for name in ("places", "bounds"))
            found = cls(float(document["kept"]), places, bounds)
        except (KeyError, TypeError, ValueError) as problem:
            raise ConfigError(f"not a margin: {problem}", field="margin") from None
        fits = places.ndim == 1 and places.shape == bounds.shape and len(places) > 0
        if not fits or not np.isfinite(bounds).all() or (np.diff(places) < 0).any() or (np.diff(bounds) < 0).any():
            raise ConfigError("places and bounds must rise together", field="margin")
        return found


def learned(predicted: Vector, errors: Vector, *, kept: float = KEPT) -> Margin:
    """The margin that so many of the errors stay below, from predictions and how much later it was."""
    if not 0 < kept < 1:
        raise ConfigError("a share of the runs", field="kept", value=kept, above=0, below=1)
    order = np.argsort(predicted, kind="stable")
    pieces = np.array_split(order, max(1, min(STEPS, len(order) // 40)))
    places = np.array([predicted[piece].mean() for piece in pieces])
    bounds = np.array([place + np.quantile(errors[piece], kept) for place, piece in zip(places, pieces, strict=True)])
    # a bound never falls where the expectation rises: a larger set must not look better
    return Margin(kept, places, np.maximum.accumulate(bounds))
