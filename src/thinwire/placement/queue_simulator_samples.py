"""Training sets: which topics shared a host, and the p90 that each of them had.

A sample is one topic of one run. Runs are measured on a host or simulated; a model does not ask which, its document
says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from thinwire.placement.hosts_topics import Host, Topic, Vector
from thinwire.placement.queue_simulator import SECONDS, Arrivals, simulate

INTERVALS = (0.0123, 0.0273, 0.0421, 0.0496)
"""seconds a message of the published experiments took, found from the rates they sustained"""
LABELS = (0.010, 0.020, 0.030, 0.040)
"""what the publication calls them"""
SUSTAINED = (78, 37, 24, 20)
"""messages a second that a topic with each interval sustained alone, as published"""


@dataclass(frozen=True)
class Run:
    """Topics that shared a host, and the p90 of each, in seconds."""

    topics: tuple[Topic, ...]
    host: Host
    p90: tuple[float, ...]


def random_topics(
    count: int, dice: np.random.Generator, *, low: float = 0.0, high: float = 1.0, spare: int = 0
) -> list[Topic]:
    """Topics as the publication drew them: an interval, and a whole rate up to what it sustains alone.

    low, high: the part of the range that rates come from
    spare: messages a second that rates stay below what is sustained
    """
    topics = []
    for number in range(count):
        kind = int(dice.integers(len(INTERVALS)))
        least = max(1, round(low * SUSTAINED[kind]))
        most = max(least, int(high * SUSTAINED[kind]) - spare)
        topics.append(Topic(f"t{number}", float(dice.integers(least, most + 1)), INTERVALS[kind]))
    return topics


def skewed_topics(count: int, dice: np.random.Generator, *, spare: int = 6, ends: int = 5) -> list[Topic]:
    """Topics of which half are nearly as fast as they can be, and half are slow: the other released generator.

    ends: how many rates at each end of the range they come from
    """
    topics = []
    for number in range(count):
        kind = int(dice.integers(len(INTERVALS)))
        most = SUSTAINED[kind] - spare
        least = most - ends + 1 if dice.random() < 0.5 else 1
        topics.append(Topic(f"t{number}", float(dice.integers(least, least + ends)), INTERVALS[kind]))
    return topics


def random_runs(
    count: int,
    together: int,
    seed: int,
    *,
    host: Host | None = None,
    seconds: float = SECONDS,
    arrivals: Arrivals = "poisson",
) -> list[Run]:
    """Simulated runs of randomly drawn topics, so many together."""
    where, sets = host or Host(), random_sets(count, together, seed)
    return [rerun(topics, where, (seed, together, n), seconds, arrivals) for n, topics in enumerate(sets)]


def random_sets(count: int, together: int, seed: int) -> list[tuple[Topic, ...]]:
    """Randomly drawn topics, so many together; the first of many are those of few."""
    dice = np.random.Generator(np.random.PCG64([seed, together]))
    return [tuple(random_topics(together, dice)) for _ in range(count)]


def rerun(
    topics: Sequence[Topic],
    host: Host,
    seed: Sequence[int],
    seconds: float = SECONDS,
    arrivals: Arrivals = "poisson",
) -> Run:
    """The same topics once more, with other chances."""
    found = simulate(topics, host, list(seed), seconds=seconds, arrivals=arrivals)
    return Run(tuple(topics), host, tuple(latency.p90 for latency in found))


def logs(runs: Sequence[Run]) -> Vector:
    """The logarithm of every p90, run after run."""
    return np.asarray(np.log([p90 for run in runs for p90 in run.p90]), np.float64)
