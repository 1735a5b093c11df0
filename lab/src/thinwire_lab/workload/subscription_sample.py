"""A given number of subscriptions from counts of any size.

Plain sampling draws every subscription by itself and misses rare interests when it draws few. Stratified sampling puts
interests of similar popularity into one stratum and gives each stratum its due. Within a stratum the draws are spread
evenly: the i-th falls into the i-th of equal stretches, so what is popular enough for a stretch is never missed, and
what stands side by side (a language, a region in it) gets its due too.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from thinwire.errors import ConfigError
from thinwire_lab.errors import SummaryError
from thinwire_lab.workload.interests.interests import Interests
from thinwire_lab.workload.random_rows import Floats, Rows, fallen, quotas, uniforms

Sampling = Literal["stratified", "plain"]
MAX_ROWS = 10**12


class SubscriptionSampler:
    """Says of every row which interest and which region it is.

    total: how many rows there are
    strata: how many classes of popularity; 1 puts everything into one
    """

    def __init__(self, interests: Interests, total: int, seed: int, *, strata: int = 10, plain: bool = False) -> None:
        _check(interests, total, strata)
        self.seed = seed
        order, stratum = _ordered(interests, 1 if plain else strata)
        self._cells = order
        self._ends = np.cumsum(interests.counts.ravel()[order])
        self._plain = plain
        self._slices = _slices(self._ends, stratum, total)
        self._shape = interests.counts.shape

    def draw(self, rows: Rows) -> tuple[Rows, ...]:
        """Of each row the node on every axis, and the region."""
        chance = uniforms(self.seed, "subscription", rows)
        if self._plain:
            at = chance * self._ends[-1]
        else:
            cut = self._slices
            place = np.searchsorted(cut.first, rows, side="right") - 1
            at = cut.begin[place] + (rows - cut.first[place] + chance) * cut.stride[place]
        cells = self._cells[fallen(self._ends, at)]
        return tuple(axis.astype(np.int64) for axis in np.unravel_index(cells, self._shape))


class _Slices(NamedTuple):
    """Of each stratum that is drawn from: its first row, where it begins among the counts, how far a row reaches."""

    first: Rows
    begin: Floats
    stride: Floats


class Missed(NamedTuple):
    """Interests that have subscribers and are in none of the rows drawn.

    popular: the most popular of them, as places in the counts with all hierarchies made one axis
    plain: how many plain sampling would miss, to be expected
    """

    interests: int
    popular: list[int]
    plain: float


def missed(interests: Interests, drawn: Interests, most: int = 10) -> Missed:
    """What is missing in `drawn`, the counts of the rows drawn from these interests."""
    popularity, seen = interests.popularity.ravel(), drawn.popularity.ravel()
    lost = np.flatnonzero((popularity > 0) & (seen == 0))
    order = lost[np.argsort(-popularity[lost], kind="stable")]
    shares = popularity[popularity > 0] / popularity.sum()
    return Missed(lost.size, order[:most].tolist(), float(((1.0 - shares) ** seen.sum()).sum()))


def tallied(interests: Interests, drawn: tuple[Rows, ...]) -> Interests:
    """The counts of the rows drawn."""
    shape = interests.counts.shape
    flat = np.bincount(np.ravel_multi_index(drawn, shape), minlength=interests.counts.size)
    return interests.changed(flat.reshape(shape).astype(np.float64))


def _ordered(interests: Interests, strata: int) -> tuple[Rows, Rows]:
    """Cells with subscribers, by stratum, then language by language and region by region; and their strata."""
    counts = interests.counts
    cells = np.flatnonzero(counts)
    *nodes, region = np.unravel_index(cells, counts.shape)
    depth = np.log(interests.popularity[tuple(nodes)])
    low, high = depth.min(), depth.max()
    stratum = np.minimum((high - depth) / max(high - low, 1e-12) * strata, strata - 1).astype(np.int64)
    order = np.lexsort((*nodes[:-1], region, nodes[-1], stratum))
    return cells[order], stratum[order]


def _slices(ends: Floats, stratum: Rows, total: int) -> _Slices:
    last = np.flatnonzero(np.append(np.diff(stratum), 1))
    until = ends[last]
    begin = np.concatenate([[0.0], until[:-1]])
    due = quotas(until - begin, total)
    first = np.concatenate([[0], np.cumsum(due)[:-1]])
    drawn = due > 0
    return _Slices(first[drawn], begin[drawn], (until - begin)[drawn] / due[drawn])


def _check(interests: Interests, total: int, strata: int) -> None:
    there = int(np.count_nonzero(interests.popularity))
    if there == 0:
        raise SummaryError("there are no subscribers to draw from", table="members", column="count")
    if not 0 <= total <= MAX_ROWS:
        raise ConfigError("outside its limits", subscriptions=total, lowest=0, highest=MAX_ROWS)
    if not 1 <= strata <= there:
        raise ConfigError("more strata than interests with subscribers", strata=strata, lowest=1, highest=there)
