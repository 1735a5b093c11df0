"""Transformations of interests: diffusion, generalisation, removal of popular interests, and rectangles.

Diffusion makes related interests more similar. From the roots down, the counts of the children of an interest are moved
towards their mean until their variance is a given part of the original one. Totals of all interests are kept. The step
is linear, so regions can be diffused independently.

Generalisation moves subscribers from base interests to broader ones, such as all sports in any language. An interest is
below another if each of its nodes is equal to, or a descendant of, the node of the other. The parents of an interest
have one node replaced by its parent. Counts rise in this order from the base interests to the root, level by level and
independently for each region.

Each node of a hierarchy becomes an interval, and each interest a rectangle. The interval of a parent contains those of
its children, which have equal lengths and gaps of the same length. Nodes that are closer in the hierarchy are therefore
closer on the line.

>>> from thinwire_lab.workload.interests.hierarchy import Hierarchy
>>> axis = Hierarchy.of("topic", [("all", None), ("a", "all"), ("b", "all"), ("c", "all")])
>>> intervals(axis).round(2).tolist()
[[0.0, 1.0], [0.0, 0.2], [0.4, 0.6], [0.8, 1.0]]
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from math import prod

import numpy as np

from thinwire.errors import ConfigError
from thinwire_lab.workload.interests.hierarchy import Hierarchy
from thinwire_lab.workload.interests.interests import Interests, check_base_only
from thinwire_lab.workload.random_rows import Floats, Ints, uniforms


def diffuse(interests: Interests, p: float) -> Interests:
    """Return interests in which the variance among the children of each interest is p times the original one.

    p: from 0 (all equal) to 1 (no change)

    >>> axis = Hierarchy.of("topic", [("all", None), ("a", "all"), ("b", "all")])
    >>> before = Interests((axis,), ("here",), np.array([[0.0], [10.0], [30.0]]))
    >>> diffuse(before, 0.25).counts.ravel().tolist()
    [0.0, 15.0, 25.0]
    """
    if not 0.0 <= p <= 1.0:
        raise ConfigError("p must be from 0 to 1", p=p, lowest=0, highest=1)
    check_base_only(interests)
    cuts = _cuts(interests.axes)
    before = [_summed(interests, cut) for cut in cuts]
    after = before[0]
    for level in range(1, len(cuts)):
        upper = [_above(axis, *cut) for axis, cut in zip(interests.axes, _pairs(cuts, level), strict=True)]
        families = _families(upper)
        grid = np.ix_(*upper)
        mean, mean_before = after[grid] / families, before[level - 1][grid] / families
        after = mean - np.sqrt(p) * (mean_before - before[level])
    counts = np.zeros_like(interests.counts)
    counts[np.ix_(*cuts[-1])] = np.maximum(after, 0.0)  # rounding may give -1e-18 instead of 0
    return interests.with_counts(counts)


def _cuts(axes: tuple[Hierarchy, ...]) -> list[tuple[Ints, ...]]:
    """Return cuts through all hierarchies; shallow hierarchies stay at their leaves."""
    fills = [axis.levels[-1] for axis in axes]
    return [
        tuple(fill if cut is None else cut for cut, fill in zip(cuts, fills, strict=True))
        for cuts in zip_longest(*(axis.levels for axis in axes))
    ]


def _pairs(cuts: list[tuple[Ints, ...]], level: int) -> list[tuple[Ints, Ints]]:
    return list(zip(cuts[level - 1], cuts[level], strict=True))


def _summed(interests: Interests, cut: tuple[Ints, ...]) -> Floats:
    """Return the counts of all nodes below the nodes of a cut."""
    counts = interests.counts
    for index, (axis, nodes) in enumerate(zip(interests.axes, cut, strict=True)):
        sums = np.zeros((nodes.size, *np.moveaxis(counts, index, 0).shape[1:]))
        cells = _ancestor(axis, nodes)
        np.add.at(sums, cells[cells >= 0], np.moveaxis(counts, index, 0)[cells >= 0])
        counts = np.moveaxis(sums, 0, index)
    return counts


def _ancestor(axis: Hierarchy, nodes: Ints) -> Ints:
    """Return for each node of a hierarchy the index in a cut of its ancestor or of itself; -1 above the cut."""
    index = np.full(len(axis), -1, dtype=np.int64)
    index[nodes] = np.arange(nodes.size)
    for node in np.argsort(axis.depths, kind="stable"):
        if index[node] < 0 and axis.parents[node] >= 0:
            index[node] = index[axis.parents[node]]
    return index


def _above(axis: Hierarchy, upper: Ints, lower: Ints) -> Ints:
    """Return for each node of a cut its index in the cut above; a leaf may be in both."""
    return _ancestor(axis, upper)[lower]


def _families(upper: list[Ints]) -> Floats:
    """Return for each cell the number of cells below the same cell of the cut above."""
    sizes = np.ones(())
    for cells in upper:
        sizes = np.multiply.outer(sizes, np.bincount(cells)[cells])
    return np.asarray(sizes[..., None], dtype=np.float64)


def raise_share(interests: Interests, fraction: float) -> Interests:
    """Move a fraction of the subscribers of each interest to its parents, in equal parts. Totals are kept.

    >>> from thinwire_lab.workload.interests.hierarchy import Hierarchy
    >>> axis = Hierarchy.of("topic", [("all", None), ("a", "all"), ("b", "all")])
    >>> before = Interests((axis,), ("here",), np.array([[0.0], [10.0], [30.0]]))
    >>> raise_share(before, 0.1).counts.ravel().tolist()
    [4.0, 9.0, 27.0]
    """
    _check(fraction)
    order = InterestOrder(interests)
    counts = order.flat_counts(interests)
    for cells in order.levels():
        rising = fraction * counts[cells]
        counts[cells] -= rising
        for children, parents in order.steps_up(cells):
            np.add.at(counts, parents, rising[children] / order.parents[cells[children], None])
    return interests.with_counts(counts.reshape(interests.counts.shape))


def raise_shared(interests: Interests, fraction: float) -> Interests:
    """Move subscribers that all children of an interest have in common to the interest.

    The common number is the minimum of the counts of the children, each divided by its number of parents. The interest
    receives a fraction of it and each child loses the same number, so that the total falls for interests with several
    children. Counts do not become negative.

    >>> from thinwire_lab.workload.interests.hierarchy import Hierarchy
    >>> axis = Hierarchy.of("topic", [("all", None), ("a", "all"), ("b", "all")])
    >>> before = Interests((axis,), ("here",), np.array([[0.0], [10.0], [30.0]]))
    >>> raise_shared(before, 0.5).counts.ravel().tolist()
    [5.0, 5.0, 25.0]
    """
    _check(fraction)
    order = InterestOrder(interests)
    counts = order.flat_counts(interests)
    for cells in order.levels():
        least = np.full_like(counts, np.inf)
        for children, parents in order.steps_up(cells):
            child_cells = cells[children]
            np.minimum.at(least, parents, counts[child_cells] / order.parents[child_cells, None])
        raised = fraction * np.where(np.isfinite(least), least, 0.0)
        lost = np.zeros((cells.size, counts.shape[1]))
        for children, parents in order.steps_up(cells):
            np.add.at(lost, children, raised[parents])
        counts += raised
        counts[cells] = np.maximum(counts[cells] - lost, 0.0)
    return interests.with_counts(counts.reshape(interests.counts.shape))


class InterestOrder:
    """Partial order of interests, which are numbered by cell."""

    def __init__(self, interests: Interests) -> None:
        self.axes = interests.axes
        self.shape = tuple(len(axis) for axis in self.axes)
        grids = np.indices(self.shape).reshape(len(self.axes), -1)
        self.nodes = grids
        self.depths: Ints = np.zeros(grids.shape[1], dtype=np.int64)
        self.parents: Ints = np.zeros(grids.shape[1], dtype=np.int64)
        for axis, nodes in zip(self.axes, grids, strict=True):
            self.depths += axis.depths[nodes]
            self.parents += axis.parents[nodes] >= 0

    def flat_counts(self, interests: Interests) -> Floats:
        """Return a copy of the counts, one row per interest."""
        return interests.counts.reshape(prod(self.shape), -1).copy()

    def levels(self) -> Iterator[Ints]:
        """Yield the interests of each level from the deepest up, without the root."""
        for depth in range(int(self.depths.max()), 0, -1):
            yield np.flatnonzero(self.depths == depth)

    def steps_up(self, cells: Ints) -> Iterator[tuple[Ints, Ints]]:
        """Yield for each axis the indexes of interests with a parent on it, and these parents."""
        stride = prod(self.shape)
        for axis, nodes in zip(self.axes, self.nodes[:, cells], strict=True):
            stride //= len(axis)
            children = np.flatnonzero(axis.parents[nodes] >= 0)
            steps = axis.parents[nodes[children]] - nodes[children]
            yield children, cells[children] + steps * stride


def _check(fraction: float) -> None:
    if not 0.0 <= fraction <= 1.0:
        raise ConfigError("a fraction must be from 0 to 1", fraction=fraction, lowest=0, highest=1)


def intervals(axis: Hierarchy) -> Floats:
    """Return the low and the high end of the interval of each node; that of the root is [0, 1]."""
    ends = np.zeros((len(axis), 2))
    ends[axis.root] = 0.0, 1.0
    children = np.zeros(len(axis), dtype=np.int64)
    for node in np.argsort(axis.depths, kind="stable"):
        parent = axis.parents[node]
        if parent < 0:
            continue
        low, high = ends[parent]
        length = (high - low) / (2 * axis.fanout[parent] - 1)
        start = low + 2 * length * children[parent]
        children[parent] += 1
        ends[node] = start, min(start + length, high)  # limits rounding errors to the parent
    return ends


def with_noise(low: Floats, high: Floats, noise: float, seed: int, rows: Ints) -> tuple[Floats, Floats]:
    """Return rectangles with two opposite corners moved, each by at most half of `noise` times the side.

    low, high: one row per rectangle, one column per dimension
    noise: from 0 (no change) to 1
    """
    if noise == 0.0:
        return low, high
    corners = []
    for name, corner in (("low corner", low), ("high corner", high)):
        shift = np.stack([uniforms(seed, name, rows, dimension) for dimension in range(low.shape[1])], axis=1)
        corners.append(corner + noise * (high - low) * (shift - 0.5))
    return np.minimum(*corners), np.maximum(*corners)


def remove_hot(interests: Interests, top: int) -> Interests:
    """Return the interests without the `top` most popular ones."""
    counts = interests.counts.copy()
    counts.reshape(-1, counts.shape[-1])[hottest(interests, top)] = 0.0
    return interests.with_counts(counts)


def hottest(interests: Interests, top: int) -> Ints:
    """Return the most popular interests in descending order, as indexes of the flattened popularity array."""
    popularity = interests.popularity.ravel()
    popular = int(np.count_nonzero(popularity))
    if not 0 <= top < max(popular, 1):
        raise ConfigError(
            "too many interests to remove; remove fewer interests than exist", remove_hot=top, interests=popular
        )
    return np.argsort(-popularity, kind="stable")[:top].astype(np.int64)
