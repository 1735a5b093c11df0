"""Draws a given number of subscriptions from counts of subscribers.

Plain sampling draws each subscription independently and misses rare interests in small samples. Stratified sampling
groups interests of similar popularity into strata and gives each stratum a proportional number of rows. Within a
stratum the draws are systematic: the i-th row falls into the i-th of equal intervals. Every interest with the
popularity of an interval is therefore drawn, and adjacent interests (of one language, or of a region in it) get
proportional numbers.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from thinwire.errors import ConfigError
from thinwire_lab.errors import SummaryError
from thinwire_lab.workload.interests.interests import Interests
from thinwire_lab.workload.random_rows import Floats, Ints, find_interval, quotas, uniforms

Sampling = Literal["stratified", "plain"]


class SubscriptionSampler:
    """Draws the interest and the region of each row.

    total: number of rows
    strata: number of popularity classes; 1 for a single class
    """

    def __init__(self, interests: Interests, total: int, seed: int, *, strata: int = 10, plain: bool = False) -> None:
        _check(interests, strata)
        self.seed = seed
        cells, stratum = _ordered(interests, 1 if plain else strata)
        self._cells = cells
        self._ends = np.cumsum(interests.counts.ravel()[cells])
        self._plain = plain
        self._slices = _slices(self._ends, stratum, total)
        self._shape = interests.counts.shape

    def draw(self, rows: Ints) -> tuple[Ints, ...]:
        """Return the node on each axis and the region, as one array each."""
        offset = uniforms(self.seed, "subscription", rows)
        if self._plain:
            positions = offset * self._ends[-1]
        else:
            slices = self._slices
            index = np.searchsorted(slices.first, rows, side="right") - 1
            positions = slices.begin[index] + (rows - slices.first[index] + offset) * slices.stride[index]
        cells = self._cells[find_interval(self._ends, positions)]
        return tuple(axis.astype(np.int64) for axis in np.unravel_index(cells, self._shape))


class _Slices(NamedTuple):
    """First row, start in the cumulative counts, and width per row of each stratum with rows."""

    first: Ints
    begin: Floats
    stride: Floats


class MissedInterests(NamedTuple):
    """Interests with subscribers that no drawn row has.

    popular: the most popular of them, as indexes of the flattened popularity array
    plain: expected number with plain sampling
    """

    interests: int
    popular: list[int]
    plain: float


def find_missed(interests: Interests, drawn: Interests, limit: int = 10) -> MissedInterests:
    """Return the interests that are missing in `drawn`, the counts of the drawn rows."""
    popularity, drawn_popularity = interests.popularity.ravel(), drawn.popularity.ravel()
    missing = np.flatnonzero((popularity > 0) & (drawn_popularity == 0))
    order = missing[np.argsort(-popularity[missing], kind="stable")]
    shares = popularity[popularity > 0] / popularity.sum()
    return MissedInterests(
        missing.size, order[:limit].tolist(), float(((1.0 - shares) ** drawn_popularity.sum()).sum())
    )


def _ordered(interests: Interests, strata: int) -> tuple[Ints, Ints]:
    """Return the cells with subscribers, by stratum, language and region, and their strata."""
    counts = interests.counts
    cells = np.flatnonzero(counts)
    *nodes, region = np.unravel_index(cells, counts.shape)
    depth = np.log(interests.popularity[tuple(nodes)])
    low, high = depth.min(), depth.max()
    stratum = np.minimum((high - depth) / max(high - low, 1e-12) * strata, strata - 1).astype(np.int64)
    order = np.lexsort((*nodes[:-1], region, nodes[-1], stratum))
    return cells[order], stratum[order]


def _slices(ends: Floats, stratum: Ints, total: int) -> _Slices:
    last = np.flatnonzero(np.append(np.diff(stratum), 1))
    end = ends[last]
    begin = np.concatenate([[0.0], end[:-1]])
    rows = quotas(end - begin, total)
    first = np.concatenate([[0], np.cumsum(rows)[:-1]])
    drawn = rows > 0
    return _Slices(first[drawn], begin[drawn], (end - begin)[drawn] / rows[drawn])


def _check(interests: Interests, strata: int) -> None:
    popular = int(np.count_nonzero(interests.popularity))
    if popular == 0:
        raise SummaryError("no subscribers to draw from", table="members", column="count")
    if not 1 <= strata <= popular:
        raise ConfigError("more strata than interests with subscribers", strata=strata, lowest=1, highest=popular)
