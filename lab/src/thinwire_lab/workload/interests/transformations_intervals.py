"""Categories to ranges: every node of a hierarchy becomes an interval, every interest a rectangle.

A parent's interval holds its children's; siblings are equally long, with gaps as wide as themselves between them. So
nodes that are closer in the hierarchy are closer on the line: where x and y meet below x and z, the gap between x and
y is the smaller one.

>>> from thinwire_lab.workload.interests.hierarchy import Hierarchy
>>> axis = Hierarchy.of("topic", [("all", None), ("a", "all"), ("b", "all"), ("c", "all")])
>>> intervals(axis).round(2).tolist()
[[0.0, 1.0], [0.0, 0.2], [0.4, 0.6], [0.8, 1.0]]
"""

from __future__ import annotations

import numpy as np

from thinwire.errors import ConfigError
from thinwire_lab.workload.interests.hierarchy import Hierarchy
from thinwire_lab.workload.random_rows_randomness import Floats, Rows, uniforms


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
