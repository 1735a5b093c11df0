"""Latency models: the p90 latency of topics that share a host.

`MonotoneModel` is one network for any number of topics on features from queueing theory. Its prediction never falls
when load grows. Its margin turns a prediction into a bound that a stated share of runs stays below: runs of the same
topics differ, most of all where a worker is nearly always busy. `LatencyFeedback` corrects a model by observed
latencies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from thinwire.errors import ConfigError
from thinwire.placement.hosts import Host, TopicLoad, Vector, columns
from thinwire.placement.neural_network import Network
from thinwire.placement.queueing_features import coordinates, keeps

Sizes = NDArray[np.int64]
VERSION = 1
HALF_LIFE = 50.0
"""observations after which the weight of an old one is halved"""


@dataclass(frozen=True)
class Margin:
    """Bound as a piecewise linear function of the prediction, both as logarithms.

    kept: share of runs that stay below the bound
    """

    kept: float
    places: Vector
    bounds: Vector

    def above(self, logs: Vector) -> Vector:
        """Return the bounds of predictions."""
        inside = np.clip(logs, self.places[0], self.places[-1])
        return np.asarray(np.interp(inside, self.places, self.bounds) + (logs - inside))

    def to_document(self) -> dict[str, Any]:
        return {"kept": self.kept, "places": self.places.tolist(), "bounds": self.bounds.tolist()}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Margin:
        """Read the stored form."""
        try:
            places, bounds = (np.array(document[name], np.float64) for name in ("places", "bounds"))
            found = cls(float(document["kept"]), places, bounds)
        except (KeyError, TypeError, ValueError) as problem:
            raise ConfigError(f"not a margin: {problem}", field="margin") from None
        fits = places.ndim == 1 and places.shape == bounds.shape and len(places) > 0
        if not fits or not np.isfinite(bounds).all() or (np.diff(places) < 0).any() or (np.diff(bounds) < 0).any():
            raise ConfigError("places and bounds must be sorted and of equal length", field="margin")
        return found


class LatencyModel(Protocol):
    """Predictions that a feasibility check needs."""

    def logs(self, rates: Vector, seconds: Vector, sizes: Sizes, host: Host) -> Vector:
        """Return the logarithm of the predicted p90 of every topic, one row per set of topics."""

    def bounds(self, logs: Vector) -> Vector:
        """Return the bounds of predictions, including the margin."""

    def keeps(self, rates: Vector, seconds: Vector, limits: Vector, host: Host) -> NDArray[np.bool_]:
        """Return for sets of one size whether every predicted logarithm is within its limit."""


@dataclass(frozen=True)
class MonotoneModel:
    """Monotone latency model with a margin.

    shift: correction by observed latencies, as a logarithm
    origin: how the model was trained: simulated or measured, machine, date, runs, error
    """

    network: Network
    margin: Margin
    shift: float = 0.0
    origin: Mapping[str, Any] = field(default_factory=dict)

    def logs(self, rates: Vector, seconds: Vector, sizes: Sizes, host: Host) -> Vector:
        features = coordinates(rates, seconds, sizes, host.cores, host.contention)
        logs = self.network.predict(features.reshape(-1, features.shape[2])).reshape(rates.shape) + self.shift
        return np.asarray(np.logaddexp(logs, np.log(host.overhead)) if host.overhead else logs)

    def bounds(self, logs: Vector) -> Vector:
        return self.margin.above(logs)

    def keeps(self, rates: Vector, seconds: Vector, limits: Vector, host: Host) -> NDArray[np.bool_]:
        if len(self.network.weights) != 2:
            sizes = np.full(len(rates), rates.shape[1], np.int64)
            return np.asarray((self.logs(rates, seconds, sizes, host) <= limits).all(axis=1))
        hidden, last = (np.concatenate((matrix[:-1] ** 2, matrix[-1:])) for matrix in self.network.weights)
        inputs = np.stack((self.network.shift, self.network.scale))
        outputs = np.array([self.network.level + self.shift, self.network.height, host.overhead])
        return keeps(rates, seconds, limits, host.cores, host.contention, inputs, hidden, last[:, 0].copy(), outputs)

    def p90(self, topics: Sequence[TopicLoad], host: Host) -> Vector:
        """Return the predicted p90 of topics that share a host, in seconds."""
        return np.asarray(np.exp(self.logs(*columns([topics], host), host)[0]))

    def bound(self, topics: Sequence[TopicLoad], host: Host) -> Vector:
        """Return the p90 including the margin, in seconds."""
        return np.asarray(np.exp(self.bounds(self.logs(*columns([topics], host), host)[0])))

    def to_document(self) -> dict[str, Any]:
        parts = {"network": self.network.to_document(), "margin": self.margin.to_document()}
        return {"kind": "rising", "version": VERSION, "shift": self.shift, "origin": dict(self.origin), **parts}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> MonotoneModel:
        """Read the stored form; inconsistent parts are refused."""
        head_of(document, "rising")
        network = Network.from_document(part_of(document, "network"))
        if not network.rising or len(network.shift) != 6:
            raise ConfigError("not a monotone network with six inputs", field="network")
        margin, shift = Margin.from_document(part_of(document, "margin")), document.get("shift", 0.0)
        if isinstance(shift, bool) or not isinstance(shift, int | float) or not np.isfinite(shift):
            raise ConfigError("a finite number", field="shift", value=shift)
        return cls(network, margin, float(shift), part_of(document, "origin"))


class LatencyFeedback:
    """Shifts a latency model by the mean ratio of observed to predicted latency.

    Only a factor is learned. A few observations cannot fit the network, but they show how much faster or slower a host
    is than predicted.
    """

    def __init__(self, model: MonotoneModel) -> None:
        self._initial = model
        self._sum, self._weight = 0.0, HALF_LIFE / 4

    @property
    def model(self) -> MonotoneModel:
        """The corrected model."""
        return replace(self._initial, shift=self._initial.shift + self._sum / self._weight)

    def observe(self, topics: Sequence[TopicLoad], host: Host, p90: Sequence[float | None]) -> None:
        """Add the observed p90, in seconds, of topics that share a host; None for topics without a report."""
        predicted = np.log(self._initial.p90(topics, host))
        decay = 0.5 ** (1.0 / HALF_LIFE)
        for observed, log in zip(p90, predicted.tolist(), strict=True):
            if observed is not None and observed > 0:
                self._sum = decay * self._sum + float(np.log(observed)) - log
                self._weight = decay * self._weight + 1.0


def head_of(document: Mapping[str, Any], kind: str) -> None:
    """Check the kind and the version of a stored model."""
    if document.get("kind") != kind or document.get("version") != VERSION:
        raise ConfigError("not a latency model of this kind and version", field="kind", wanted=kind, version=VERSION)


def part_of(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a part of a document that is an object."""
    part = document.get(name)
    if not isinstance(part, Mapping):
        raise ConfigError("a part of the model is missing", field=name)
    return part
