"""A model small enough to fit in a test, and judges made of it."""

from dataclasses import replace
from functools import cache

import numpy as np

from thinwire.placement import Host
from thinwire.placement.feasibility import HostFeasibility
from thinwire.placement.latency_model import Margin
from thinwire_lab.placement.latency_model_training import fit_monotone_model
from thinwire_lab.placement.queue_simulator import random_runs, random_topics


@cache
def small_model():
    runs = [run for k in range(1, 7) for run in random_runs(60, k, seed=1, seconds=30)]
    return fit_monotone_model(runs[::2], runs[1::2], rounds=80)


def random_feasibility(count, seed, low=0.0, high=1.0):
    topics = random_topics(count, np.random.Generator(np.random.PCG64(seed)), low=low, high=high)
    exact = replace(small_model(), margin=Margin(0.5, np.zeros(1), np.zeros(1)))  # bounds equal predictions
    return HostFeasibility(exact, Host(), topics)
