"""Interest diffusion: related interests become more alike, and no subscriber is lost.

From the roots down, the counts of the children of an interest are drawn towards their mean until their variance is a
stated part of what it was. Siblings that were alike stay so; the total below every interest follows from the step
above. The step is linear, so regions can be diffused side by side.

Interest generalisation: some subscribers want more than a base interest, such as all sports in any language.

An interest is below another one where each of its nodes is below, or is, the other's. Its parents have one node
replaced by the node above it. Counts rise through this order from the base interests to the root, level by level, each
region for itself.

Categories to ranges: every node of a hierarchy becomes an interval, every interest a rectangle.

A parent's interval holds its children's; siblings are equally long, with gaps as wide as themselves between them. So
nodes that are closer in the hierarchy are closer on the line: where x and y meet below x and z, the gap between x and
y is the smaller one.

>>> from thinwire_lab.workload.interests.hierarchy import Hierarchy
>>> axis = Hierarchy.of("topic", [("all", None), ("a", "all"), ("b", "all"), ("c", "all")])
>>> intervals(axis).round(2).tolist()
[[0.0, 1.0], [0.0, 0.2], [0.4, 0.6], [0.8, 1.0]]

Hot-interest removal: a workload without its few most popular interests.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from math import prod

import numpy as np

from thinwire.errors import ConfigError
from thinwire_lab.workload.interests.hierarchy import Hierarchy
from thinwire_lab.workload.interests.interests import Interests, base_only
from thinwire_lab.workload.random_rows import Floats, Rows, uniforms


def diffuse(interests: Interests, p: float) -> Interests:
    """The variance among the children of every interest is p times what it was.

    p: from 0, all alike, to 1, nothing changes

    >>> axis = Hierarchy.of("topic", [("all", None), ("a", "all"), ("b", "all")])
    >>> before = Interests((axis,), ("here",), np.array([[0.0], [10.0], [30.0]]))
    >>> diffuse(before, 0.25).counts.ravel().tolist()
    [0.0, 15.0, 25.0]
    """
    if not 0.0 <= p <= 1.0:
        raise ConfigError("p must be from 0 to 1", p=p, lowest=0, highest=1)
    base_only(interests)
    cuts = _cuts(interests.axes)
    before = [_summed(interests, cut) for cut in cuts]
    after = before[0]
    for level in range(1, len(cuts)):
        above = [_above(axis, *cut) for axis, cut in zip(interests.axes, _pairs(cuts, level), strict=True)]
        families = _families(above)
        grid = np.ix_(*above)
        mean, was = after[grid] / families, before[level - 1][grid] / families
        after = mean - np.sqrt(p) * (was - before[level])
    counts = np.zeros_like(interests.counts)
    counts[np.ix_(*cuts[-1])] = np.maximum(after, 0.0)  # rounding may leave -1e-18 where exact arithmetic leaves 0
    return interests.changed(counts)


def _cuts(axes: tuple[Hierarchy, ...]) -> list[tuple[Rows, ...]]:
    """Cuts through all hierarchies at once; a shallow one stays at its leaves."""
    fills = [axis.levels[-1] for axis in axes]
    return [
        tuple(fill if cut is None else cut for cut, fill in zip(cuts, fills, strict=True))
        for cuts in zip_longest(*(axis.levels for axis in axes))
    ]


def _pairs(cuts: list[tuple[Rows, ...]], level: int) -> list[tuple[Rows, Rows]]:
    return list(zip(cuts[level - 1], cuts[level], strict=True))


def _summed(interests: Interests, cut: tuple[Rows, ...]) -> Floats:
    """Counts of everything below the nodes of a cut."""
    counts = interests.counts
    for place, (axis, nodes) in enumerate(zip(interests.axes, cut, strict=True)):
        sums = np.zeros((nodes.size, *np.moveaxis(counts, place, 0).shape[1:]))
        inside = _ancestor(axis, nodes)
        np.add.at(sums, inside[inside >= 0], np.moveaxis(counts, place, 0)[inside >= 0])
        counts = np.moveaxis(sums, 0, place)
    return counts


def _ancestor(axis: Hierarchy, nodes: Rows) -> Rows:
    """For every node of a hierarchy the place in a cut of the one it is below, or is; -1 above the cut."""
    place = np.full(len(axis), -1, dtype=np.int64)
    place[nodes] = np.arange(nodes.size)
    for node in np.argsort(axis.depths, kind="stable"):
        if place[node] < 0 and axis.parents[node] >= 0:
            place[node] = place[axis.parents[node]]
    return place


def _above(axis: Hierarchy, upper: Rows, lower: Rows) -> Rows:
    """For every node of a cut its place in the cut above; a leaf that stays is below itself."""
    return _ancestor(axis, upper)[lower]


def _families(above: list[Rows]) -> Floats:
    """For every cell how many there are below the same cell of the cut above."""
    found = np.ones(())
    for places in above:
        found = np.multiply.outer(found, np.bincount(places)[places])
    return np.asarray(found[..., None], dtype=np.float64)


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


def intervals(axis: Hierarchy) -> Floats:
    """The low and the high end of every node's interval; the root's is [0, 1]."""
    ends = np.zeros((len(axis), 2))
    ends[axis.root] = 0.0, 1.0
    seat = np.zeros(len(axis), dtype=np.int64)
    for node in np.argsort(axis.depths, kind="stable"):
        above = axis.parents[node]
        if above < 0:
            continue
        low, high = ends[above]
        length = (high - low) / (2 * axis.fanout[above] - 1)
        begin = low + 2 * length * seat[above]
        seat[above] += 1
        ends[node] = begin, min(begin + length, high)  # rounding must not leave the parent
    return ends


def with_noise(low: Floats, high: Floats, noise: float, seed: int, rows: Rows) -> tuple[Floats, Floats]:
    """Rectangles with two opposite corners moved, each by at most half of `noise` times the side, either way.

    low, high: a row a rectangle, a column a dimension
    noise: 0, nothing moves, to 1; a low corner never passes its high one
    """
    check_noise(noise)
    if noise == 0.0:
        return low, high
    moved = []
    for name, corner in (("low corner", low), ("high corner", high)):
        shift = np.stack([uniforms(seed, name, rows, lane) for lane in range(low.shape[1])], axis=1)
        moved.append(corner + noise * (high - low) * (shift - 0.5))
    return np.minimum(*moved), np.maximum(*moved)


def check_noise(noise: float) -> None:
    """Refuse noise that could turn a rectangle inside out."""
    if not 0.0 <= noise <= 1.0:
        raise ConfigError("noise must be from 0 to 1", noise=noise, lowest=0, highest=1)


def remove_hot(interests: Interests, top: int) -> Interests:
    """The interests without the `top` most popular ones; of equals the first in the table goes first."""
    counts = interests.counts.copy()
    counts.reshape(-1, counts.shape[-1])[hottest(interests, top)] = 0.0
    return interests.changed(counts)


def hottest(interests: Interests, top: int) -> Rows:
    """The most popular interests, the first one first, as places in the counts with all hierarchies made one axis."""
    popularity = interests.popularity.ravel()
    there = int(np.count_nonzero(popularity))
    if not 0 <= top < max(there, 1):
        raise ConfigError("remove fewer interests than there are", remove_hot=top, interests=there)
    return np.argsort(-popularity, kind="stable")[:top].astype(np.int64)
