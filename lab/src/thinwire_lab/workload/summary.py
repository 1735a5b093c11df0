"""A summary: what is known of a population of subscribers, as small tables.

`topics` and `languages` (id, parent, name), `members` (topic, language, region, count), `messages` (topic, language,
per_month), `nodes` (region and coordinates) or `latencies` (region and a matrix). Any other names and any number of
hierarchies will do. Regions are numbered as they come in `members`, or as a table `regions` (name) says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa

from thinwire.errors import SummaryError
from thinwire_lab.workload.interests.hierarchy import Hierarchy
from thinwire_lab.workload.interests.hierarchy_checks import numbers, places, texts
from thinwire_lab.workload.interests.interests import Interests, checked_shape
from thinwire_lab.workload.places.latency_embedding_measured import measured
from thinwire_lab.workload.places.network_nodes_nodes import Nodes
from thinwire_lab.workload.random_rows_randomness import Floats, Rows

AXES = ("topic", "language")
"""names of the dimensions of the event space; the table of each has an s at the end"""


@dataclass(frozen=True)
class Summary:
    """What a workload is drawn from.

    members: subscribers of base interests by region
    rates: messages per month of base interests, an axis for each hierarchy
    """

    members: Interests
    rates: Floats
    nodes: Nodes

    @classmethod
    def read(cls, tables: Mapping[str, pa.Table], axes: Sequence[str] = AXES) -> Self:
        """The summary in these tables; complaints name the table, the column and the row."""
        network = "nodes" if "nodes" in tables or "latencies" not in tables else "latencies"
        for name in (*(f"{axis}s" for axis in axes), "members", "messages", network):
            if name not in tables:
                raise SummaryError("a table is missing", table=name, found=sorted(tables))
        found = [Hierarchy.read(axis, tables[f"{axis}s"], f"{axis}s") for axis in axes]
        nodes = Nodes.read(tables["nodes"]) if network == "nodes" else measured(tables["latencies"])
        nodes = nodes.among(_regions(tables["members"], nodes, tables.get("regions")))
        _atomic(tables["members"], found, "members")
        members = Interests.read(tables["members"], found, nodes.regions)
        return cls(members, _rates(tables["messages"], found), nodes)

    def tables(self) -> dict[str, pa.Table]:
        """What `read` reads."""
        found = {f"{axis.name}s": axis.table() for axis in self.members.axes}
        found |= {"members": self.members.table(), "messages": self._messages(), "nodes": self.nodes.table()}
        return {**found, "regions": pa.table({"name": list(self.members.regions)})}

    def _messages(self) -> pa.Table:
        there = np.nonzero(self.rates)
        columns = {
            axis.name: pa.array([axis.ids[node] for node in nodes], pa.string())
            for axis, nodes in zip(self.members.axes, there, strict=True)
        }
        return pa.table({**columns, "per_month": self.rates[there]})


def _regions(members: pa.Table, nodes: Nodes, told: pa.Table | None) -> list[str]:
    """The regions that members are in, those that are told first; each needs a node to place them by."""
    named = _placed(members, "region", "members", nodes)
    if not named:
        raise SummaryError("an empty summary: nobody subscribes to anything", table="members")
    first = [] if told is None else _placed(told, "name", "regions", nodes)
    return list(dict.fromkeys([*first, *named]))


def _placed(table: pa.Table, column: str, of: str, nodes: Nodes) -> list[str]:
    """The regions in a column, all of which have nodes."""
    named = [str(region) for region in texts(table, column, of)]
    for row, region in enumerate(named, 1):
        if region not in nodes.regions:
            detail = "a region without nodes: add some, or leave the members out"
            raise SummaryError(detail, table=of, column=column, row=row, value=region, known=nodes.regions)
    return named


def _rates(table: pa.Table, axes: Sequence[Hierarchy]) -> Floats:
    *shape, _ = checked_shape(axes, 1, "messages")
    rates = np.zeros(shape)
    np.add.at(rates, _atomic(table, axes, "messages"), numbers(table, "per_month", "messages", lowest=0.0))
    return rates


def _atomic(table: pa.Table, axes: Sequence[Hierarchy], of: str) -> tuple[Rows, ...]:
    """The nodes of every row, none of which may have children."""
    columns = [places(texts(table, axis.name, of), axis.places, axis.name, of, f"{axis.name}s") for axis in axes]
    for axis, nodes in zip(axes, columns, strict=True):
        inner = np.flatnonzero(axis.fanout[nodes] > 0)
        if inner.size:
            row = int(inner[0])
            detail = "counts belong to atomic nodes: name one below it, or build the summary from groups"
            raise SummaryError(detail, table=of, column=axis.name, row=row + 1, value=axis.ids[nodes[row]])
    return tuple(columns)
