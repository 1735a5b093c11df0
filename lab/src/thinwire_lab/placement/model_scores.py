"""Scores of latency models and placements on runs that were not used for training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from thinwire.placement.heuristics import Shared
from thinwire.placement.hosts import Host, TopicLoad, Vector, columns
from thinwire.placement.latency_model import LatencyModel
from thinwire_lab.placement.queue_simulator import HostRun, logs, simulate


class Score(NamedTuple):
    """Predictions compared with runs.

    fit: R2 on the logarithm of the p90
    missed: share of late topics that were accepted (false negatives)
    refused: share of timely topics that were rejected (false positives)
    late: number of late topics
    """

    fit: float
    missed: float
    refused: float
    late: int


class PlacementOutcome(NamedTuple):
    """Simulated result of a placement.

    over: share of topics whose p90 was above their limit; late: share of all messages above it
    p90: mean over the topics, in seconds; busy: mean share of the cores in use
    """

    hosts: int
    over: float
    late: float
    p90: float
    busy: float


def r_squared(measured: Vector, predicted: Vector) -> float:
    """Return R2, the share of variance explained."""
    return 1.0 - float(((measured - predicted) ** 2).sum()) / float(((measured - measured.mean()) ** 2).sum())


def score(model: LatencyModel, runs: Sequence[HostRun]) -> Score:
    """Score a model on runs with the same number of topics and the same host."""
    host, topic_sets = runs[0].host, [run.topics for run in runs]
    expected = model.logs(*columns(topic_sets, host), host)
    log_limits = np.log(np.array([[topic.promise for topic in topics] for topics in topic_sets])).ravel()
    measured, accepted = logs(runs), model.bounds(expected).ravel() <= log_limits
    late = measured > log_limits
    missed = float(accepted[late].mean()) if late.any() else 0.0
    refused = float((~accepted[~late]).mean()) if (~late).any() else 0.0
    return Score(r_squared(measured, expected.ravel()), missed, refused, int(late.sum()))


def simulate_placement(
    placed: Sequence[Shared], topics: Sequence[TopicLoad], host: Host, seed: int, runs: int = 1
) -> PlacementOutcome:
    """Simulate a placement host by host."""
    groups = [[topics[topic] for topic in group] for group in placed if group]
    found = [
        (topic, latency)
        for repeat in range(runs)
        for number, hosted in enumerate(groups)
        for topic, latency in zip(hosted, simulate(hosted, host, [seed, repeat, number]), strict=True)
    ]
    over = float(np.mean([latency.p90 > topic.promise for topic, latency in found]))
    late, messages = sum(one.late * one.messages for _, one in found), sum(one.messages for _, one in found)
    p90, busy = float(np.mean([one.p90 for _, one in found])), sum(one.busy for _, one in found)
    cores = host.cores * max(1, len(groups)) * runs
    return PlacementOutcome(len(groups), over, late / max(1, messages), p90, busy / cores)
