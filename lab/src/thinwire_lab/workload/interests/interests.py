"""Counts of subscribers by interest and region, and the mutual information of interests and regions.

An interest is a combination of one node of each hierarchy, such as (soccer, Spanish). It is a base interest if all
nodes are atomic. Counts are an array with one axis per hierarchy and a last axis of regions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Self

import numpy as np
import pyarrow as pa

from thinwire_lab.errors import SummaryError
from thinwire_lab.workload.interests.hierarchy import Hierarchy, lookup_rows, number_column, text_column
from thinwire_lab.workload.random_rows import Floats, Ints

MAX_CELLS = 50_000_000
"""cells of an array of counts: 400 MB"""


@dataclass(frozen=True)
class Interests:
    """Counts of subscribers by interest and region.

    axes: hierarchies, one per dimension of the event space
    counts: one number per combination of nodes and region
    """

    axes: tuple[Hierarchy, ...]
    regions: tuple[str, ...]
    counts: Floats

    @classmethod
    def read(cls, table: pa.Table, axes: Sequence[Hierarchy], regions: Sequence[str], of: str = "members") -> Self:
        """Return the counts of a table with a column per hierarchy, `region` and `count`. Counts of equal rows are
        added."""
        shape = count_shape(axes, len(regions), of)
        known = {region: index for index, region in enumerate(regions)}
        columns = [axis.read_nodes(table, of) for axis in axes]
        columns.append(lookup_rows(text_column(table, "region", of), known, "region", of, "nodes"))
        weights = number_column(table, "count", of, lowest=0.0)
        flat = np.ravel_multi_index(tuple(columns), shape)
        counts = np.bincount(flat, weights=weights, minlength=prod(shape)).astype(np.float64)
        return cls(tuple(axes), tuple(regions), counts.reshape(shape))

    def table(self) -> pa.Table:
        """Return a table with the counts above zero, one row each."""
        *nodes, regions = cells = np.nonzero(self.counts)
        columns = {
            axis.name: pa.array([axis.ids[node] for node in values])
            for axis, values in zip(self.axes, nodes, strict=True)
        }
        columns["region"] = pa.array([self.regions[region] for region in regions], pa.string())
        return pa.table({**columns, "count": self.counts[cells]})

    def with_counts(self, counts: Floats) -> Interests:
        """Return interests of the same hierarchies and regions with other counts."""
        return Interests(self.axes, self.regions, counts)

    @property
    def popularity(self) -> Floats:
        """Number of subscribers of each interest in all regions."""
        return np.asarray(self.counts.sum(axis=-1))

    @property
    def mix(self) -> Floats:
        """Share of each region."""
        totals = self.counts.reshape(-1, len(self.regions)).sum(axis=0)
        return np.asarray(totals / max(totals.sum(), np.finfo(float).tiny))

    def base(self) -> tuple[Ints, ...]:
        """Return an index of the base interests: `counts[base]` has atomic nodes only."""
        return np.ix_(*(axis.leaves for axis in self.axes))


def check_base_only(interests: Interests) -> None:
    """Raise an error if interests that are not atomic have counts."""
    inside = float(interests.counts[interests.base()].sum())
    if not np.isclose(inside, float(interests.counts.sum()), rtol=1e-12):
        raise SummaryError("only base interests can be diffused; diffuse before generalising", table="members")


def count_shape(axes: Sequence[Hierarchy], regions: int, of: str) -> tuple[int, ...]:
    """Return the shape of an array of counts. Raise an error if it is too large."""
    shape = (*(len(axis) for axis in axes), regions)
    cells = prod(shape)
    if cells > MAX_CELLS:
        detail = "too many combinations of nodes; remove a hierarchy or merge nodes"
        raise SummaryError(detail, table=of, cells=cells, limit=MAX_CELLS, shape=shape)
    return shape


def mutual_information(joint: Floats) -> float:
    """Return the mutual information of two variables in bits, from the counts of their combinations.

    >>> mutual_information(np.array([[5.0, 0.0], [0.0, 5.0]])), mutual_information(np.ones((2, 3)))
    (1.0, 0.0)
    """
    total = joint.sum()
    if total <= 0:
        return 0.0
    share = joint / total
    independent = share.sum(axis=1, keepdims=True) * share.sum(axis=0, keepdims=True)
    used = share > 0
    return float(max(np.sum(share[used] * np.log2(share[used] / independent[used])), 0.0))


def correlations(interests: Interests) -> dict[str, float]:
    """Return the mutual information of each hierarchy and the region, in bits."""
    information = {}
    for index, axis in enumerate(interests.axes):
        others = tuple(other for other in range(len(interests.axes)) if other != index)
        information[axis.name] = mutual_information(interests.counts.sum(axis=others))
    return information
