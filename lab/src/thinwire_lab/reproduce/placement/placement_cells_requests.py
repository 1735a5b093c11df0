"""Requests: random topics to place, in classes from easy to dense."""

from __future__ import annotations

import numpy as np

from thinwire.errors import ConfigError
from thinwire.placement import Topic
from thinwire.placement.queue_simulator_samples import random_topics, skewed_topics

RELEASED = ("skew", "uni")
"""classes like those of the generators that were released with the publication"""
RANGES: dict[str, tuple[float, float, int]] = {"uni": (0.0, 1.0, 6), "full": (0.0, 0.95, 0), "hot": (0.5, 0.9, 0)}
"""the part of the sustained rates that topics are drawn from, and how far below they stay"""
CLASSES = sorted([*RANGES, "skew"])


def request(kind: str, n: int, seed: int) -> list[Topic]:
    """So many topics of a class.

    >>> [topic.rate for topic in request("uni", 3, seed=1)] == [topic.rate for topic in request("uni", 3, seed=1)]
    True
    """
    if kind not in CLASSES:
        raise ConfigError("no such request class", field="kind", value=kind, choose_from=CLASSES)
    dice = np.random.Generator(np.random.PCG64([seed, n]))
    if kind == "skew":
        return skewed_topics(n, dice)
    low, high, spare = RANGES[kind]
    return random_topics(n, dice, low=low, high=high, spare=spare)
