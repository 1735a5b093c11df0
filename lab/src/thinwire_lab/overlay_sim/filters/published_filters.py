"""Published filter schemes over many thresholds, and the offline optimum.

SingleLevel (SF). Every threshold evaluates every value. It delivers what `greedy` does.

Decomposed (MFD). A threshold's digits form a path of filters; paths share common beginnings. Every filter moves to the
value it passes (BasicMove). The radii of a path add up to the threshold, so a subscriber's value stays within it. It
may receive more deliveries than with `greedy`, and sometimes fewer.

Cooperative (MCF), in its correct form: each threshold has its own chain of filters. CooperativeMove aligns an upper
filter with the edge of the one below, so that no value is lost between them. One upper filter over two thresholds has
two edges, and one of the thresholds misses values. Here upper filters of equal radius are on one node and have a state
for every chain. Two levels then deliver exactly what `greedy` does on any stream; three or more do if consecutive
values differ by at most the step.

Clamped (ClampMove). One upper filter over many thresholds drops a value only if all thresholds below would. After every
value its ball is moved into the common interval of the thresholds, which is always wide enough for a ball of half the
smallest threshold. It is exact on any stream. The interval index uses the common interval directly.

Offline optimum. The fewest deliveries within a threshold, given all values. A delivery of x serves up to the first
value that differs from x by more than the threshold. The next delivery may be any value up to that point; the best one
serves longest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from thinwire.errors import ConfigError
from thinwire_lab.overlay_sim.filters.filter_kernels import choose, pass_chains, pass_tree, serves_until
from thinwire_lab.overlay_sim.filters.threshold_decomposition import Chain, base_for, chosen_chains, digits, first_level
from thinwire_lab.overlay_sim.filters.threshold_index import IntervalIndex
from thinwire_lab.overlay_sim.filters.thresholds import (
    SUM_LIMIT,
    Ticks,
    checked_threshold,
    checked_thresholds,
    checked_tick,
    checked_ticks,
)


def global_optimum(values: Ticks, threshold: int) -> Ticks:
    """Return the indexes of the fewest deliveries, including the first value, in time n log n.

    >>> global_optimum(np.array([0, -5, -9, -3]), 5).tolist()
    [0, 1]
    """
    ticks = checked_ticks(values)
    until = np.empty(ticks.size, dtype=np.int64)
    serves_until(ticks, checked_threshold(threshold), until)
    places = np.empty(ticks.size, dtype=np.int64)
    return places[: choose(until, places)].copy()


_CELLS = 1 << 20
"""pairs that a kernel may write in one call"""


@dataclass(frozen=True)
class Passage:
    """Result of a scheme on a stream: pairs of an index and a threshold, in ascending order.

    places, thresholds: the deliveries
    passed_at, passed: the filters that passed or delivered a value, each with the threshold that it represents
    events: number of values
    touched: number of filter evaluations
    """

    places: Ticks
    thresholds: Ticks
    passed_at: Ticks
    passed: Ticks
    events: int
    touched: int

    def of(self, threshold: int) -> Ticks:
        """Return the indexes of the deliveries of one threshold."""
        found: Ticks = self.places[self.thresholds == threshold]
        return found


def ordered(places: Ticks, names: Ticks) -> tuple[Ticks, Ticks]:
    """Return pairs in the order of a passage."""
    order = np.lexsort((names, places))
    return places[order], names[order]


def pieces(values: Ticks, filters: int) -> Iterator[tuple[int, Ticks]]:
    """Split a stream so that all filters may write at every value of a piece. Yield the start index and the piece."""
    size = max(1, _CELLS // max(1, filters))
    return ((at, values[at : at + size]) for at in range(0, values.size, size))


class Clamped:
    """Thresholds below one upper filter (ClampMove).

    radius: radius of the upper filter; at most half the smallest threshold, which is the default

    >>> Clamped([7, 11], value=0).run(-np.arange(1, 13)).places.tolist()
    [7, 11]
    """

    def __init__(self, thresholds: Iterable[int], value: int, radius: int | None = None) -> None:
        self.thresholds = checked_thresholds(thresholds)
        widest = int(self.thresholds[0]) // 2 if self.thresholds.size else 0
        self.radius = widest if radius is None else checked_threshold(radius)
        if self.radius > widest:
            raise ConfigError("the radius is above half the smallest threshold", radius=self.radius, limit=widest)
        self._centre = checked_tick(value)
        self._held = np.full(self.thresholds.size, self._centre, dtype=np.int64)

    def run(self, values: Ticks) -> Passage:
        """Process all values in order."""
        ticks = checked_ticks(values)
        fired = [self._offer(x) for x in ticks.tolist()]
        passed = [at for at, each in enumerate(fired) if each is not None]
        names = [self.thresholds[each] for each in fired if each is not None]
        places = np.repeat(np.array(passed, dtype=np.int64), [each.size for each in names])
        thresholds = np.concatenate([self.thresholds[:0], *names])
        touched = ticks.size + len(passed) * self.thresholds.size
        return Passage(places, thresholds, places, thresholds, ticks.size, touched)

    def _offer(self, x: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]] | None:
        """Return which thresholds fire; None if the upper filter drops the value."""
        fired = None
        if abs(x - self._centre) > self.radius:
            fired = np.abs(x - self._held) > self.thresholds
            self._held[fired] = x
        self._centre = self._clamped(x)
        return fired

    def _clamped(self, x: int) -> int:
        low = int((self._held - self.thresholds).max(initial=-(1 << 63)))
        high = int((self._held + self.thresholds).min(initial=(1 << 63) - 1))
        return min(max(x, low + self.radius), high - self.radius)


@dataclass(frozen=True)
class Cost:
    """Costs of a scheme on a stream: filter evaluations and deliveries per value.

    A filter of the index is a block of 32 thresholds that are evaluated together.
    """

    scheme: str
    touched: float
    fired: float


def costs(values: Ticks, thresholds: Iterable[int], step: int = 1, base: int | None = None) -> list[Cost]:
    """Return the costs of SF, MFD, MCF and the index (SRI); all are centred at the first value.

    step: nominal step of the cooperative filters
    base: base of the decomposition, see `Decomposed`

    >>> import numpy as np
    >>> [(cost.scheme, cost.touched) for cost in costs(np.arange(9), [3, 7])]
    [('SF', 2.0), ('MFD', 1.75), ('MCF', 1.125), ('SRI', 0.25)]
    """

    ticks, distinct = checked_ticks(values), checked_thresholds(thresholds)
    start, rest = int(ticks[0]), ticks[1:]
    passages = {
        "SF": SingleLevel(distinct, start).run(rest),
        "MFD": Decomposed(distinct, start, base).run(rest),
        "MCF": Cooperative(distinct, start, step).run(rest),
    }
    return [*(_cost(name, passage) for name, passage in passages.items()), _indexed(distinct, start, rest)]


def _cost(scheme: str, passage: Passage) -> Cost:
    events = max(1, passage.events)
    return Cost(scheme, passage.touched / events, passage.places.size / events)


def _indexed(thresholds: Ticks, start: int, values: Ticks) -> Cost:
    from thinwire_lab.overlay_sim.filters.threshold_index import IntervalIndex

    index = IntervalIndex(thresholds, start)
    fired = sum(places.size for places, _ in index.offer_batches(values))
    events = max(1, values.size)
    return Cost("SRI", index.compared / events, fired / events)


class Cooperative:
    """Chains of cooperative filters.

    step: assumed maximum difference of consecutive values; it limits the decompositions
    levels: maximum number of filters in a chain
    centres: centres of the filters, one row per chain

    >>> scheme = Cooperative([7, 11], value=0, step=1)
    >>> scheme.chains, scheme.first_level
    ({7: (3, 4), 11: (3, 8)}, [3])
    >>> scheme.run(-np.arange(1, 13)).places.tolist()
    [7, 11]
    """

    def __init__(self, thresholds: Iterable[int], value: int, step: int = 1, levels: int = 2) -> None:
        self._begin(chosen_chains(checked_thresholds(thresholds).tolist(), step, levels), value)

    @classmethod
    def of(cls, chains: Iterable[Chain], value: int) -> Cooperative:
        """Return a scheme with given chains; each represents the sum of its radii."""
        scheme = cls.__new__(cls)
        scheme._begin({sum(chain): chain for chain in sorted(chains, key=sum)}, value)
        return scheme

    def _begin(self, chains: dict[int, Chain], value: int) -> None:
        self.chains = chains
        self.first_level = first_level(chains)
        self.thresholds = checked_thresholds(chains)
        depth = max(map(len, chains.values()), default=1)
        self._radii = np.zeros((len(chains), depth), dtype=np.int64)
        for row, chain in enumerate(chains.values()):
            self._radii[row, : len(chain)] = chain
        self._depths = np.array([len(chain) for chain in chains.values()], dtype=np.int64)
        self.centres = np.full(self._radii.shape, checked_tick(value), dtype=np.int64)

    def run(self, values: Ticks) -> Passage:
        """Process all values in order.

        Evaluations count the filters of the first level and those that a value is passed to, not the state per chain.
        """
        ticks = checked_ticks(values, limit=SUM_LIMIT)
        parts = [self._piece(begin, piece) for begin, piece in pieces(ticks, self._radii.size)]
        at, rows, levels = (np.concatenate([part[side] for part in parts] or [self._depths[:0]]) for side in range(3))
        names, last = self.thresholds[rows], levels == self._depths[rows] - 1
        delivered = ordered(at[last], names[last])
        touched = ticks.size * len(self.first_level) + int(np.count_nonzero(~last))
        return Passage(*delivered, *ordered(at, names), ticks.size, touched)

    def _piece(self, begin: int, values: Ticks) -> tuple[Ticks, Ticks, Ticks]:
        places, rows, levels = (np.empty(values.size * self._radii.size, dtype=np.int64) for _ in range(3))
        count = pass_chains(values, self._radii, self._depths, self.centres, places, rows, levels)
        return begin + places[:count], rows[:count], levels[:count]


class Decomposed:
    """Tree of the digits of all thresholds. A filter on a path that is no subscribed threshold is a proxy.

    names, parents, centres: per filter, the threshold it represents, its parent (-1: none), its state
    base: base of the digits; by default the largest threshold has three digits

    >>> scheme = Decomposed([21, 34], value=0, base=4)
    >>> scheme.names.tolist(), scheme.proxies.tolist()
    ([1, 2, 5, 21, 34], [1, 2, 5])
    >>> scheme.run(np.array([10, 40])).thresholds.tolist()
    [21, 34]
    """

    def __init__(self, thresholds: Iterable[int], value: int, base: int | None = None) -> None:
        distinct = checked_thresholds(thresholds).tolist()
        self.base = base_for(max(distinct, default=1), 3) if base is None else base
        self._begin([digits(threshold, self.base) or (0,) for threshold in distinct], value)

    @classmethod
    def of(cls, chains: Iterable[Chain], value: int) -> Decomposed:
        """Return a scheme with given radii; each path represents the sum of its radii."""
        scheme = cls.__new__(cls)
        scheme._begin(list(chains), value)
        return scheme

    def _begin(self, chains: list[Chain], value: int) -> None:
        paths = {chain[:end] for chain in chains for end in range(1, len(chain) + 1)}
        nodes = sorted(paths, key=lambda path: (sum(path), path))
        numbers = {path: number for number, path in enumerate(nodes)}
        self.names = _column(sum(path) for path in nodes)
        self.parents = _column(numbers.get(path[:-1], -1) for path in nodes)
        self.centres = np.full(len(nodes), checked_tick(value), dtype=np.int64)
        self._subscribed = np.isin(np.arange(len(nodes)), [numbers[chain] for chain in chains])
        self._radii = _column(path[-1] for path in nodes)
        self._roots = np.flatnonzero(self.parents < 0)
        self._children = np.argsort(self.parents, kind="stable")[self._roots.size :]
        self._first = np.searchsorted(self.parents[self._children], np.arange(len(nodes) + 1))

    @property
    def proxies(self) -> Ticks:
        """The filters that only forward to others."""
        return self.names[~self._subscribed]

    def run(self, values: Ticks) -> Passage:
        """Process all values in order."""
        ticks = checked_ticks(values)
        parts = [self._piece(begin, piece) for begin, piece in pieces(ticks, self.names.size)]
        at, nodes = (np.concatenate([self.names[:0], *(part[side] for part in parts)]) for side in (0, 1))
        subscribed, names = self._subscribed[nodes], self.names[nodes]
        return Passage(at[subscribed], names[subscribed], at, names, ticks.size, sum(part[2] for part in parts))

    def _piece(self, begin: int, values: Ticks) -> tuple[Ticks, Ticks, int]:
        places, passed = (np.empty(values.size * self.names.size, dtype=np.int64) for _ in range(2))
        tree = self._radii, self.centres, self._roots, self._first, self._children
        count, touched = pass_tree(values, *tree, places, passed)
        return *ordered(begin + places[:count], passed[:count]), touched


def _column(numbers: Iterable[int]) -> Ticks:
    return np.fromiter(numbers, dtype=np.int64)


class SingleLevel:
    """One filter for each distinct threshold.

    >>> import numpy as np
    >>> passage = SingleLevel([2, 5], value=0).run(np.array([3, 9]))
    >>> passage.thresholds.tolist(), passage.touched
    ([2, 2, 5], 4)
    """

    def __init__(self, thresholds: Iterable[int], value: int) -> None:
        self._index = IntervalIndex(thresholds, value)

    def run(self, values: Ticks) -> Passage:
        """Process all values in order."""
        ticks = checked_ticks(values)
        places, fired = self._index.offer_many(ticks)
        return Passage(places, fired, places, fired, ticks.size, ticks.size * len(self._index))
