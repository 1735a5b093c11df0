"""How much an interest tells about the place of a subscriber: the reason why workloads are drawn from summaries."""

from __future__ import annotations

import numpy as np

from thinwire_lab.workload.interests.interests import Interests
from thinwire_lab.workload.random_rows_randomness import Floats


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
