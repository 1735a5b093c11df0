"""Correction of a latency model by observed latencies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from thinwire.errors import ConfigError
from thinwire.placement.hosts import Host, TopicLoad
from thinwire.placement.latency_model import MonotoneModel

HALF_LIFE = 50.0
"""observations after which the weight of an old one is halved"""


class LatencyFeedback:
    """Shifts a latency model by the mean ratio of observed to predicted latency.

    Only a factor is learned. A few observations cannot fit the network, but they show how much faster or slower a host
    is than predicted.

    half_life: observations after which the weight of an old one is halved
    """

    def __init__(self, model: MonotoneModel, half_life: float = HALF_LIFE) -> None:
        if half_life <= 0:
            raise ConfigError("must be positive", field="half_life", value=half_life, above=0)
        self._initial, self.half_life = model, half_life
        self._sum, self._weight = 0.0, half_life / 4

    @property
    def model(self) -> MonotoneModel:
        """The corrected model."""
        return replace(self._initial, shift=self._initial.shift + self._sum / self._weight)

    def observe(self, topics: Sequence[TopicLoad], host: Host, p90: Sequence[float | None]) -> None:
        """Add the observed p90, in seconds, of topics that share a host; None for topics without a report."""
        predicted = np.log(self._initial.p90(topics, host))
        decay = 0.5 ** (1.0 / self.half_life)
        for observed, log in zip(p90, predicted.tolist(), strict=True):
            if observed is not None and observed > 0:
                self._sum = decay * self._sum + float(np.log(observed)) - log
                self._weight = decay * self._weight + 1.0
