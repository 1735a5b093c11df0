"""How good a model is, and how good a placement: on runs it has not seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from thinwire.placement.heuristics import Shared
from thinwire.placement.hosts import Host, TopicLoad, Vector, columns
from thinwire.placement.latency_model import LatencyModel
from thinwire_lab.placement.queue_simulator import HostRun, logs, simulate


class Score(NamedTuple):
    """How predictions compare with runs.

    fit: R2 on the logarithm of the p90
    missed: of topics that were late, the share that was accepted (false negatives)
    refused: of topics in time, the share that was refused (false positives)
    """

    fit: float
    missed: float
    refused: float
    late: int


class PlacementOutcome(NamedTuple):
    """What a placement came to.

    over: share of the topics whose p90 was above their promise; late: share of all messages that were
    p90: mean over the topics, in seconds; busy: mean share of the cores in use
    """

    hosts: int
    over: float
    late: float
    p90: float
    busy: float


def fitted(seen: Vector, predicted: Vector) -> float:
    """R2: the share of the differences that is explained."""
    return 1.0 - float(((seen - predicted) ** 2).sum()) / float(((seen - seen.mean()) ** 2).sum())


def score(model: LatencyModel, runs: Sequence[HostRun]) -> Score:
    """The model on runs of one size, all on one kind of host."""
    host, sets = runs[0].host, [run.topics for run in runs]
    expected = model.logs(*columns(sets, host), host)
    promised = np.log(np.array([[topic.promise for topic in topics] for topics in sets])).ravel()
    seen, accepted = logs(runs), model.bounds(expected).ravel() <= promised
    late = seen > promised
    missed = float(accepted[late].mean()) if late.any() else 0.0
    refused = float((~accepted[~late]).mean()) if (~late).any() else 0.0
    return Score(fitted(seen, expected.ravel()), missed, refused, int(late.sum()))


def outcome(
    placed: Sequence[Shared], topics: Sequence[TopicLoad], host: Host, seed: int, runs: int = 1
) -> PlacementOutcome:
    """A placement, simulated host by host."""
    over, late, p90, busy, messages = [], 0.0, [], 0.0, 0
    groups = [group for group in placed if group]
    for turn in range(runs):
        for number, group in enumerate(groups):
            here = [topics[topic] for topic in group]
            for topic, latency in zip(here, simulate(here, host, [seed, turn, number]), strict=True):
                over.append(latency.p90 > topic.promise)
                p90.append(latency.p90)
                late += latency.late * latency.messages
                messages += latency.messages
                busy += latency.busy
    cores = host.cores * max(1, len(groups)) * runs
    return PlacementOutcome(
        len(groups), float(np.mean(over)), late / max(1, messages), float(np.mean(p90)), busy / cores
    )
