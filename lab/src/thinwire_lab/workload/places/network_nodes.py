"""Nodes of a network, and the placement of subscribers and brokers.

A node has a region and a point; the distance of two points is the latency between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
import pyarrow as pa

from thinwire_lab.errors import SummaryError
from thinwire_lab.workload.interests.hierarchy import number_column, text_column
from thinwire_lab.workload.random_rows import Floats, Ints, normals, quotas, uniforms

MAX_DIMENSIONS = 64


@dataclass(frozen=True)
class Nodes:
    """Regions and coordinates of machines.

    region: index of the region of each node
    points: coordinates of each node in milliseconds, one row each
    """

    regions: tuple[str, ...]
    region: Ints
    points: Floats

    @classmethod
    def read(cls, table: pa.Table, of: str = "nodes") -> Self:
        """Return the nodes of a table with a column `region`; all other columns are coordinates."""
        names = [str(name) for name in text_column(table, "region", of)]
        if not names:
            raise SummaryError("a network needs at least one node", table=of)
        coordinates = [name for name in table.column_names if name != "region"]
        if not 1 <= len(coordinates) <= MAX_DIMENSIONS:
            detail = f"nodes need 1 to {MAX_DIMENSIONS} columns of coordinates, in addition to the region"
            raise SummaryError(detail, table=of, columns=len(coordinates))
        regions = tuple(dict.fromkeys(names))
        points = np.stack([number_column(table, name, of) for name in coordinates], axis=1)
        return cls(regions, np.array([regions.index(name) for name in names], dtype=np.int64), points)

    def table(self) -> pa.Table:
        """Return the table that `read` reads."""
        columns = {f"at_{dimension}": self.points[:, dimension] for dimension in range(self.dimensions)}
        return pa.table({"region": [self.regions[region] for region in self.region], **columns})

    @property
    def dimensions(self) -> int:
        return int(self.points.shape[1])

    def points_in(self, region: int) -> Floats:
        """Return the points of a region."""
        return np.asarray(self.points[self.region == region])

    def with_regions(self, regions: Sequence[str]) -> Nodes:
        """Return the nodes of these regions, renumbered in this order. Each region must have a node."""
        for name in regions:
            if name not in self.regions:
                raise SummaryError("a region without nodes", table="nodes", column="region", value=name)
        indexes = {name: index for index, name in enumerate(regions)}
        renumbered = np.array([indexes.get(name, -1) for name in self.regions], dtype=np.int64)[self.region]
        return Nodes(tuple(regions), renumbered[renumbered >= 0], self.points[renumbered >= 0])


LocationMethod = Literal["near", "box", "hull"]
"""near: around a node of the region; box: in the bounding box of its nodes; hull: in their convex hull"""


class LocationSampler:
    """Draws a point for each subscriber.

    spread: for `near`, standard deviation of the distance from the node by dimension, in milliseconds
    """

    def __init__(self, nodes: Nodes, method: LocationMethod = "near", spread: float = 2.0) -> None:
        self.method = method
        self.spread = spread
        self.dimensions = nodes.dimensions
        self._points = [nodes.points_in(region) for region in range(len(nodes.regions))]

    def draw(self, seed: int, rows: Ints, region: Ints, purpose: str = "place") -> Floats:
        """Return a point for each row, in the region of the row."""
        drawn = np.empty((rows.size, self.dimensions))
        for index, points in enumerate(self._points):
            own = np.flatnonzero(region == index)
            if own.size:
                drawn[own] = self._draw_in_region(points, seed, rows[own], purpose)
        return drawn

    def _draw_in_region(self, points: Floats, seed: int, rows: Ints, purpose: str) -> Floats:
        if self.method == "near":
            node = _pick(uniforms(seed, f"{purpose}: node", rows), len(points))
            return np.asarray(points[node] + self.spread * normals(seed, f"{purpose}: step", rows, self.dimensions))
        if self.method == "box":
            low, high = points.min(axis=0), points.max(axis=0)
            columns = [uniforms(seed, f"{purpose}: box", rows, dimension) for dimension in range(self.dimensions)]
            return np.asarray(low + (high - low) * np.stack(columns, axis=1))
        return self._draw_in_hull(points, seed, rows, purpose)

    def _draw_in_hull(self, points: Floats, seed: int, rows: Ints, purpose: str) -> Floats:
        """Return points distributed uniformly in simplexes of random nodes, and so inside the convex hull of all."""
        weighted, total = np.zeros((rows.size, self.dimensions)), np.zeros(rows.size)
        for corner in range(self.dimensions + 1):
            node = _pick(uniforms(seed, f"{purpose}: corner", rows, corner), len(points))
            weight = -np.log1p(-uniforms(seed, f"{purpose}: weight", rows, corner))
            weighted += weight[:, None] * points[node]
            total += weight
        return weighted / np.maximum(total, np.finfo(float).tiny)[:, None]


def _pick(numbers: Floats, count: int) -> Ints:
    return np.minimum((numbers * count).astype(np.int64), count - 1)


def place_brokers(nodes: Nodes, mix: Floats, count: int, seed: int, locations: LocationSampler) -> Nodes:
    """Return brokers in proportion to the mix of regions, at nodes drawn without replacement.

    If a region has fewer nodes than brokers, the remaining ones are placed like its subscribers.
    """
    counts = quotas(mix, count)
    region = np.repeat(np.arange(counts.size), counts)
    points = [_place_in_region(nodes, index, int(count), seed, locations) for index, count in enumerate(counts)]
    return Nodes(nodes.regions, region, np.concatenate(points))


def _place_in_region(nodes: Nodes, region: int, count: int, seed: int, locations: LocationSampler) -> Floats:
    points = nodes.points_in(region)
    order = np.argsort(uniforms(seed, f"broker: {region}", np.arange(len(points))), kind="stable")[:count]
    extra = np.arange(count - order.size)
    drawn = locations.draw(seed, extra, np.full(extra.size, region), purpose=f"broker: {region}")
    return np.concatenate([points[order], drawn])
