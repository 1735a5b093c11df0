"""Which types are lighter than which: fewer messages, less work, more time. A lighter one fits where a heavier does.

Latency only rises with load, so the place of a heavier topic on a host may always be given to a lighter one. Where the
relaxation knows that, one pattern stands for many, and prices never fall from a type to a heavier one.

May these topics share a host? A model's answer, asked about types of topics, many sets at once.

Topics with the same rate, interval and promise are one type: ten thousand topics are a few hundred of them, and what
was asked once is remembered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from thinwire.placement.hosts import Host, TopicLoad, Vector
from thinwire.placement.latency_model import LatencyModel

Pattern = tuple[int, ...]
"""types, in rising order, one for each topic on a host"""
Places = NDArray[np.int64]
WIDEST = 20.0
"""a margin is narrower, as a logarithm"""
HALVINGS = 60


class HostFeasibility:
    """What a model allows on one kind of host.

    careful: keep the model's margin; else take its expectation for the truth
    """

    def __init__(self, model: LatencyModel, host: Host, topics: Sequence[TopicLoad], *, careful: bool = True) -> None:
        self.model, self.host, self.topics, self.careful = model, host, topics, careful
        keys = [(topic.rate, topic.interval, topic.promise) for topic in topics]
        kinds = sorted(set(keys))
        numbers = {key: number for number, key in enumerate(kinds)}
        self.of = [numbers[key] for key in keys]
        """the type of each topic"""
        self.rates = np.array([rate for rate, _, _ in kinds])
        self.seconds = np.array([interval / host.speed for _, interval, _ in kinds])
        self.promises = np.log(np.array([promise for _, _, promise in kinds]))
        self.loads = self.rates * self.seconds
        self.limits = _limits(model, self.promises) if careful else self.promises
        """the largest logarithm that may be expected of each type"""
        self._known: dict[Pattern, bool] = {}

    @property
    def demands(self) -> Vector:
        """How many topics of each type there are."""
        counts = Counter(self.of)
        return np.array([float(counts[kind]) for kind in range(len(self.rates))])

    def strains(self, patterns: Places) -> Vector:
        """How far every topic of every set is from its promise, as a logarithm: above 0 it is broken."""
        sizes = np.full(len(patterns), patterns.shape[1], np.int64)
        logs = self.model.logs(self.rates[patterns], self.seconds[patterns], sizes, self.host)
        bounds = self.model.bounds(logs) if self.careful else logs
        return np.asarray(bounds - self.promises[patterns])

    def allowed(self, patterns: Places) -> NDArray[np.bool_]:
        """Which of the sets, all of the same size, keep every promise."""
        if not len(patterns):
            return np.zeros(0, bool)
        return self.model.keeps(self.rates[patterns], self.seconds[patterns], self.limits[patterns], self.host)

    def learn(self, patterns: Iterable[Pattern]) -> None:
        """Ask about many sets at once, for later."""
        fresh = sorted({pattern for pattern in patterns if pattern not in self._known})
        for size in sorted({len(pattern) for pattern in fresh}):
            alike = [pattern for pattern in fresh if len(pattern) == size]
            for pattern, good in zip(alike, self.allowed(np.array(alike, np.int64)).tolist(), strict=True):
                self._known[pattern] = good

    def fits(self, pattern: Pattern) -> bool:
        """Does this set keep every promise?"""
        if pattern not in self._known:
            self.learn([pattern])
        return self._known[pattern]

    def pattern(self, topics: Iterable[int]) -> Pattern:
        """The types of these topics."""
        return tuple(sorted(self.of[topic] for topic in topics))

    def alone(self) -> Vector:
        """How far each type is from its promise with a host to itself."""
        return self.strains(np.arange(len(self.rates))[:, None])[:, 0]


def joined(pattern: Pattern, kind: int) -> Pattern:
    """The set with one topic more."""
    return tuple(sorted((*pattern, kind)))


def _limits(model: LatencyModel, promises: Vector) -> Vector:
    """What may be expected so that, with the margin, the promises are kept: by halving, for margins only rise."""
    low, high = promises - WIDEST, promises + WIDEST
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        kept = model.bounds(middle) <= promises
        low, high = np.where(kept, middle, low), np.where(kept, high, middle)
    return low


Lighter = NDArray[np.bool_]
"""a row and a column a type: is that of the row lighter than that of the column?"""


def lighter(judge: HostFeasibility) -> Lighter:
    """Every pair of types that can be compared."""
    rates, seconds, promises = judge.rates, judge.seconds, judge.promises
    below = (rates[:, None] <= rates) & (seconds[:, None] <= seconds) & (promises[:, None] >= promises)
    np.fill_diagonal(below, False)
    return np.asarray(below)


def steps(below: Lighter) -> list[tuple[int, int]]:
    """Only the pairs without a type between them: the others follow.

    >>> steps(np.array([[False, True, True], [False, False, True], [False, False, False]]))
    [(0, 1), (1, 2)]
    """
    counts = below.astype(np.float32)
    return [(int(a), int(b)) for a, b in np.argwhere(below & ~(counts @ counts > 0))]
