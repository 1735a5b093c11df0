"""Calibration of hosts: fits a host's parameters to runs, for a latency model and for the simulator.

`calibrated` finds the speed and contention with which a trained model predicts runs of another host best. `calibrate`
fits the simulated host to measured runs: the speed of a core, the slowdown by busy cores, and the overhead of a message
besides waiting and work. The spread of work is measured. Repeats of one configuration are either all used for the fit
or all for its evaluation.
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
from thinwire_lab.placement.model_scores import r_squared
from thinwire_lab.placement.queue_simulator import HostRun, logs, simulate

ROUNDS = 2
SPEEDS = tuple(np.exp(np.linspace(np.log(0.25), np.log(4.0), 49)).tolist())
CONTENTIONS = (0.0, 0.01, 0.03, 0.06, 0.1, 0.15, 0.2)


def calibrated(model: MonotoneModel, host: Host, runs: Sequence[HostRun]) -> Host:
    """Return the host with the speed and contention at which the model predicts these runs best."""
    if not runs:
        raise ConfigError("calibration needs runs", field="runs", lowest=1)
    for _ in range(ROUNDS):
        speeds = [replace(host, speed=speed) for speed in SPEEDS]
        host = min(speeds, key=lambda one: _prediction_error(model, one, runs))
        if any(len(run.topics) > 1 for run in runs):
            contentions = [replace(host, contention=share) for share in CONTENTIONS]
            host = min(contentions, key=lambda one: _prediction_error(model, one, runs))
    return host


def _prediction_error(model: MonotoneModel, host: Host, runs: Sequence[HostRun]) -> float:
    predicted = [model.logs(*columns([run.topics], host), host)[0] for run in runs]
    return float(np.mean((logs(runs) - np.concatenate(predicted)) ** 2))


SIMULATIONS = 2
"""simulations of every run, whose logarithms are averaged"""
FIT_SEED = 1
HALVINGS = 5
LIMITS = (1.0, 60.0)
"""largest contention, and largest overhead in seconds"""


@dataclass(frozen=True)
class Closeness:
    """Difference between the simulated host and measured runs.

    fit: R2 on the logarithm of the p90
    off: mean relative error of the p90; worst: the largest
    """

    runs: int
    topics: int
    fit: float
    off: float
    worst: float


@dataclass(frozen=True)
class Calibration:
    """A fitted host.

    train_error: difference from the runs used for the fit; test_error: from the others, None if there are none
    """

    host: Host
    train_error: Closeness
    test_error: Closeness | None


def calibrate(runs: Sequence[MeasuredRun]) -> Calibration:
    """Fit a host to every second configuration of these runs; the rest is used for evaluation."""
    fitting, others = split_runs(runs)
    host = fit_host(fitting)
    return Calibration(host, closeness(host, fitting), closeness(host, others) if others else None)


def split_runs(runs: Sequence[MeasuredRun]) -> tuple[list[MeasuredRun], list[MeasuredRun]]:
    """Split runs for fitting and evaluation by configuration; disturbed ones are omitted."""
    undisturbed = [run for run in runs if not run.disturbed]
    configurations = sorted({run.configuration for run in undisturbed}, key=_load_order)
    first = set(configurations[::2])
    return (
        [run for run in undisturbed if run.configuration in first],
        [run for run in undisturbed if run.configuration not in first],
    )


def fit_host(runs: Sequence[MeasuredRun]) -> Host:
    """Fit a host by coordinate search over speed, contention and overhead; steps are halved when none improves."""
    host = _initial_host(runs)
    measured = _measured(runs)

    def error(point: Vector) -> float:
        return float(np.mean((_simulated(_host(host, point), runs, FIT_SEED) - measured) ** 2))

    shortest = min(result.p50 for run in runs for result in run.results)
    start = np.array([np.log(host.speed), host.contention, 0.2 * shortest])
    return _host(host, _minimize(error, start, np.array([0.1, 0.04, 0.2 * shortest])))


def closeness(host: Host, runs: Sequence[MeasuredRun]) -> Closeness:
    """Compare the simulated host with these runs."""
    measured, predicted = _measured(runs)[:, 1], _simulated(host, runs, FIT_SEED + 1)[:, 1]
    off = np.abs(np.exp(predicted - measured) - 1.0)
    fit = r_squared(measured, predicted) if len(measured) > 1 and np.ptp(measured) > 0 else 0.0
    return Closeness(len(runs), len(measured), fit, float(off.mean()), float(off.max()))


def _initial_host(runs: Sequence[MeasuredRun]) -> Host:
    """Return the start of the search, from the runs with the fewest topics."""
    if not runs:
        raise ConfigError("calibration needs runs that were not disturbed", field="runs", lowest=1)
    if len({run.host.cores for run in runs}) > 1:
        raise ConfigError("runs of several hosts; calibrate each host separately", field="runs", value="cores")
    least = min(len(run.results) for run in runs)
    alone = [result for run in runs if len(run.results) == least for result in run.results]
    speed = float(np.median([result.topic.interval / result.wall for result in alone if result.wall > 0] or [1.0]))
    spreads = [result.spread for result in alone if result.spread > 0]
    spread = float(np.clip(np.median(spreads), 0.01, 3.0)) if spreads else Host().spread
    return replace(runs[0].host, speed=float(np.clip(speed, 0.01, 100.0)), contention=0.0, spread=spread)


def _host(first: Host, point: Vector) -> Host:
    speed = float(np.exp(np.clip(point[0], -6.0, 6.0)))
    contention, overhead = (float(np.clip(value, 0.0, limit)) for value, limit in zip(point[1:], LIMITS, strict=True))
    return replace(first, speed=speed, contention=contention, overhead=overhead)


def _minimize(function: Callable[[Vector], float], start: Vector, steps: Vector) -> Vector:
    """Minimise a function by steps along one axis at a time; a simulation has no gradient."""
    point, value = start, function(start)
    for _ in range(HALVINGS):
        better = True
        while better:
            better = False
            for axis in range(len(point)):
                for sign in (1.0, -1.0):
                    candidate = point.copy()
                    candidate[axis] += sign * steps[axis]
                    found = function(candidate)
                    if found < value * (1 - 1e-4):
                        point, value, better = candidate, found, True
                        break
        steps = steps / 2
    return point


def _simulated(host: Host, runs: Sequence[MeasuredRun], seed: int) -> Vector:
    """Return the logarithms of p50 and p90 of every topic of every run, one row each."""
    return np.concatenate([_simulated_run(host, run, seed, number) for number, run in enumerate(runs)])


def _simulated_run(host: Host, run: MeasuredRun, seed: int, number: int) -> Vector:
    timing = {"seconds": run.seconds, "warm_up": run.warm_up}
    repeats = [
        simulate(run.topics, host, [seed, number, repeat], arrivals=run.arrivals, **timing)
        for repeat in range(SIMULATIONS)
    ]
    return np.asarray(np.mean([np.log([(one.p50, one.p90) for one in repeat]) for repeat in repeats], axis=0))


def _measured(runs: Sequence[MeasuredRun]) -> Vector:
    return np.asarray(np.log([(result.p50, result.p90) for run in runs for result in run.results]), np.float64)


def _load_order(configuration: tuple[Any, ...]) -> tuple[int, float, str]:
    """Sort key: number of topics, then load. Every other configuration then covers the complete range."""
    loads = [pair for pair in configuration if isinstance(pair, tuple)]
    return len(loads), sum(rate * interval for rate, interval in loads), repr(configuration)
