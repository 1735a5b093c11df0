"""Feasibility of sets of topics on a kind of host, according to a latency model.

Topics with the same rate, interval and limit are one type; ten thousand topics have a few hundred types. Sets of types
are evaluated in batches, and results are cached.

A type dominates another if its rate and work are at most as large and its limit is at least as large. The model is
monotone, so a dominating (lighter) type can replace a dominated (heavier) one on any host.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from thinwire.placement.hosts import Host, TopicLoad, Vector
from thinwire.placement.latency_model import LatencyModel

Pattern = tuple[int, ...]
"""sorted types, one for each topic on a host"""
Places = NDArray[np.int64]
MAX_MARGIN = 20.0
"""upper limit of a margin, as a logarithm"""
BISECTIONS = 60


class HostFeasibility:
    """Feasible sets of topics on one kind of host, with the margin of the model."""

    def __init__(self, model: LatencyModel, host: Host, topics: Sequence[TopicLoad]) -> None:
        self.model, self.host, self.topics = model, host, topics
        keys = [(topic.rate, topic.interval, topic.promise) for topic in topics]
        kinds = sorted(set(keys))
        numbers = {key: number for number, key in enumerate(kinds)}
        self.types = [numbers[key] for key in keys]
        """the type of each topic"""
        self.rates = np.array([rate for rate, _, _ in kinds])
        self.seconds = np.array([interval / host.speed for _, interval, _ in kinds])
        self.promises = np.log(np.array([promise for _, _, promise in kinds]))
        self.loads = self.rates * self.seconds
        self.limits = _limits(model, self.promises)
        """largest predicted logarithm of each type that keeps its limit"""
        self._known: dict[Pattern, bool] = {}

    @property
    def type_counts(self) -> Vector:
        """Number of topics of each type."""
        return np.bincount(np.array(self.types, np.int64), minlength=len(self.rates)).astype(np.float64)

    def violations(self, patterns: Places) -> Vector:
        """Return log(p90 / limit) of every topic of every set; positive values exceed the limit."""
        sizes = np.full(len(patterns), patterns.shape[1], np.int64)
        logs = self.model.logs(self.rates[patterns], self.seconds[patterns], sizes, self.host)
        return np.asarray(self.model.bounds(logs) - self.promises[patterns])

    def check_sets(self, patterns: Places) -> NDArray[np.bool_]:
        """Return which sets of equal size keep every limit."""
        if not len(patterns):
            return np.zeros(0, bool)
        return self.model.keeps(self.rates[patterns], self.seconds[patterns], self.limits[patterns], self.host)

    def evaluate(self, patterns: Iterable[Pattern]) -> None:
        """Evaluate many sets in one call and cache the results."""
        fresh = sorted({pattern for pattern in patterns if pattern not in self._known})
        for size in sorted({len(pattern) for pattern in fresh}):
            alike = [pattern for pattern in fresh if len(pattern) == size]
            self._known.update(zip(alike, self.check_sets(np.array(alike, np.int64)).tolist(), strict=True))

    def is_feasible(self, pattern: Pattern) -> bool:
        """Return whether a set keeps every limit."""
        if pattern not in self._known:
            self.evaluate([pattern])
        return self._known[pattern]

    def pattern_of(self, topics: Iterable[int]) -> Pattern:
        """Return the sorted types of topics."""
        return tuple(sorted(self.types[topic] for topic in topics))

    def violations_alone(self) -> Vector:
        """Return log(p90 / limit) of each type alone on a host."""
        return self.violations(np.arange(len(self.rates))[:, None])[:, 0]


def joined(pattern: Pattern, kind: int) -> Pattern:
    """Return the pattern with one more type."""
    return tuple(sorted((*pattern, kind)))


def _limits(model: LatencyModel, promises: Vector) -> Vector:
    """Return the largest predictions whose bounds keep the limits, by bisection; bounds are monotone."""
    low, high = promises - MAX_MARGIN, promises + MAX_MARGIN
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        kept = model.bounds(middle) <= promises
        low, high = np.where(kept, middle, low), np.where(kept, high, middle)
    return low


def lighter(feasibility: HostFeasibility) -> NDArray[np.bool_]:
    """Return a matrix over types: whether the type of the row is lighter than that of the column."""
    rates, seconds, promises = feasibility.rates, feasibility.seconds, feasibility.promises
    below = (rates[:, None] <= rates) & (seconds[:, None] <= seconds) & (promises[:, None] >= promises)
    np.fill_diagonal(below, False)
    return np.asarray(below)


def steps(below: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return the pairs without a type between them (transitive reduction).

    >>> steps(np.array([[False, True, True], [False, False, True], [False, False, False]]))
    [(0, 1), (1, 2)]
    """
    counts = below.astype(np.float32)
    return [(int(a), int(b)) for a, b in np.argwhere(below & ~(counts @ counts > 0))]
