"""A topic that cannot keep its promise even with a host to itself: into how many parts must it be cut?

Its publishers are dealt to parts, each a topic of its own with a share of the rate. Where even a single message takes
longer than the promise, cutting does not help and that is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from thinwire.placement.hosts_topics import Host, Topic, columns
from thinwire.placement.latency_model_models import LatencyModel

MAX_PARTS = 1024


class Split(NamedTuple):
    """What would help a topic.

    parts: how many parts keep the promise, 1 where it keeps it whole; None where no number does
    bound: the p90 of a part with the margin, in seconds; of the whole topic where no number of parts helps
    """

    topic: Topic
    parts: int | None
    bound: float


def split(topic: Topic, hosts: Sequence[Host], model: LatencyModel) -> Split:
    """The fewest parts that keep the promise on the host that suits it best."""
    options = [_on(topic, host, model) for host in hosts]
    kept = [option for option in options if option.parts is not None]
    if kept:
        return min(kept, key=lambda option: (option.parts or 0, option.bound))
    return min(options, key=lambda option: option.bound)


def parts_of(topic: Topic, parts: int) -> list[Topic]:
    """The parts, each under a name of its own."""
    part = topic.part(parts)
    return [Topic(f"{topic.name}/{n + 1}", part.rate, part.interval, part.promise) for n in range(parts)]


def all_split(topics: Sequence[Topic], hosts: Sequence[Host], model: LatencyModel) -> list[Topic]:
    """The topics, those in parts that cannot keep their promise whole; what no parts help stays as it is."""
    known: dict[tuple[float, float, float], int] = {}
    found: list[Topic] = []
    for topic in topics:
        key = (topic.rate, topic.interval, topic.promise)
        if key not in known:
            known[key] = split(topic, hosts, model).parts or 1
        found += parts_of(topic, known[key]) if known[key] > 1 else [topic]
    return found


def _on(topic: Topic, host: Host, model: LatencyModel) -> Split:
    """By halving: fewer messages never wait longer."""
    if _bound(topic, MAX_PARTS, host, model) > topic.promise:
        return Split(topic, None, _bound(topic, 1, host, model))
    low, high = 0, MAX_PARTS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _bound(topic, middle, host, model) <= topic.promise else (middle, high)
    return Split(topic, high, _bound(topic, high, host, model))


def _bound(topic: Topic, parts: int, host: Host, model: LatencyModel) -> float:
    logs = model.logs(*columns([[topic.part(parts)]], host), host)
    return float(np.exp(model.bounds(logs)[0, 0]))
