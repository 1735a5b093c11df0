"""The published latency model, for comparison.

Features of a topic: its interval, its rate, their product, and the sums of the three over the other topics. A
polynomial of degree four for a single topic; for more, two layers of 40 rectified units, or 100 for six topics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinwire.errors import ConfigError
from thinwire.placement.hosts import MAX_TOGETHER, Host, Vector, columns
from thinwire.placement.latency_model import VERSION, Sizes, head_of, part_of
from thinwire.placement.neural_network import Network
from thinwire_lab.placement.network_training import fit_network
from thinwire_lab.placement.queue_simulator import HostRun, logs

PENALTY = 0.1
ROUNDS = 200
TERMS = 15
"""terms of a polynomial of degree four in two inputs"""


@dataclass(frozen=True)
class Polynomial:
    """Polynomial of degree four in two inputs, fitted by least squares."""

    shift: Vector
    scale: Vector
    weights: Vector

    def predict(self, inputs: Vector) -> Vector:
        """Return the prediction for every row."""
        return np.asarray(_powers((inputs - self.shift) / self.scale) @ self.weights)

    def to_document(self) -> dict[str, Any]:
        """Return a document of plain numbers."""
        return {name: getattr(self, name).tolist() for name in ("shift", "scale", "weights")}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Polynomial:
        """Return the polynomial of a document."""
        try:
            parts = [np.array(document[name], np.float64) for name in ("shift", "scale", "weights")]
        except (KeyError, TypeError, ValueError) as problem:
            raise ConfigError(f"not a polynomial: {problem}", field="alone") from None
        if [part.shape for part in parts] != [(2,), (2,), (TERMS,)] or not all(np.isfinite(p).all() for p in parts):
            raise ConfigError("not a polynomial of degree four in two inputs", field="alone", weights=TERMS)
        return cls(*parts)


@dataclass(frozen=True)
class PublishedModel:
    """The published model.

    accept: share of the latency limit up to which a prediction is accepted; 1 in the paper, 0.9 in the released code
    origin: simulated or measured, machine, date, runs, error
    """

    alone: Polynomial
    together: Mapping[int, Network]
    accept: float = 1.0
    origin: Mapping[str, Any] = field(default_factory=dict)

    def logs(self, rates: Vector, seconds: Vector, sizes: Sizes, host: Host) -> Vector:
        """Return the logarithm of the predicted p90 of every topic of every set."""
        found = np.full(rates.shape, np.nan)
        for size in np.unique(sizes).tolist():
            rows = sizes == size
            inputs = features(rates[rows, :size], seconds[rows, :size]).reshape(-1, 6)
            predicted = self.alone.predict(inputs[:, :2]) if size == 1 else self.together[size].predict(inputs)
            found[np.ix_(rows, np.arange(size))] = predicted.reshape(-1, size)
        return found

    def bounds(self, logs: Vector) -> Vector:
        """Return predictions raised by the share that is accepted."""
        return np.asarray(logs - np.log(self.accept))

    def keeps(self, rates: Vector, seconds: Vector, limits: Vector, host: Host) -> NDArray[np.bool_]:
        """Return which sets of one size are within their limits (logarithms)."""
        sizes = np.full(len(rates), rates.shape[1], np.int64)
        return np.asarray((self.logs(rates, seconds, sizes, host) <= limits).all(axis=1))

    def to_document(self) -> dict[str, Any]:
        """Return the document of the model."""
        networks = {str(size): network.to_document() for size, network in self.together.items()}
        models = {"alone": self.alone.to_document(), "together": networks}
        return {"kind": "published", "version": VERSION, **models, "accept": self.accept, "origin": dict(self.origin)}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> PublishedModel:
        """Return the model of a document. Raises ConfigError for inconsistent parts."""
        head_of(document, "published")
        networks = {_size(size): Network.from_document(part) for size, part in part_of(document, "together").items()}
        if any(network.rising or len(network.shift) != 6 for network in networks.values()):
            raise ConfigError("not networks on six features", field="together")
        accept = document.get("accept")
        if isinstance(accept, bool) or not isinstance(accept, int | float) or not 0 < accept <= 1:
            raise ConfigError("a share of the latency limit", field="accept", value=accept, above=0, at_most=1)
        alone = Polynomial.from_document(part_of(document, "alone"))
        return cls(alone, networks, float(accept), part_of(document, "origin"))


def _size(text: str) -> int:
    if not text.isdecimal() or not 2 <= int(text) <= MAX_TOGETHER:
        raise ConfigError("number of topics on a host", field="together", value=text, limit=f"2 to {MAX_TOGETHER}")
    return int(text)


def features(rates: Vector, seconds: Vector) -> Vector:
    """Return six features of each topic: its interval, rate and load, and their sums over the others."""
    own = np.stack((seconds, rates, seconds * rates), axis=-1)
    return np.concatenate((own, own.sum(axis=1, keepdims=True) - own), axis=-1)


def fit_published(runs: Mapping[int, Sequence[HostRun]], *, rounds: int = ROUNDS) -> PublishedModel:
    """Fit the published model to runs by number of topics on the host."""
    networks = {size: fit_published_network(found, size, rounds) for size, found in runs.items() if size > 1}
    return PublishedModel(fit_polynomial(runs[1]), networks)


def fit_published_network(runs: Sequence[HostRun], size: int, rounds: int = ROUNDS) -> Network:
    """Fit the network for a number of topics."""
    width = 100 if size >= 6 else 40
    return fit_network(inputs_of(runs), logs(runs), hidden=(width, width), rising=False, penalty=PENALTY, rounds=rounds)


def fit_polynomial(runs: Sequence[HostRun]) -> Polynomial:
    """Fit the polynomial for a single topic."""
    inputs = inputs_of(runs)[:, :2]
    shift, scale = inputs.mean(axis=0), np.maximum(inputs.std(axis=0), 1e-9)
    weights = np.linalg.lstsq(_powers((inputs - shift) / scale), logs(runs), rcond=None)[0]
    return Polynomial(shift, scale, np.asarray(weights, np.float64))


def inputs_of(runs: Sequence[HostRun]) -> Vector:
    """Return the features of every topic of runs with the same number of topics."""
    rates, seconds, _ = columns([run.topics for run in runs], runs[0].host)
    return features(rates, seconds).reshape(-1, 6)


def _powers(inputs: Vector) -> Vector:
    terms = [np.ones(len(inputs))]
    for degree in range(1, 5):
        for chosen in combinations_with_replacement(range(inputs.shape[1]), degree):
            terms.append(np.prod(inputs[:, list(chosen)], axis=1))
    return np.stack(terms, axis=1)
