"""How many subscribers each region has for each interest: what the steps of a generator pass on to each other.

An interest is a node of every hierarchy, such as (soccer, Spanish); it is a base interest where all of them are atomic.
Counts stand in an array with one axis for each hierarchy and a last one for the regions.

How much an interest tells about the place of a subscriber: the reason why workloads are drawn from summaries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Self

import numpy as np
import pyarrow as pa

from thinwire_lab.errors import SummaryError
from thinwire_lab.workload.interests.hierarchy import Hierarchy, numbers, places, texts
from thinwire_lab.workload.random_rows import Floats, Rows

MAX_CELLS = 50_000_000
"""cells of an array of counts: 400 MB"""


@dataclass(frozen=True)
class Interests:
    """Counts of subscribers by interest and region.

    axes: the hierarchies, one for each dimension of the event space
    counts: a number for each combination of nodes and each region
    """

    axes: tuple[Hierarchy, ...]
    regions: tuple[str, ...]
    counts: Floats

    @classmethod
    def read(cls, table: pa.Table, axes: Sequence[Hierarchy], regions: Sequence[str], of: str = "members") -> Self:
        """The counts in a table with a column for each hierarchy, a region and a count; equal rows add up."""
        shape = checked_shape(axes, len(regions), of)
        known = {region: place for place, region in enumerate(regions)}
        columns = [places(texts(table, axis.name, of), axis.places, axis.name, of, f"{axis.name}s") for axis in axes]
        columns.append(places(texts(table, "region", of), known, "region", of, "nodes"))
        weights = numbers(table, "count", of, lowest=0.0)
        flat = np.ravel_multi_index(tuple(columns), shape)
        counts = np.bincount(flat, weights=weights, minlength=prod(shape)).astype(np.float64)
        return cls(tuple(axes), tuple(regions), counts.reshape(shape))

    def table(self) -> pa.Table:
        """The counts that are not zero, a row each."""
        *nodes, regions = found = np.nonzero(self.counts)
        columns = {
            axis.name: pa.array([axis.ids[node] for node in places])
            for axis, places in zip(self.axes, nodes, strict=True)
        }
        columns["region"] = pa.array([self.regions[region] for region in regions], pa.string())
        return pa.table({**columns, "count": self.counts[found]})

    def changed(self, counts: Floats) -> Interests:
        """The same hierarchies and regions with other counts."""
        return Interests(self.axes, self.regions, counts)

    @property
    def popularity(self) -> Floats:
        """How many subscribers an interest has in all regions."""
        return np.asarray(self.counts.sum(axis=-1))

    @property
    def mix(self) -> Floats:
        """The share of each region."""
        totals = self.counts.reshape(-1, len(self.regions)).sum(axis=0)
        return np.asarray(totals / max(totals.sum(), np.finfo(float).tiny))

    def base(self) -> tuple[Rows, ...]:
        """The base interests, to index counts with: `counts[base]` has atomic nodes only."""
        return np.ix_(*(axis.leaves for axis in self.axes))


def base_only(interests: Interests) -> None:
    """Refuse counts of interests that are not atomic: the steps make those themselves."""
    inside = float(interests.counts[interests.base()].sum())
    if not np.isclose(inside, float(interests.counts.sum()), rtol=1e-12):
        raise SummaryError("diffuse base interests, before they are generalised", table="members")


def checked_shape(axes: Sequence[Hierarchy], regions: int, of: str) -> tuple[int, ...]:
    """The shape of an array of counts; one that memory could not hold is refused before it is made."""
    shape = (*(len(axis) for axis in axes), regions)
    cells = prod(shape)
    if cells > MAX_CELLS:
        detail = "too many combinations of nodes: leave out a hierarchy, or join nodes"
        raise SummaryError(detail, table=of, cells=cells, limit=MAX_CELLS, shape=shape)
    return shape


def mutual_information(joint: Floats) -> float:
    """What two things tell about each other, in bits, given how often they come together.

    >>> mutual_information(np.array([[5.0, 0.0], [0.0, 5.0]])), mutual_information(np.ones((2, 3)))
    (1.0, 0.0)
    """
    total = joint.sum()
    if total <= 0:
        return 0.0
    share = joint / total
    alone = share.sum(axis=1, keepdims=True) * share.sum(axis=0, keepdims=True)
    there = share > 0
    return float(max(np.sum(share[there] * np.log2(share[there] / alone[there])), 0.0))


def correlations(interests: Interests) -> dict[str, float]:
    """For every hierarchy the bits that its nodes tell about the region."""
    found = {}
    for place, axis in enumerate(interests.axes):
        others = tuple(other for other in range(len(interests.axes)) if other != place)
        found[axis.name] = mutual_information(interests.counts.sum(axis=others))
    return found
