"""Published filter schemes over many thresholds, and the offline optimum.

The schemes are those of L. Chen, Conformance Preserving Data Dissemination for Large-Scale Peer to Peer Systems,
dissertation, 2011. A filter has a radius and a centre; it passes a value that is further than the radius from the
centre. A threshold is a chain of filters: a value that the last filter of the chain passes is delivered.

Single-level filters (SF). Every threshold is one filter, which evaluates every value. They deliver what `greedy` does,
and so does the interval index (`IntervalIndex`).

Decomposed (MFD, multi-level filter decomposition). The digits of a threshold are the radii of a path of filters; paths
share common beginnings. A filter that passes a value becomes centred at the value (BasicMove). The radii of a path add
up to the threshold, so a subscriber's value stays within the threshold. The subscriber may receive more deliveries than
with `greedy`, and sometimes fewer.

Cooperative (MCF, multi-level cooperative filters), in its correct form: each threshold has its own chain of filters.
CooperativeMove centres an upper filter at an edge of the filter below if the value is near the edge, so that no value
is lost between them. A shared upper filter has one centre, which cannot be at the edges of two lower filters, so one of
the thresholds would miss values. Here upper filters of equal radius share a node but have a centre for every chain. Two
levels then deliver exactly what `greedy` does on any stream; three or more do if consecutive values differ by at most
the step.

Offline optimum. The fewest deliveries within a threshold, given all values. A delivery of x serves up to the first
value that differs from x by more than the threshold. The next delivery may be any value up to that point; the best one
serves longest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from thinwire_lab.overlay_sim.filters.filter_kernels import choose_deliveries, pass_chains, pass_tree, serves_until
from thinwire_lab.overlay_sim.filters.threshold_decomposition import (
    Chain,
    base_for,
    chosen_chains,
    digit_chains,
    first_level,
)
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
    indexes = np.empty(ticks.size, dtype=np.int64)
    return indexes[: choose_deliveries(until, indexes)].copy()


_CELLS = 1 << 20
"""pairs of a value and a filter that a kernel may write in one call"""


@dataclass(frozen=True)
class Passage:
    """Result of a scheme on a stream, as pairs of the index of a value and a threshold in ascending order.

    indexes, thresholds: the deliveries
    passed_indexes, passed_thresholds: values passed by a filter, with the threshold that the filter represents
    evaluations: number of filter evaluations
    """

    indexes: Ticks
    thresholds: Ticks
    passed_indexes: Ticks
    passed_thresholds: Ticks
    evaluations: int


def _ordered(indexes: Ticks, filters: Ticks) -> tuple[Ticks, Ticks]:
    """Return pairs in ascending order."""
    order = np.lexsort((filters, indexes))
    return indexes[order], filters[order]


def _pieces(values: Ticks, filters: int) -> Iterator[tuple[int, Ticks]]:
    """Return pieces of a stream with their start indexes. One kernel call has room for all pairs of a piece."""
    size = max(1, _CELLS // max(1, filters))
    return ((at, values[at : at + size]) for at in range(0, values.size, size))


@dataclass(frozen=True)
class Cost:
    """Costs of a scheme on a stream, per value.

    evaluations: filter evaluations; for the index, blocks of 32 thresholds that are evaluated together
    fired: deliveries
    """

    scheme: str
    evaluations: float
    fired: float


def costs(values: Ticks, thresholds: Iterable[int]) -> list[Cost]:
    """Return the costs of SF, MFD, MCF and the index (SRI); all are centred at the first value.

    MFD has the smallest base in which every threshold has three digits; MCF expects streams with steps of one tick.

    >>> [(cost.scheme, cost.evaluations) for cost in costs(np.arange(9), [3, 7])]
    [('SF', 2.0), ('MFD', 1.75), ('MCF', 1.125), ('SRI', 0.25)]
    """
    ticks, distinct = checked_ticks(values), checked_thresholds(thresholds)
    start, rest = int(ticks[0]), ticks[1:]
    events, base = max(1, rest.size), base_for(int(distinct.max(initial=1)), 3)
    decomposed = Decomposed(digit_chains(distinct.tolist(), base), start).run(rest)
    cooperative = Cooperative(chosen_chains(distinct.tolist(), step=1).values(), start).run(rest)
    index = IntervalIndex(distinct, start)
    fired = sum(indexes.size for indexes, _ in index.offer_batches(rest)) / events
    return [
        Cost("SF", float(distinct.size), fired),
        Cost("MFD", decomposed.evaluations / events, decomposed.indexes.size / events),
        Cost("MCF", cooperative.evaluations / events, cooperative.indexes.size / events),
        Cost("SRI", index.compared / events, fired),
    ]


class Cooperative:
    """Chains of cooperative filters.

    chains: threshold -> radii of its filters, in ascending order of thresholds
    first_level: distinct radii of the first filters
    centres: centres of the filters, one row per chain

    >>> scheme = Cooperative(chosen_chains([7, 11], step=1).values(), value=0)
    >>> scheme.chains, scheme.first_level
    ({7: (3, 4), 11: (3, 8)}, [3])
    >>> scheme.run(-np.arange(1, 13)).indexes.tolist()
    [7, 11]
    """

    def __init__(self, chains: Iterable[Chain], value: int) -> None:
        self.chains = {sum(chain): chain for chain in sorted(chains, key=sum)}
        self.first_level = first_level(self.chains)
        self.thresholds = checked_thresholds(self.chains)
        self._depths = np.array([len(chain) for chain in self.chains.values()], dtype=np.int64)
        self._radii = np.zeros((len(self.chains), int(self._depths.max(initial=1))), dtype=np.int64)
        for row, chain in enumerate(self.chains.values()):
            self._radii[row, : len(chain)] = chain
        self.centres = np.full(self._radii.shape, checked_tick(value), dtype=np.int64)

    def run(self, values: Ticks) -> Passage:
        """Process all values in order.

        Filters of the first level with equal radii count as one evaluation, although there is a centre for each chain.
        """
        ticks = checked_ticks(values, limit=SUM_LIMIT)
        parts = [self._piece(begin, piece) for begin, piece in _pieces(ticks, self._radii.size)]
        at, rows, levels = (
            np.concatenate([part[column] for part in parts] or [self._depths[:0]]) for column in range(3)
        )
        passed, last = self.thresholds[rows], levels == self._depths[rows] - 1
        delivered = _ordered(at[last], passed[last])
        evaluations = ticks.size * len(self.first_level) + int(np.count_nonzero(~last))
        return Passage(*delivered, *_ordered(at, passed), evaluations)

    def _piece(self, begin: int, values: Ticks) -> tuple[Ticks, Ticks, Ticks]:
        indexes, rows, levels = (np.empty(values.size * self._radii.size, dtype=np.int64) for _ in range(3))
        count = pass_chains(values, self._radii, self._depths, self.centres, indexes, rows, levels)
        return begin + indexes[:count], rows[:count], levels[:count]


class Decomposed:
    """Tree of filters; thresholds whose chains begin alike share filters.

    chains: radii of the filters on the path of each threshold, such as its digits
    filter_thresholds: threshold that each filter represents, the sum of the radii on the path to the filter
    parents: number of the filter above each filter, -1 for none
    centres: centre of each filter

    >>> scheme = Decomposed(digit_chains([21, 34], base=4), value=0)
    >>> scheme.filter_thresholds.tolist()
    [1, 2, 5, 21, 34]
    >>> scheme.run(np.array([10, 40])).thresholds.tolist()
    [21, 34]
    """

    def __init__(self, chains: Sequence[Chain], value: int) -> None:
        paths = {chain[:end] for chain in chains for end in range(1, len(chain) + 1)}
        nodes = sorted(paths, key=lambda path: (sum(path), path))
        numbers = {path: number for number, path in enumerate(nodes)}
        self.filter_thresholds = np.array([sum(path) for path in nodes], dtype=np.int64)
        self.parents = np.array([numbers.get(path[:-1], -1) for path in nodes], dtype=np.int64)
        self.centres = np.full(len(nodes), checked_tick(value), dtype=np.int64)
        self._subscribed = np.isin(np.arange(len(nodes)), [numbers[chain] for chain in chains])
        self._radii = np.array([path[-1] for path in nodes], dtype=np.int64)
        self._roots = np.flatnonzero(self.parents < 0)
        self._children = np.argsort(self.parents, kind="stable")[self._roots.size :]
        self._first_child = np.searchsorted(self.parents[self._children], np.arange(len(nodes) + 1))

    def run(self, values: Ticks) -> Passage:
        """Process all values in order."""
        ticks = checked_ticks(values)
        parts = [self._piece(begin, piece) for begin, piece in _pieces(ticks, self.filter_thresholds.size)]
        at, nodes = (
            np.concatenate([self.filter_thresholds[:0], *(part[column] for part in parts)]) for column in (0, 1)
        )
        subscribed, filter_thresholds = self._subscribed[nodes], self.filter_thresholds[nodes]
        deliveries = at[subscribed], filter_thresholds[subscribed]
        return Passage(*deliveries, at, filter_thresholds, sum(part[2] for part in parts))

    def _piece(self, begin: int, values: Ticks) -> tuple[Ticks, Ticks, int]:
        indexes, passed = (np.empty(values.size * self.filter_thresholds.size, dtype=np.int64) for _ in range(2))
        tree = self._radii, self.centres, self._roots, self._first_child, self._children
        count, evaluations = pass_tree(values, *tree, indexes, passed)
        return *_ordered(begin + indexes[:count], passed[:count]), evaluations
