"""L-BFGS: the minimum of a smooth function from its slopes, remembering the last few steps.

>>> found = minimise(lambda x: (float(((x - 3.0) ** 2).sum()), 2.0 * (x - 3.0)), np.zeros(2))
>>> found.round(4).tolist()
[3.0, 3.0]

Small networks on columns of numbers: the seed's, with rectified units, and ours, which can only rise.

Both are stacks of layers fitted by L-BFGS to squared errors with a penalty on the weights. In a rising network every
weight is a square, so never negative, and every unit flattens out but never turns: more load can never predict less
latency, whatever the samples said. Its last layer sees the inputs as well, so it goes on rising beyond the samples.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from thinwire.errors import ConfigError
from thinwire.placement.hosts import Vector

Sloped = Callable[[Vector], tuple[float, Vector]]
"""a place -> the value there and its slope"""

MEMORY = 10
SHORTEST = 1e-10


def minimise(function: Sloped, start: Vector, *, rounds: int = 200, flat: float = 1e-6) -> Vector:
    """The lowest place found within so many rounds; earlier where the slope is flat or no step helps."""
    place, (value, slope) = start.copy(), function(start)
    past: deque[tuple[Vector, Vector]] = deque(maxlen=MEMORY)
    for _ in range(rounds):
        if float(np.abs(slope).max()) < flat:
            break
        step = _direction(slope, past)
        size = 1.0 if past else min(1.0, 1.0 / float(np.abs(slope).sum()))
        found = _searched(function, place, value, slope, step, size)
        if found is None:
            break
        lower, (value, after) = found
        if float((lower - place) @ (after - slope)) > SHORTEST:
            past.append((lower - place, after - slope))
        place, slope = lower, after
    return place


def _direction(slope: Vector, past: deque[tuple[Vector, Vector]]) -> Vector:
    """Downhill, bent by the curvature that the past steps met."""
    step, shares = -slope, []
    for moved, changed in reversed(past):
        share = float(moved @ step) / float(moved @ changed)
        step = step - share * changed
        shares.append(share)
    if past:
        moved, changed = past[-1]
        step = step * (float(moved @ changed) / float(changed @ changed))
    for (moved, changed), share in zip(past, reversed(shares), strict=True):
        step = step + moved * (share - float(changed @ step) / float(moved @ changed))
    return step


def _searched(
    function: Sloped, place: Vector, value: float, slope: Vector, step: Vector, size: float
) -> tuple[Vector, tuple[float, Vector]] | None:
    """A place along the step that is clearly lower and not still falling steeply; None where there is none."""
    fall = float(slope @ step)
    if fall >= 0:
        return None
    low, high = 0.0, np.inf
    for _ in range(30):
        there = place + size * step
        value_there, slope_there = function(there)
        if not value_there <= value + 1e-4 * size * fall:
            high = size
        elif float(slope_there @ step) < 0.9 * fall:
            low = size
        else:
            return there, (value_there, slope_there)
        size = 0.5 * (low + high) if np.isfinite(high) else 2.0 * size
    return (there, (value_there, slope_there)) if value_there < value else None


MAX_WEIGHTS = 1_000_000


@dataclass(frozen=True)
class Network:
    """A fitted stack of layers.

    rising: are all weights squares, and the units tanh? Else they are free, and the units rectified
    shift, scale: what makes the inputs alike; level, height: the same for what it answers
    weights: a matrix a layer, its last row the constants
    """

    rising: bool
    shift: Vector
    scale: Vector
    level: float
    height: float
    weights: tuple[Vector, ...]

    def predict(self, inputs: Vector) -> Vector:
        """What it expects for every row."""
        told = _layers((inputs - self.shift) / self.scale, self.weights, self.rising)
        return np.asarray(self.level + self.height * told[-1][:, 0])

    def to_document(self) -> dict[str, Any]:
        """Plain numbers, to keep in a file."""
        weights = [matrix.tolist() for matrix in self.weights]
        numbers = {"shift": self.shift.tolist(), "scale": self.scale.tolist(), "weights": weights}
        return {"rising": self.rising, "level": self.level, "height": self.height, **numbers}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Network:
        """The network of a document; shapes are checked before anything is computed with them."""
        try:
            weights = tuple(np.array(matrix, np.float64) for matrix in document["weights"])
            shift, scale = (np.array(document[name], np.float64) for name in ("shift", "scale"))
            found = cls(
                bool(document["rising"]), shift, scale, float(document["level"]), float(document["height"]), weights
            )
        except (KeyError, TypeError, ValueError) as problem:
            raise ConfigError(f"not a network: {problem}", field="network") from None
        _check(found)
        return found


def fit(
    inputs: Vector,
    wanted: Vector,
    *,
    hidden: Sequence[int],
    rising: bool,
    penalty: float,
    importance: Vector | None = None,
    rounds: int = 200,
    seed: int = 1,
) -> Network:
    """A network that answers with what was wanted, as far as it can.

    importance: how much each row counts; all the same where it is not given
    """
    shift, scale = inputs.mean(axis=0), np.maximum(inputs.std(axis=0), 1e-9)
    level, height = float(wanted.mean()), max(float(wanted.std()), 1e-9)
    shapes = _shapes(inputs.shape[1], hidden, rising)
    share = np.ones(len(wanted)) if importance is None else importance / importance.mean()
    given, target = (inputs - shift) / scale, (wanted - level) / height

    def judged(flat: Vector) -> tuple[float, Vector]:
        return _loss(given, target, share, _cut(flat, shapes), rising, penalty)

    found = minimise(judged, _first(shapes, rising, seed), rounds=rounds)
    return Network(rising, shift, scale, level, height, tuple(_cut(found, shapes)))


def _loss(
    given: Vector, target: Vector, share: Vector, weights: list[Vector], rising: bool, penalty: float
) -> tuple[float, Vector]:
    """Half the mean squared error with the penalty, and its slope."""
    told = _layers(given, weights, rising)
    error = told[-1][:, 0] - target
    rows = len(target)
    value = 0.5 * float(share @ error**2) / rows
    slope = (share * error / rows)[:, None]
    slopes: list[Vector] = []
    for place in range(len(weights) - 1, -1, -1):
        matrix = weights[place]
        used = matrix[:-1] ** 2 if rising else matrix[:-1]
        by_weight = told[place].T @ slope
        value += 0.5 * penalty / rows * float((matrix[:-1] ** 2).sum())
        own = (2.0 * matrix[:-1] * by_weight if rising else by_weight) + penalty / rows * matrix[:-1]
        slopes.append(np.concatenate((own, slope.sum(axis=0)[None, :])).ravel())
        if place:
            units = told[place][:, : weights[place - 1].shape[1]]
            bent = 1.0 - units**2 if rising else (units > 0).astype(np.float64)
            slope = (slope @ used[: units.shape[1]].T) * bent
    return value, np.concatenate(slopes[::-1])


def _layers(given: Vector, weights: Sequence[Vector], rising: bool) -> list[Vector]:
    """What every layer is given, and what the last one answers."""
    told = [given]
    for place, matrix in enumerate(weights):
        used = matrix[:-1] ** 2 if rising else matrix[:-1]
        last = place == len(weights) - 1
        if rising and last and place:
            told[-1] = np.concatenate((told[-1], given), axis=1)
        sums = told[-1] @ used + matrix[-1]
        told.append(sums if last else np.tanh(sums) if rising else np.maximum(sums, 0.0))
    return told


def _shapes(inputs: int, hidden: Sequence[int], rising: bool) -> list[tuple[int, int]]:
    widths = [inputs, *hidden]
    seen = widths[-1] + (inputs if rising and hidden else 0)
    return [*((a + 1, b) for a, b in pairwise(widths)), (seen + 1, 1)]


def _first(shapes: list[tuple[int, int]], rising: bool, seed: int) -> Vector:
    dice = np.random.Generator(np.random.PCG64(seed))
    pieces = []
    for rows, columns in shapes:
        bound = np.sqrt((2.0 if rising else 6.0) / (rows - 1 + columns))
        matrix = dice.uniform(-bound, bound, (rows, columns))
        pieces.append((np.sqrt(np.abs(matrix)) if rising else matrix).ravel())
        if rising:
            # constants of either sign, so that units bend at different loads
            pieces[-1][-columns:] = dice.uniform(-1.5, 1.5, columns)
    return np.concatenate(pieces)


def _cut(flat: Vector, shapes: list[tuple[int, int]]) -> list[Vector]:
    ends = np.cumsum([rows * columns for rows, columns in shapes])
    return [piece.reshape(shape) for piece, shape in zip(np.split(flat, ends[:-1]), shapes, strict=True)]


def _check(network: Network) -> None:
    shapes = [matrix.shape for matrix in network.weights]
    plain = bool(shapes) and all(len(shape) == 2 for shape in shapes) and network.shift.ndim == 1
    hidden = [shape[1] for shape in shapes[:-1]] if plain else []
    alike = network.scale.shape == network.shift.shape
    if not plain or not alike or shapes != _shapes(len(network.shift), hidden, network.rising):
        raise ConfigError("layers that do not fit together", field="weights", shapes=shapes)
    if sum(rows * columns for rows, columns in shapes) > MAX_WEIGHTS:
        raise ConfigError("a network too large", field="weights", shapes=shapes, limit=MAX_WEIGHTS)
    if not all(np.isfinite(matrix).all() for matrix in (network.shift, network.scale, *network.weights)):
        raise ConfigError("numbers that are not finite", field="weights")
