"""Many different rates, few types: rates are rounded up, which is safe because latency only rises with them.

>>> topics = [Topic(f"t{n}", 10 + n / 1000, 0.01) for n in range(1000)]
>>> len({topic.rate for topic in bucketed(topics, types=50)}) <= 50
True
>>> all(rough.rate >= topic.rate for rough, topic in zip(bucketed(topics, types=50), topics))
True
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from thinwire.placement.hosts_topics import Topic

TYPES = 200


def bucketed(topics: Sequence[Topic], *, types: int = TYPES, up: bool = True) -> list[Topic]:
    """The same topics with so few types, by the finest step of rates that gives them.

    up: round rates up, for a placement that holds; down, for a bound that holds
    """
    step, found = 0.005, list(topics)
    # beyond such steps there are as many intervals and promises: they are types of their own
    while len({(t.rate, t.interval, t.promise) for t in found}) > types and step < 4:
        found = _rounded(topics, step, up)
        step *= 1.5
    return found


def _rounded(topics: Sequence[Topic], step: float, up: bool) -> list[Topic]:
    """Rates between two powers of 1 + step become the largest or the smallest of them."""
    keys = [(math.floor(math.log(t.rate) / math.log1p(step)), t.interval, t.promise) for t in topics]
    ends: dict[tuple[int, float, float], float] = {}
    for key, topic in zip(keys, topics, strict=True):
        ends[key] = (max if up else min)(ends.get(key, topic.rate), topic.rate)
    return [replace(topic, rate=ends[key]) for key, topic in zip(keys, topics, strict=True)]
