"""Places for subscribers: points in the part of the network that their region takes up."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from thinwire.errors import ConfigError
from thinwire_lab.workload.places.network_nodes_nodes import Nodes
from thinwire_lab.workload.random_rows_randomness import Floats, Rows, normals, uniforms

Way = Literal["near", "box", "hull"]
"""near: about a node of the region; box: anywhere in the box of its nodes; hull: between some of its nodes"""


class Locations:
    """Draws a point for every subscriber.

    spread: for `near`, how far from its node a point is in each direction (standard deviation), in milliseconds
    """

    def __init__(self, nodes: Nodes, way: Way = "near", spread: float = 2.0) -> None:
        check_way(way, spread)
        self.way = way
        self.spread = spread
        self.dimensions = nodes.dimensions
        self._points = [nodes.within(region) for region in range(len(nodes.regions))]

    def draw(self, seed: int, rows: Rows, region: Rows, purpose: str = "place") -> Floats:
        """A point for each row, in the region of the row."""
        found = np.empty((rows.size, self.dimensions))
        for number, points in enumerate(self._points):
            here = np.flatnonzero(region == number)
            if here.size:
                found[here] = self._within(points, seed, rows[here], purpose)
        return found

    def _within(self, points: Floats, seed: int, rows: Rows, purpose: str) -> Floats:
        if self.way == "near":
            node = _picked(uniforms(seed, f"{purpose}: node", rows), len(points))
            return np.asarray(points[node] + self.spread * normals(seed, f"{purpose}: step", rows, self.dimensions))
        if self.way == "box":
            low, high = points.min(axis=0), points.max(axis=0)
            lanes = [uniforms(seed, f"{purpose}: box", rows, lane) for lane in range(self.dimensions)]
            return np.asarray(low + (high - low) * np.stack(lanes, axis=1))
        return self._between(points, seed, rows, purpose)

    def _between(self, points: Floats, seed: int, rows: Rows, purpose: str) -> Floats:
        """Evenly within the simplex of some nodes drawn at random, so always inside the hull of all of them."""
        found, total = np.zeros((rows.size, self.dimensions)), np.zeros(rows.size)
        for corner in range(self.dimensions + 1):
            node = _picked(uniforms(seed, f"{purpose}: corner", rows, corner), len(points))
            weight = -np.log1p(-uniforms(seed, f"{purpose}: weight", rows, corner))
            found += weight[:, None] * points[node]
            total += weight
        return found / np.maximum(total, np.finfo(float).tiny)[:, None]


def check_way(way: str, spread: float) -> None:
    """Refuse what no point can be drawn by."""
    if way not in get_args(Way):
        raise ConfigError("no such way to place subscribers", location=way, known=list(get_args(Way)))
    if not 0.0 <= spread < 1e6:
        raise ConfigError("a spread is a number of milliseconds, 0 or more", spread=spread)


def _picked(at: Floats, count: int) -> Rows:
    return np.minimum((at * count).astype(np.int64), count - 1)
