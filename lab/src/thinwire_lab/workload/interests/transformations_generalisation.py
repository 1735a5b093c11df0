"""Interest generalisation: some subscribers want more than a base interest, such as all sports in any language.

An interest is below another one where each of its nodes is below, or is, the other's. Its parents have one node
replaced by the node above it. Counts rise through this order from the base interests to the root, level by level, each
region for itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from thinwire.errors import ConfigError
from thinwire_lab.workload.interests.interests import Interests
from thinwire_lab.workload.random_rows_randomness import Floats, Rows


def raise_share(interests: Interests, fraction: float) -> Interests:
    """Of every interest a fraction of its subscribers meant a parent; several parents share them equally.

    No subscriber is lost.

    >>> from thinwire_lab.workload.interests.hierarchy import Hierarchy
    >>> axis = Hierarchy.of("topic", [("all", None), ("a", "all"), ("b", "all")])
    >>> before = Interests((axis,), ("here",), np.array([[0.0], [10.0], [30.0]]))
    >>> raise_share(before, 0.1).counts.ravel().tolist()
    [4.0, 9.0, 27.0]
    """
    _check(fraction)
    order = _Order(interests)
    counts = order.flat(interests)
    for cells in order.levels():
        rising = fraction * counts[cells]
        counts[cells] -= rising
        for children, parents in order.climbs(cells):
            np.add.at(counts, parents, rising[children] / order.parents[cells[children], None])
    return interests.changed(counts.reshape(interests.counts.shape))


def raise_shared(interests: Interests, fraction: float) -> Interests:
    """An interest is given what all of its children have in common, and they lose it.

    What they have in common is the least of their counts, each divided by its number of parents; the interest takes a
    fraction of that. A subscriber of the parent stands for one of each child, so the total falls by one less than the
    number of children for each subscriber raised. Nothing becomes negative.

    >>> from thinwire_lab.workload.interests.hierarchy import Hierarchy
    >>> axis = Hierarchy.of("topic", [("all", None), ("a", "all"), ("b", "all")])
    >>> before = Interests((axis,), ("here",), np.array([[0.0], [10.0], [30.0]]))
    >>> raise_shared(before, 0.5).counts.ravel().tolist()
    [5.0, 5.0, 25.0]
    """
    _check(fraction)
    order = _Order(interests)
    counts = order.flat(interests)
    for cells in order.levels():
        least = np.full_like(counts, np.inf)
        for children, parents in order.climbs(cells):
            below = cells[children]
            np.minimum.at(least, parents, counts[below] / order.parents[below, None])
        risen = fraction * np.where(np.isfinite(least), least, 0.0)
        lost = np.zeros((cells.size, counts.shape[1]))
        for children, parents in order.climbs(cells):
            np.add.at(lost, children, risen[parents])
        counts += risen
        counts[cells] = np.maximum(counts[cells] - lost, 0.0)
    return interests.changed(counts.reshape(interests.counts.shape))


class _Order:
    """The order of interests, each the number of its cell."""

    def __init__(self, interests: Interests) -> None:
        self.axes = interests.axes
        self.shape = tuple(len(axis) for axis in self.axes)
        grids = np.indices(self.shape).reshape(len(self.axes), -1)
        self.nodes = grids
        self.depths: Rows = np.zeros(grids.shape[1], dtype=np.int64)
        self.parents: Rows = np.zeros(grids.shape[1], dtype=np.int64)
        for axis, at in zip(self.axes, grids, strict=True):
            self.depths += axis.depths[at]
            self.parents += axis.parents[at] >= 0

    def flat(self, interests: Interests) -> Floats:
        """A copy of the counts, a row an interest."""
        return interests.counts.reshape(prod(self.shape), -1).copy()

    def levels(self) -> Iterator[Rows]:
        """The interests of each level from the deepest up; the root, which has no parent, is left out."""
        for depth in range(int(self.depths.max()), 0, -1):
            yield np.flatnonzero(self.depths == depth)

    def climbs(self, cells: Rows) -> Iterator[tuple[Rows, Rows]]:
        """By each axis: which of these interests have a parent there, and which interest that is."""
        stride = prod(self.shape)
        for axis, at in zip(self.axes, self.nodes, strict=True):
            stride //= len(axis)
            nodes = at[cells]
            children = np.flatnonzero(axis.parents[nodes] >= 0)
            steps = axis.parents[nodes[children]] - nodes[children]
            yield children, cells[children] + steps * stride


def _check(fraction: float) -> None:
    if not 0.0 <= fraction <= 1.0:
        raise ConfigError("a fraction must be from 0 to 1", fraction=fraction, lowest=0, highest=1)
