"""Brokers: nodes of the network, in each region as many as its subscriptions ask for.

Nodes of a network: a region and a point each; the distance of two points stands for the latency between them.

Places for subscribers: points in the part of the network that their region takes up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self, get_args

import numpy as np
import pyarrow as pa

from thinwire.errors import ConfigError
from thinwire_lab.errors import SummaryError
from thinwire_lab.workload.interests.hierarchy import numbers, texts
from thinwire_lab.workload.random_rows import Floats, Rows, normals, quotas, uniforms

MAX_DIMENSIONS = 64


@dataclass(frozen=True)
class Nodes:
    """Where machines are.

    region: of each node, the number of its region
    points: of each node, a row of coordinates, in milliseconds
    """

    regions: tuple[str, ...]
    region: Rows
    points: Floats

    @classmethod
    def read(cls, table: pa.Table, of: str = "nodes") -> Self:
        """The nodes in a table: a column `region`, every other column a coordinate."""
        names = [str(name) for name in texts(table, "region", of)]
        if not names:
            raise SummaryError("a network needs at least one node", table=of)
        coordinates = [name for name in table.column_names if name != "region"]
        if not 1 <= len(coordinates) <= MAX_DIMENSIONS:
            detail = f"nodes need 1 to {MAX_DIMENSIONS} columns of coordinates beside the region"
            raise SummaryError(detail, table=of, columns=len(coordinates))
        regions = tuple(dict.fromkeys(names))
        points = np.stack([numbers(table, name, of) for name in coordinates], axis=1)
        return cls(regions, np.array([regions.index(name) for name in names], dtype=np.int64), points)

    def table(self) -> pa.Table:
        """What `read` reads."""
        columns = {f"at_{lane}": self.points[:, lane] for lane in range(self.dimensions)}
        return pa.table({"region": [self.regions[place] for place in self.region], **columns})

    @property
    def dimensions(self) -> int:
        return int(self.points.shape[1])

    def within(self, region: int) -> Floats:
        """The points of one region."""
        return np.asarray(self.points[self.region == region])

    def among(self, regions: Sequence[str]) -> Nodes:
        """The same nodes with regions numbered like these; every one of them must have a node."""
        for name in regions:
            if name not in self.regions:
                raise SummaryError("a region without nodes", table="nodes", column="region", value=name)
        known = {name: place for place, name in enumerate(regions)}
        kept = np.array([known.get(name, -1) for name in self.regions], dtype=np.int64)[self.region]
        return Nodes(tuple(regions), kept[kept >= 0], self.points[kept >= 0])


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


MAX_BROKERS = 1_000_000


def place_brokers(nodes: Nodes, mix: Floats, count: int, seed: int, locations: Locations) -> Nodes:
    """So many brokers, in proportion to the mix of regions, at nodes drawn without putting any back.

    Where a region has fewer nodes than brokers, the others are placed as its subscribers are.
    """
    if not 0 <= count <= MAX_BROKERS:
        raise ConfigError("too many brokers, or fewer than none", brokers=count, lowest=0, highest=MAX_BROKERS)
    due = quotas(mix, count)
    region = np.repeat(np.arange(due.size), due)
    points = [_placed(nodes, number, int(wanted), seed, locations) for number, wanted in enumerate(due)]
    return Nodes(nodes.regions, region, np.concatenate(points))


def _placed(nodes: Nodes, region: int, wanted: int, seed: int, locations: Locations) -> Floats:
    here = nodes.within(region)
    order = np.argsort(uniforms(seed, f"broker: {region}", np.arange(len(here))), kind="stable")[:wanted]
    extra = np.arange(wanted - order.size)
    drawn = locations.draw(seed, extra, np.full(extra.size, region), purpose=f"broker: {region}")
    return np.concatenate([here[order], drawn])
