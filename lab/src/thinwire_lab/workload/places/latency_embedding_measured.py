"""Nodes from measured latencies: a table with a row and a column for every node, and the region of each row."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from thinwire.errors import SummaryError
from thinwire_lab.workload.interests.hierarchy_checks import numbers, texts
from thinwire_lab.workload.places.latency_embedding import embed
from thinwire_lab.workload.places.network_nodes_nodes import Nodes

DIMENSIONS = 5


def measured(table: pa.Table, dimensions: int = DIMENSIONS, of: str = "latencies") -> Nodes:
    """The nodes of a table with a column `region` and a column of milliseconds for every row; empty ones are missing.

    >>> rows = {"region": ["a", "a", "b"], "1": [0, 10, 30], "2": [10, 0, None], "3": [30, 21, 0]}
    >>> measured(pa.table(rows), 2).points.shape
    (3, 2)
    """
    names = [str(name) for name in texts(table, "region", of)]
    columns = [name for name in table.column_names if name != "region"]
    if len(columns) != len(names) or not names:
        detail = "as many columns of latencies as rows, beside the region"
        raise SummaryError(detail, table=of, rows=len(names), columns=len(columns))
    matrix = np.stack([numbers(table, name, of, missing=True) for name in columns], axis=1)
    regions = tuple(dict.fromkeys(names))
    return Nodes(regions, np.array([regions.index(name) for name in names], dtype=np.int64), embed(matrix, dimensions))
