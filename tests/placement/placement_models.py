"""The shipped latency model, and feasibility checks of random topics."""

from dataclasses import replace
from functools import cache

import numpy as np

from thinwire.edge.placement_files import read_model
from thinwire.placement import Host, TopicLoad
from thinwire.placement.feasibility import HostFeasibility
from thinwire.placement.latency_model import Margin

INTERVALS = (0.0123, 0.0273, 0.0421, 0.0496)
SUSTAINED = (78, 37, 24, 20)
"""messages per second that a topic with each interval sustains alone"""


@cache
def small_model():
    return read_model(None)


def without_margin(model):
    """Bounds equal predictions."""
    return replace(model, margin=Margin(0.5, np.zeros(1), np.zeros(1)))


def random_topics(count, seed, low=0.0, high=1.0):
    random = np.random.Generator(np.random.PCG64(seed))
    topics = []
    for number in range(count):
        kind = int(random.integers(len(INTERVALS)))
        least = max(1, round(low * SUSTAINED[kind]))
        most = max(least, int(high * SUSTAINED[kind]))
        topics.append(TopicLoad(f"t{number}", float(random.integers(least, most + 1)), INTERVALS[kind]))
    return topics


def random_feasibility(count, seed, low=0.0, high=1.0):
    return HostFeasibility(without_margin(small_model()), Host(), random_topics(count, seed, low, high))
