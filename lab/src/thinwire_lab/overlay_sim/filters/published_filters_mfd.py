"""Multi-level filter decomposition (MFD): a threshold's digits as a path of filters, shared where paths begin alike.

Every filter moves to what it passes on (BasicMove). The radii of a path add up to the threshold, so a subscriber's copy
stays within it; but it may be told more often than `greedy` would, and now and then less often.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from thinwire.filters.thresholds import Ticks, checked_thresholds, checked_tick, checked_ticks
from thinwire_lab.overlay_sim.filters.filter_kernels_hierarchy import pass_tree
from thinwire_lab.overlay_sim.filters.published_filters_passage import Passage, ordered, pieces
from thinwire_lab.overlay_sim.filters.threshold_decomposition_decomposition import Chain, base_for, digits


class Decomposed:
    """The tree of digits of all thresholds. A filter on the way that nobody asked for is a proxy.

    names, parents, centres: of the filters: the threshold each stands for, the one before it (-1: none), its state
    base: of the digits; by default the one that gives the largest threshold three digits

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
        """With radii chosen elsewhere; each path stands for the sum of its radii."""
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
        self._asked = np.isin(np.arange(len(nodes)), [numbers[chain] for chain in chains])
        self._radii = _column(path[-1] for path in nodes)
        self._roots = np.flatnonzero(self.parents < 0)
        self._children = np.argsort(self.parents, kind="stable")[self._roots.size :]
        self._first = np.searchsorted(self.parents[self._children], np.arange(len(nodes) + 1))

    @property
    def proxies(self) -> Ticks:
        """Filters that only lead to others."""
        return self.names[~self._asked]

    def run(self, values: Ticks) -> Passage:
        """Offers all values, in order."""
        ticks = checked_ticks(values)
        parts = [self._piece(begin, piece) for begin, piece in pieces(ticks, self.names.size)]
        at, nodes = (np.concatenate([self.names[:0], *(part[side] for part in parts)]) for side in (0, 1))
        asked, names = self._asked[nodes], self.names[nodes]
        return Passage(at[asked], names[asked], at, names, ticks.size, sum(part[2] for part in parts))

    def _piece(self, begin: int, values: Ticks) -> tuple[Ticks, Ticks, int]:
        places, passed = (np.empty(values.size * self.names.size, dtype=np.int64) for _ in range(2))
        tree = self._radii, self.centres, self._roots, self._first, self._children
        count, touched = pass_tree(values, *tree, places, passed)
        return *ordered(begin + places[:count], passed[:count]), touched


def _column(numbers: Iterable[int]) -> Ticks:
    return np.fromiter(numbers, dtype=np.int64)
