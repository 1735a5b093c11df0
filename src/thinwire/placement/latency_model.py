"""How far above its expectation a model must look so that a promise is kept on purpose and not on average.

Runs differ although nothing changed, most of all where a worker is nearly always busy. The margin is read off the
errors on runs the model was not fitted to: around every prediction, the distance that so many of them stayed below.

>>> margin = learned(np.zeros(41), np.linspace(-1, 1, 41), kept=0.9)
>>> round(float(margin.above(np.array([0.0]))[0]), 2)
0.8

Latency models: the p90 of topics that share a host, learned from runs, kept as data.

`Published` is the model as it was described: a polynomial for a topic alone, a network for every number of topics that
share a host, on sums over the others. `Rising` is ours: one network for all, on what queueing theory says of the set,
which can only rise with load, and with a margin learned on runs it was not fitted to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from thinwire.errors import ConfigError
from thinwire.placement.hosts import Host, TopicLoad, Vector, columns
from thinwire.placement.neural_network import Network, fit
from thinwire.placement.queue_simulator import Run, logs
from thinwire.placement.queueing_features import coordinates, keeps

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


Sizes = NDArray[np.int64]
VERSION = 1
HIDDEN = (12,)
ROUNDS = 200


class LatencyModel(Protocol):
    """What a judge asks."""

    def logs(self, rates: Vector, seconds: Vector, sizes: Sizes, host: Host) -> Vector:
        """The logarithm of the expected p90 of every topic of every set, a row a set."""
        ...

    def bounds(self, logs: Vector) -> Vector:
        """The same with the margin that keeps promises."""
        ...

    def keeps(self, rates: Vector, seconds: Vector, limits: Vector, host: Host) -> NDArray[np.bool_]:
        """Of sets of one size: is every logarithm within its limit?"""
        ...


@dataclass(frozen=True)
class Rising:
    """Our model.

    shift: what live latencies have taught since, as a logarithm
    origin: how it came to be: simulated or measured, machine, date, runs, error
    """

    network: Network
    margin: Margin
    shift: float = 0.0
    origin: Mapping[str, Any] = field(default_factory=dict)

    def logs(self, rates: Vector, seconds: Vector, sizes: Sizes, host: Host) -> Vector:
        """The expected p90 of every topic of every set, as a logarithm."""
        found = coordinates(rates, seconds, sizes, host.cores, host.contention)
        here = self.network.predict(found.reshape(-1, found.shape[2])).reshape(rates.shape) + self.shift
        return np.asarray(np.logaddexp(here, np.log(host.overhead)) if host.overhead else here)

    def bounds(self, logs: Vector) -> Vector:
        """The p90 that the runs of such a set stay below, nine in ten of them where nothing else was asked."""
        return self.margin.above(logs)

    def keeps(self, rates: Vector, seconds: Vector, limits: Vector, host: Host) -> NDArray[np.bool_]:
        """Of sets of one size: is every logarithm within its limit?"""
        if len(self.network.weights) != 2:
            sizes = np.full(len(rates), rates.shape[1], np.int64)
            return np.asarray((self.logs(rates, seconds, sizes, host) <= limits).all(axis=1))
        hidden, last = (np.concatenate((matrix[:-1] ** 2, matrix[-1:])) for matrix in self.network.weights)
        inputs = np.stack((self.network.shift, self.network.scale))
        answers = np.array([self.network.level + self.shift, self.network.height, host.overhead])
        found = keeps(rates, seconds, limits, host.cores, host.contention, inputs, hidden, last[:, 0].copy(), answers)
        return np.asarray(found)

    def p90(self, topics: Sequence[TopicLoad], host: Host) -> Vector:
        """The expected p90 of topics that share a host, in seconds."""
        return np.asarray(np.exp(self.logs(*columns([topics], host), host)[0]))

    def bound(self, topics: Sequence[TopicLoad], host: Host) -> Vector:
        """The same with the margin."""
        return np.asarray(np.exp(self.bounds(self.logs(*columns([topics], host), host)[0])))

    def to_document(self) -> dict[str, Any]:
        """Everything about it in plain numbers and words."""
        parts = {"network": self.network.to_document(), "margin": self.margin.to_document()}
        return {"kind": "rising", "version": VERSION, "shift": self.shift, "origin": dict(self.origin), **parts}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Rising:
        """The model of a document; what does not fit together is refused."""
        head_of(document, "rising")
        network = Network.from_document(part_of(document, "network"))
        if not network.rising or len(network.shift) != 6:
            raise ConfigError("not a rising network on six coordinates", field="network")
        margin, shift = Margin.from_document(part_of(document, "margin")), document.get("shift", 0.0)
        if isinstance(shift, bool) or not isinstance(shift, int | float) or not np.isfinite(shift):
            raise ConfigError("a finite number", field="shift", value=shift)
        return cls(network, margin, float(shift), part_of(document, "origin"))


def fit_rising(
    runs: Sequence[Run],
    held: Sequence[Run],
    *,
    kept: float = KEPT,
    rounds: int = ROUNDS,
    origin: Mapping[str, Any] | None = None,
) -> Rising:
    """Ours, fitted to runs; the margin comes from runs held back."""
    inputs, weight = located(runs)
    network = fit(inputs, logs(runs), hidden=HIDDEN, rising=True, penalty=0.01, importance=weight, rounds=rounds)
    predicted = network.predict(located(held)[0])
    margin = learned(predicted, logs(held) - predicted, kept=kept)
    return Rising(network, margin, origin=origin or {})


def with_kept(model: Rising, held: Sequence[Run], kept: float) -> Rising:
    """The same model with another margin."""
    predicted = model.network.predict(located(held)[0]) + model.shift
    return replace(model, margin=learned(predicted, logs(held) - predicted, kept=kept))


def located(runs: Sequence[Run]) -> tuple[Vector, Vector]:
    """The coordinates of every topic of every run, and its weight: a run counts once, however many topics it has."""
    found, weights = [], []
    for run in runs:
        at = coordinates(*columns([run.topics], run.host), run.host.cores, run.host.contention)
        found.append(at[0])
        weights += [1.0 / len(run.topics)] * len(run.topics)
    return np.concatenate(found), np.array(weights)


def head_of(document: Mapping[str, Any], kind: str) -> None:
    """Is this a document of such a model, and of this version?"""
    if document.get("kind") != kind or document.get("version") != VERSION:
        raise ConfigError("not a latency model of this kind and version", field="kind", wanted=kind, version=VERSION)


def part_of(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A part of a document that is a table itself."""
    part = document.get(name)
    if not isinstance(part, Mapping):
        raise ConfigError("a part of the model is missing", field=name)
    return part
