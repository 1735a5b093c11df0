"""Small feed-forward networks on columns of numbers: prediction and stored form.

A network is free, with rectified units, or monotone. In a monotone network every weight is a square and every unit is
tanh, so the output never falls when an input grows: more load never predicts less latency. Its last layer also receives
the inputs, so the output keeps growing beyond the training data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from thinwire.errors import ConfigError
from thinwire.placement.hosts import Vector

MAX_WEIGHTS = 1_000_000


@dataclass(frozen=True)
class Network:
    """A fitted network.

    rising: whether the network is monotone
    shift, scale: normalisation of the inputs; level, height: of the output
    weights: one matrix per layer; the last row holds the constants
    """

    rising: bool
    shift: Vector
    scale: Vector
    level: float
    height: float
    weights: tuple[Vector, ...]

    def predict(self, inputs: Vector) -> Vector:
        layers = evaluate_layers((inputs - self.shift) / self.scale, self.weights, self.rising)
        return np.asarray(self.level + self.height * layers[-1][:, 0])

    def to_document(self) -> dict[str, Any]:
        weights = [matrix.tolist() for matrix in self.weights]
        numbers = {"shift": self.shift.tolist(), "scale": self.scale.tolist(), "weights": weights}
        return {"rising": self.rising, "level": self.level, "height": self.height, **numbers}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Network:
        """Read the stored form; shapes are checked before any computation."""
        try:
            weights = tuple(np.array(matrix, np.float64) for matrix in document["weights"])
            shift, scale = (np.array(document[name], np.float64) for name in ("shift", "scale"))
            level, height = float(document["level"]), float(document["height"])
            network = cls(bool(document["rising"]), shift, scale, level, height, weights)
        except (KeyError, TypeError, ValueError) as problem:
            raise ConfigError(f"not a network: {problem}", field="network") from None
        _check(network)
        return network


def evaluate_layers(inputs: Vector, weights: Sequence[Vector], rising: bool) -> list[Vector]:
    """Return the input of every layer and the output of the last."""
    layers = [inputs]
    for index, matrix in enumerate(weights):
        used = matrix[:-1] ** 2 if rising else matrix[:-1]
        last = index == len(weights) - 1
        if rising and last and index:
            layers[-1] = np.concatenate((layers[-1], inputs), axis=1)
        sums = layers[-1] @ used + matrix[-1]
        layers.append(sums if last else np.tanh(sums) if rising else np.maximum(sums, 0.0))
    return layers


def layer_shapes(inputs: int, hidden: Sequence[int], rising: bool) -> list[tuple[int, int]]:
    """Return the shapes of the weight matrices."""
    widths = [inputs, *hidden]
    last_inputs = widths[-1] + (inputs if rising and hidden else 0)
    return [*((a + 1, b) for a, b in pairwise(widths)), (last_inputs + 1, 1)]


def _check(network: Network) -> None:
    shapes = [matrix.shape for matrix in network.weights]
    alike = network.shift.ndim == 1 and network.scale.shape == network.shift.shape
    plain = alike and all(len(shape) == 2 for shape in shapes)
    if not plain or shapes != layer_shapes(len(network.shift), [s[1] for s in shapes[:-1]], network.rising):
        raise ConfigError("the shapes of the layers do not match", field="weights", shapes=shapes)
    if sum(rows * columns for rows, columns in shapes) > MAX_WEIGHTS:
        raise ConfigError("the network is too large", field="weights", shapes=shapes, limit=MAX_WEIGHTS)
    if not all(np.isfinite(matrix).all() for matrix in (network.shift, network.scale, *network.weights)):
        raise ConfigError("a number is not finite", field="weights")
