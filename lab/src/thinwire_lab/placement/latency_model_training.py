"""Training of the monotone latency model and of its margin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from thinwire.errors import ConfigError
from thinwire.placement.hosts import Vector, columns
from thinwire.placement.latency_model import Margin, MonotoneModel
from thinwire.placement.queueing_features import coordinates
from thinwire_lab.placement.network_training import fit_network
from thinwire_lab.placement.queue_simulator import HostRun, logs

KEPT = 0.9
"""share of the runs that stay below the bound"""
STEPS = 24
HIDDEN = (12,)
ROUNDS = 200


def fit_margin(predicted: Vector, errors: Vector, *, kept: float = KEPT) -> Margin:
    """Fit a margin that the given share of the errors stays below.

    >>> margin = fit_margin(np.zeros(41), np.linspace(-1, 1, 41), kept=0.9)
    >>> round(float(margin.above(np.array([0.0]))[0]), 2)
    0.8
    """
    if not 0 < kept < 1:
        raise ConfigError("a share of the runs", field="kept", value=kept, above=0, below=1)
    order = np.argsort(predicted, kind="stable")
    pieces = np.array_split(order, max(1, min(STEPS, len(order) // 40)))
    places = np.array([predicted[piece].mean() for piece in pieces])
    bounds = np.array([place + np.quantile(errors[piece], kept) for place, piece in zip(places, pieces, strict=True)])
    # The bound must not fall where the prediction rises: a larger set of topics must not look better.
    return Margin(kept, places, np.maximum.accumulate(bounds))


def fit_monotone_model(runs: Sequence[HostRun], held_out: Sequence[HostRun], *, rounds: int = ROUNDS) -> MonotoneModel:
    """Fit the model to runs, and its margin to held-out runs."""
    inputs, weight = features_of(runs)
    network = fit_network(
        inputs, logs(runs), hidden=HIDDEN, rising=True, penalty=0.01, importance=weight, rounds=rounds
    )
    predicted = network.predict(features_of(held_out)[0])
    return MonotoneModel(network, fit_margin(predicted, logs(held_out) - predicted))


def with_margin(model: MonotoneModel, held_out: Sequence[HostRun], kept: float) -> MonotoneModel:
    """Return the model with a margin for another share."""
    predicted = model.network.predict(features_of(held_out)[0]) + model.shift
    return replace(model, margin=fit_margin(predicted, logs(held_out) - predicted, kept=kept))


def features_of(runs: Sequence[HostRun]) -> tuple[Vector, Vector]:
    """Return the features of every topic of every run, and weights that give every run the same total weight."""
    found, weights = [], []
    for run in runs:
        rows = coordinates(*columns([run.topics], run.host), run.host.cores, run.host.contention)
        found.append(rows[0])
        weights += [1.0 / len(run.topics)] * len(run.topics)
    return np.concatenate(found), np.array(weights)
