"""Fitting of networks by L-BFGS to squared errors with a penalty on the weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import minimize  # type: ignore[import-untyped]

from thinwire.placement.hosts import Vector
from thinwire.placement.neural_network import Network, evaluate_layers, layer_shapes


def fit_network(
    inputs: Vector,
    targets: Vector,
    *,
    hidden: Sequence[int],
    rising: bool,
    penalty: float,
    importance: Vector | None = None,
    rounds: int = 200,
    seed: int = 1,
) -> Network:
    """Fit a network to targets.

    importance: weight of each row; default: equal weights
    """
    shift, scale = inputs.mean(axis=0), np.maximum(inputs.std(axis=0), 1e-9)
    level, height = float(targets.mean()), max(float(targets.std()), 1e-9)
    shapes = layer_shapes(inputs.shape[1], hidden, rising)
    share = np.ones(len(targets)) if importance is None else importance / importance.mean()
    normalised, target = (inputs - shift) / scale, (targets - level) / height

    def objective(flat: Vector) -> tuple[float, Vector]:
        return loss(normalised, target, share, split_weights(flat, shapes), rising, penalty)

    start = initial_weights(shapes, rising, seed)
    found = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": rounds, "gtol": 1e-6})
    return Network(rising, shift, scale, level, height, tuple(split_weights(found.x, shapes)))


def loss(
    inputs: Vector, target: Vector, share: Vector, weights: list[Vector], rising: bool, penalty: float
) -> tuple[float, Vector]:
    """Return half the mean squared error with the penalty, and its gradient."""
    layers = evaluate_layers(inputs, weights, rising)
    error = layers[-1][:, 0] - target
    rows = len(target)
    value = 0.5 * float(share @ error**2) / rows
    gradient = (share * error / rows)[:, None]
    gradients: list[Vector] = []
    for index in range(len(weights) - 1, -1, -1):
        matrix = weights[index]
        used = matrix[:-1] ** 2 if rising else matrix[:-1]
        by_weight = layers[index].T @ gradient
        value += 0.5 * penalty / rows * float((matrix[:-1] ** 2).sum())
        own = (2.0 * matrix[:-1] * by_weight if rising else by_weight) + penalty / rows * matrix[:-1]
        gradients.append(np.concatenate((own, gradient.sum(axis=0)[None, :])).ravel())
        if index:
            units = layers[index][:, : weights[index - 1].shape[1]]
            slope = 1.0 - units**2 if rising else (units > 0).astype(np.float64)
            gradient = (gradient @ used[: units.shape[1]].T) * slope
    return value, np.concatenate(gradients[::-1])


def initial_weights(shapes: list[tuple[int, int]], rising: bool, seed: int) -> Vector:
    """Return random start values."""
    random = np.random.Generator(np.random.PCG64(seed))
    pieces = []
    for rows, columns in shapes:
        limit = np.sqrt((2.0 if rising else 6.0) / (rows - 1 + columns))
        matrix = random.uniform(-limit, limit, (rows, columns))
        pieces.append((np.sqrt(np.abs(matrix)) if rising else matrix).ravel())
        if rising:
            # Constants of either sign, so that units bend at different loads.
            pieces[-1][-columns:] = random.uniform(-1.5, 1.5, columns)
    return np.concatenate(pieces)


def split_weights(flat: Vector, shapes: list[tuple[int, int]]) -> list[Vector]:
    """Split a vector into the weight matrices."""
    ends = np.cumsum([rows * columns for rows, columns in shapes])
    return [piece.reshape(shape) for piece, shape in zip(np.split(flat, ends[:-1]), shapes, strict=True)]
