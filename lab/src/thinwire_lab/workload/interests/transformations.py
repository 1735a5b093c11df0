"""Interest diffusion: related interests become more alike, and no subscriber is lost.

From the roots down, the counts of the children of an interest are drawn towards their mean until their variance is a
stated part of what it was. Siblings that were alike stay so; the total below every interest follows from the step
above. The step is linear, so regions can be diffused side by side.
"""

from __future__ import annotations

from itertools import zip_longest

import numpy as np

from thinwire.errors import ConfigError
from thinwire_lab.workload.interests.hierarchy import Hierarchy
from thinwire_lab.workload.interests.interests import Interests, base_only
from thinwire_lab.workload.random_rows_randomness import Floats, Rows


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
