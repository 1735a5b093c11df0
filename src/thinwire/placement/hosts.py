"""Topics with a processing function, and hosts that run them.

A message of a topic takes `interval` seconds of one core, `rate` times a second. The latency limit `promise` is the
time within which nine of ten messages must arrive.

>>> gps = TopicLoad("region-7.gps", rate=20, interval=0.0273, promise=1.0)
>>> round(gps.load, 3)
0.546
>>> Host("edge", cores=4, speed=2.0).seconds(gps)
0.01365

Solvers need few distinct rates. `bucketed` rounds rates up, which is safe because latency rises with the rate.

>>> topics = [TopicLoad(f"t{n}", 10 + n / 1000, 0.01) for n in range(1000)]
>>> len({topic.rate for topic in bucketed(topics, types=50)}) <= 50
True
>>> all(rough.rate >= topic.rate for rough, topic in zip(bucketed(topics, types=50), topics))
True
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from thinwire.errors import ConfigError

Vector = NDArray[np.float64]

PROMISE = 1.0
"""default latency limit in seconds"""
MAX_TOGETHER = 32
"""limit of topics on one host"""
MAX_RATE = 1e6
MAX_CORES = 1024


@dataclass(frozen=True)
class TopicLoad:
    """One topic.

    rate: messages per second
    interval: seconds of one core of the reference host per message
    promise: latency limit; seconds within which nine of ten messages must arrive
    """

    name: str
    rate: float
    interval: float
    promise: float = PROMISE

    def __post_init__(self) -> None:
        _within("rate", self.rate, MAX_RATE, self.name)
        _within("interval", self.interval, 3600, self.name)
        _within("promise", self.promise, 86_400, self.name)

    @property
    def load(self) -> float:
        """Busy cores of the reference host."""
        return self.rate * self.interval

    def part(self, parts: int) -> TopicLoad:
        """Return one of `parts` equal parts of the topic."""
        return replace(self, rate=self.rate / parts)


@dataclass(frozen=True)
class Host:
    """One kind of host.

    cores: number of topics processed at the same time
    speed: of a core, relative to the reference host
    contention: share by which each busy core slows the others
    overhead: seconds of a message besides waiting and processing
    spread: standard deviation of the processing time, as a share of its mean
    count: number of hosts of this kind; None for no limit
    """

    name: str = "edge"
    cores: int = 4
    speed: float = 1.0
    contention: float = 0.03
    overhead: float = 0.0
    spread: float = 0.15
    count: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.cores, bool) or not isinstance(self.cores, int) or not 1 <= self.cores <= MAX_CORES:
            raise ConfigError("a host has whole cores", field="cores", value=self.cores, limit=f"1 to {MAX_CORES}")
        _within("speed", self.speed, 1000, self.name)
        _within("contention", self.contention, 1, self.name, zero=True)
        _within("overhead", self.overhead, 3600, self.name, zero=True)
        _within("spread", self.spread, 10, self.name)
        if self.count is not None and self.count < 1:
            raise ConfigError("leave out a host of which there is none", field="count", value=self.count, lowest=1)

    def seconds(self, topic: TopicLoad) -> float:
        """Return the seconds of a message of the topic, alone on the host."""
        return topic.interval / self.speed


def check_together(k: int) -> int:
    """Return `k`, the largest number of topics on a host, or raise `ConfigError`."""
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= MAX_TOGETHER:
        raise ConfigError("a host takes at least one topic", field="k", value=k, limit=f"1 to {MAX_TOGETHER}")
    return k


def columns(sets: Sequence[Sequence[TopicLoad]], host: Host) -> tuple[Vector, Vector, NDArray[np.int64]]:
    """Return rates and seconds of sets of topics, one row per set, and the size of each set."""
    sizes = np.array([len(topics) for topics in sets], np.int64)
    width = int(sizes.max(initial=1))
    rates, seconds = np.zeros((len(sets), width)), np.zeros((len(sets), width))
    for row, topics in enumerate(sets):
        rates[row, : len(topics)] = [topic.rate for topic in topics]
        seconds[row, : len(topics)] = [host.seconds(topic) for topic in topics]
    return rates, seconds, sizes


def _within(field: str, value: float, most: float, of: str, *, zero: bool = False) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not (0 < value <= most or (zero and value == 0)):
        raise ConfigError("outside its limits", field=field, value=value, above=0, at_most=most, of=of)


TYPES = 200
"""largest number of distinct topics after rounding"""


def bucketed(topics: Sequence[TopicLoad], *, types: int = TYPES, up: bool = True) -> list[TopicLoad]:
    """Return the topics with rates rounded in the finest steps that leave at most `types` distinct topics.

    up: round rates up, for a feasible placement; otherwise down, for a valid lower bound
    """
    step, found = 0.005, list(topics)
    # Coarser steps do not help: the topics differ in interval and limit.
    while len({(t.rate, t.interval, t.promise) for t in found}) > types and step < 4:
        found = _rounded(topics, step, up)
        step *= 1.5
    return found


def _rounded(topics: Sequence[TopicLoad], step: float, up: bool) -> list[TopicLoad]:
    """Replace the rates between two powers of 1 + step by the largest or the smallest of them."""
    keys = [(math.floor(math.log(t.rate) / math.log1p(step)), t.interval, t.promise) for t in topics]
    ends: dict[tuple[int, float, float], float] = {}
    for key, topic in zip(keys, topics, strict=True):
        ends[key] = (max if up else min)(ends.get(key, topic.rate), topic.rate)
    return [replace(topic, rate=ends[key]) for key, topic in zip(keys, topics, strict=True)]
