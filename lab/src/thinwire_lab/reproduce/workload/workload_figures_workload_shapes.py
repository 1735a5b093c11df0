"""Numbers for the shapes of the workload paper's figures."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from thinwire_lab.workload.interests.hierarchy import Hierarchy
from thinwire_lab.workload.interests.interests import Interests
from thinwire_lab.workload.interests.transformations_removal import remove_hot
from thinwire_lab.workload.random_rows_randomness import Floats
from thinwire_lab.workload.workload_pictures_pictures import region_shares


class Shape(NamedTuple):
    """A figure in numbers.

    said: what they say, in a line; holds: is it what the paper says?
    """

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    said: str
    holds: bool


def effective(members: Interests) -> Floats:
    """How many equally popular interests would be as varied as those of each region (2 to the entropy).

    >>> axis = Hierarchy.of("topic", [("all", None), ("a", "all"), ("b", "all")])
    >>> effective(Interests((axis,), ("x", "y"), np.array([[0.0, 0], [5, 9], [5, 0]]))).tolist()
    [2.0, 1.0]
    """
    counts = members.counts.reshape(-1, len(members.regions))
    shares = counts / np.maximum(counts.sum(axis=0), 1e-300)
    logs = np.log2(shares, out=np.zeros_like(shares), where=shares > 0)
    return np.asarray(2.0 ** -(shares * logs).sum(axis=0))


def majorities(members: Interests, axis: Hierarchy) -> list[int]:
    """Of each region the number of atomic nodes most of whose subscribers are there."""
    shares = region_shares(members, axis)
    return [int((shares[:, region] > 0.5).sum()) for region in range(len(members.regions))]


def spread_of(members: Interests, axis: Hierarchy) -> float:
    """How far the shares of regions differ between the atomic nodes of an axis: standard deviation, mean of regions."""
    return float(region_shares(members, axis).std(axis=0).mean())


def removal(members: Interests, top: int) -> tuple[float, ...]:
    """Millions of members left, and the shares of the regions, without the most popular interests."""
    left = remove_hot(members, top)
    return float(left.counts.sum() / 1e6), *left.mix.tolist()
