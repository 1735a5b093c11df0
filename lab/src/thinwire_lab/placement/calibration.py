"""A model that goes on learning: from live latencies, and for a host it was not trained on.

Both move the model by a factor, never its shape: a few runs cannot teach a network, but they show how much slower or
faster everything is than it thinks.

A simulated host fitted to measured runs, and held against runs it was not fitted to.

What is fitted: the speed of a core, how much busy cores slow each other, and the seconds a message is on its way
besides waiting and work. How much the work of messages differs was measured and is taken over. Repeats of one
configuration stay on one side, so that a fit is never judged by what it has seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from thinwire.errors import ConfigError
from thinwire.placement.hosts import Host, Vector, columns
from thinwire.placement.latency_model import MonotoneModel
from thinwire_lab.placement.measured_runs import MeasuredRun
from thinwire_lab.placement.model_scores import fitted
from thinwire_lab.placement.queue_simulator import HostRun, logs, simulate

ROUNDS = 2
SPEEDS = tuple(np.exp(np.linspace(np.log(0.25), np.log(4.0), 49)).tolist())
CONTENTIONS = (0.0, 0.01, 0.03, 0.06, 0.1, 0.15, 0.2)


def calibrated(model: MonotoneModel, host: Host, runs: Sequence[HostRun]) -> Host:
    """The host with the speed and the contention at which the model tells these runs best."""
    if not runs:
        raise ConfigError("calibration needs runs", field="runs", lowest=1)
    for _ in range(ROUNDS):
        host = _best(model, runs, [replace(host, speed=speed) for speed in SPEEDS])
        if any(len(run.topics) > 1 for run in runs):
            host = _best(model, runs, [replace(host, contention=share) for share in CONTENTIONS])
    return host


def _best(model: MonotoneModel, runs: Sequence[HostRun], hosts: Sequence[Host]) -> Host:
    return min(hosts, key=lambda host: _error(model, host, runs))


def _error(model: MonotoneModel, host: Host, runs: Sequence[HostRun]) -> float:
    predicted = [model.logs(*columns([run.topics], host), host)[0] for run in runs]
    return float(np.mean((logs(runs) - np.concatenate(predicted)) ** 2))


TURNS = 2
"""simulations of every run, whose logarithms are averaged"""
HALVINGS = 5
MOST = (1.0, 60.0)
"""of contention and overhead"""


@dataclass(frozen=True)
class Closeness:
    """How near the simulated host comes to measured runs.

    fit: R2 on the logarithm of the p90
    off: mean distance of the p90, as a share of the measured one; worst: the largest
    """

    runs: int
    topics: int
    fit: float
    off: float
    worst: float


@dataclass(frozen=True)
class Calibration:
    """A host as measured.

    seen: how near it comes to the runs it was fitted to; fresh: to the others; None where there were none
    """

    host: Host
    seen: Closeness
    fresh: Closeness | None


def calibrate(runs: Sequence[MeasuredRun], *, seed: int = 1) -> Calibration:
    """The host of these runs, from every other configuration; the rest is for judging."""
    fitting, others = apart(runs)
    host = fit_host(fitting, seed=seed)
    return Calibration(
        host, closeness(host, fitting, seed=seed), closeness(host, others, seed=seed) if others else None
    )


def apart(runs: Sequence[MeasuredRun]) -> tuple[list[MeasuredRun], list[MeasuredRun]]:
    """Runs to fit and runs to judge by, those of one configuration together; disturbed ones are left out."""
    calm = [run for run in runs if not run.disturbed]
    known = sorted({run.configuration for run in calm}, key=_busyness)
    first = set(known[::2])
    return [run for run in calm if run.configuration in first], [run for run in calm if run.configuration not in first]


def fit_host(runs: Sequence[MeasuredRun], *, seed: int = 1) -> Host:
    """The host that tells these runs best: steps along speed, contention and overhead, halved when none helps."""
    host = _first(runs)
    measured = _measured(runs)

    def missed(at: Vector) -> float:
        return float(np.mean((_simulated(_host(host, at), runs, seed) - measured) ** 2))

    shortest = min(one.p50 for run in runs for one in run.met)
    start = np.array([np.log(host.speed), host.contention, 0.2 * shortest])
    return _host(host, _descended(missed, start, np.array([0.1, 0.04, 0.2 * shortest])))


def closeness(host: Host, runs: Sequence[MeasuredRun], *, seed: int = 1) -> Closeness:
    """How near the simulated host comes to these runs."""
    measured, told = _measured(runs)[:, 1], _simulated(host, runs, seed + 1)[:, 1]
    off = np.abs(np.exp(told - measured) - 1.0)
    fit = fitted(measured, told) if len(measured) > 1 and np.ptp(measured) > 0 else 0.0
    return Closeness(len(runs), len(measured), fit, float(off.mean()), float(off.max()))


def _first(runs: Sequence[MeasuredRun]) -> Host:
    """The host as far as it is known without a search."""
    if not runs:
        raise ConfigError("calibration needs runs that were not disturbed", field="runs", lowest=1)
    if len({run.host.cores for run in runs}) > 1:
        raise ConfigError("runs of several hosts: calibrate them one by one", field="runs", value="cores")
    least = min(len(run.met) for run in runs)
    alone = [one for run in runs if len(run.met) == least for one in run.met]
    speed = float(np.median([one.topic.interval / one.wall for one in alone if one.wall > 0] or [1.0]))
    spreads = [one.spread for one in alone if one.spread > 0]
    spread = float(np.clip(np.median(spreads), 0.01, 3.0)) if spreads else Host().spread
    return replace(runs[0].host, speed=float(np.clip(speed, 0.01, 100.0)), contention=0.0, spread=spread)


def _host(first: Host, at: Vector) -> Host:
    speed = float(np.exp(np.clip(at[0], -6.0, 6.0)))
    contention, overhead = (float(np.clip(value, 0.0, most)) for value, most in zip(at[1:], MOST, strict=True))
    return replace(first, speed=speed, contention=contention, overhead=overhead)


def _descended(function: Callable[[Vector], float], start: Vector, steps: Vector) -> Vector:
    """The lowest place by steps along one axis at a time: what is simulated has no slope to follow."""
    place, value = start, function(start)
    for _ in range(HALVINGS):
        better = True
        while better:
            better = False
            for axis in range(len(place)):
                for sign in (1.0, -1.0):
                    there = place.copy()
                    there[axis] += sign * steps[axis]
                    found = function(there)
                    if found < value * (1 - 1e-4):
                        place, value, better = there, found, True
                        break
        steps = steps / 2
    return place


def _simulated(host: Host, runs: Sequence[MeasuredRun], seed: int) -> Vector:
    """The logarithms of p50 and p90 of every topic of every run, a row each."""
    return np.concatenate([_once(host, run, seed, number) for number, run in enumerate(runs)])


def _once(host: Host, run: MeasuredRun, seed: int, number: int) -> Vector:
    timing = {"seconds": run.seconds, "warm_up": run.warm_up}
    turns = [simulate(run.topics, host, [seed, number, turn], arrivals=run.arrivals, **timing) for turn in range(TURNS)]
    return np.asarray(np.mean([np.log([(one.p50, one.p90) for one in turn]) for turn in turns], axis=0))


def _measured(runs: Sequence[MeasuredRun]) -> Vector:
    return np.asarray(np.log([(one.p50, one.p90) for run in runs for one in run.met]), np.float64)


def _busyness(configuration: tuple[Any, ...]) -> tuple[int, float, str]:
    """Few topics first, then little load: every other configuration then covers the whole range."""
    loads = [pair for pair in configuration if isinstance(pair, tuple)]
    return len(loads), sum(rate * interval for rate, interval in loads), repr(configuration)
