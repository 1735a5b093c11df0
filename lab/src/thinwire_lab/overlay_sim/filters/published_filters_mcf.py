"""Multi-level cooperative filters (MCF), in the form that is correct: each threshold has a chain of filters of its own.

CooperativeMove aligns an upper filter with the edge of the one below it, so that nothing slips through the gap between
them. With two thresholds below one upper filter there are two edges and one filter, and one of the two misses values
whatever is done. Here upper filters of equal radius lie on one node and keep a state for every chain. Two levels then
deliver exactly what `greedy` does, on any stream; three and more do where two values in a row lie no further apart than
the step.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from thinwire.filters.thresholds import SUM_LIMIT, Ticks, checked_thresholds, checked_tick, checked_ticks
from thinwire_lab.overlay_sim.filters.filter_kernels_hierarchy import pass_chains
from thinwire_lab.overlay_sim.filters.published_filters_passage import Passage, ordered, pieces
from thinwire_lab.overlay_sim.filters.threshold_decomposition import chosen_chains, first_level
from thinwire_lab.overlay_sim.filters.threshold_decomposition_decomposition import Chain


class Cooperative:
    """Chains of cooperating filters.

    step: how far two values in a row are said to lie apart at most; it limits which decompositions are allowed
    levels: filters of a chain at most
    centres: where the filters are, a row for each chain

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
        """With chains chosen elsewhere; each stands for the sum of its radii."""
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
        """Offers all values, in order.

        Touched are the filters of the first level and those that something is passed on to; the state that each chain
        keeps at every level is looked at besides.
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
