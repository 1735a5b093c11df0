"""A model that goes on learning: from live latencies, and for a host it was not trained on.

Both move the model by a factor, never its shape: a few runs cannot teach a network, but they show how much slower or
faster everything is than it thinks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from thinwire.errors import ConfigError
from thinwire.placement.hosts_topics import Host, Topic, columns
from thinwire.placement.latency_model_models import Rising
from thinwire.placement.queue_simulator_samples import Run, logs

ROUNDS = 2
PATIENCE = 50.0
"""observations after which an old one counts half"""
SPEEDS = tuple(np.exp(np.linspace(np.log(0.25), np.log(4.0), 49)).tolist())
CONTENTIONS = (0.0, 0.01, 0.03, 0.06, 0.1, 0.15, 0.2)


class Learner:
    """Follows the latencies that hosts and subscribers report.

    >>> from thinwire.placement.queue_simulator_samples import random_runs
    >>> from thinwire.placement.latency_model_models import fit_rising
    >>> runs = random_runs(80, 1, seed=1, seconds=20)
    >>> learner = Learner(fit_rising(runs[::2], runs[1::2], rounds=20))
    >>> gps = Topic("gps", rate=5, interval=0.02)
    >>> before = float(learner.model.p90([gps], Host())[0])
    >>> for _ in range(200): learner.observe([gps], Host(), [2 * before])
    >>> round(float(learner.model.p90([gps], Host())[0]) / before, 1)
    2.0
    """

    def __init__(self, model: Rising, patience: float = PATIENCE) -> None:
        if patience <= 0:
            raise ConfigError("observations that count", field="patience", value=patience, above=0)
        self._first, self.patience = model, patience
        self._sum, self._weight = 0.0, patience / 4

    @property
    def model(self) -> Rising:
        """The model as it stands."""
        return replace(self._first, shift=self._first.shift + self._sum / self._weight)

    def observe(self, topics: Sequence[Topic], host: Host, p90: Sequence[float | None]) -> None:
        """Topics that share a host, and the p90 each was seen with, in seconds; None where nobody reported one."""
        expected = np.log(self._first.p90(topics, host))
        keep = 0.5 ** (1.0 / self.patience)
        for seen, log in zip(p90, expected.tolist(), strict=True):
            if seen is not None and seen > 0:
                self._sum = keep * self._sum + float(np.log(seen)) - log
                self._weight = keep * self._weight + 1.0


def calibrated(model: Rising, host: Host, runs: Sequence[Run]) -> Host:
    """The host with the speed and the contention at which the model tells these runs best."""
    if not runs:
        raise ConfigError("calibration needs runs", field="runs", lowest=1)
    for _ in range(ROUNDS):
        host = _best(model, runs, [replace(host, speed=speed) for speed in SPEEDS])
        if any(len(run.topics) > 1 for run in runs):
            host = _best(model, runs, [replace(host, contention=share) for share in CONTENTIONS])
    return host


def _best(model: Rising, runs: Sequence[Run], hosts: Sequence[Host]) -> Host:
    return min(hosts, key=lambda host: _error(model, host, runs))


def _error(model: Rising, host: Host, runs: Sequence[Run]) -> float:
    predicted = [model.logs(*columns([run.topics], host), host)[0] for run in runs]
    return float(np.mean((logs(runs) - np.concatenate(predicted)) ** 2))
