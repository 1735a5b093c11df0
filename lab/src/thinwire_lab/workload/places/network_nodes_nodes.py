"""Nodes of a network: a region and a point each; the distance of two points stands for the latency between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa

from thinwire.errors import SummaryError
from thinwire_lab.workload.interests.hierarchy_checks import numbers, texts
from thinwire_lab.workload.random_rows_randomness import Floats, Rows

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
