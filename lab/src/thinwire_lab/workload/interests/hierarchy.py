"""Hierarchies of topics, languages or other categories: trees with one root; and checked columns of tables.

Errors name the table, the column and the row. Rows are counted from 1, without the header.

>>> sports = Hierarchy.of("topic", [("all", None), ("games", "all"), ("soccer", "games"), ("tennis", "games")])
>>> [sports.ids[node] for node in sports.leaves]
['soccer', 'tennis']
>>> sports.depths.tolist()
[0, 1, 2, 2]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import pyarrow as pa

from thinwire_lab.errors import SummaryError
from thinwire_lab.workload.random_rows import Floats, Ints


def require_column(table: pa.Table, name: str, of: str) -> pa.ChunkedArray:
    """Return a column of the table named `of`; raise an error if it is missing."""
    if name not in table.column_names:
        raise SummaryError("a column is missing", table=of, column=name, found=table.column_names)
    return table.column(name)


def text_column(table: pa.Table, name: str, of: str, *, empty: bool = False) -> list[str | None]:
    """Return a column of names as texts. Empty values are None and must be allowed by `empty`."""
    values = require_column(table, name, of).to_pylist()
    names = [None if value is None or value == "" else str(value) for value in values]
    if not empty and None in names:
        raise SummaryError("a value is missing", table=of, column=name, row=names.index(None) + 1)
    return names


def number_column(table: pa.Table, name: str, of: str, *, lowest: float | None = None, missing: bool = False) -> Floats:
    """Return a column of finite numbers, none below `lowest`. Missing values are NaN if `missing` allows them."""
    values = require_column(table, name, of)
    if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
        values = _parsed(values, name, of)
    numbers = np.asarray(values.cast(pa.float64()).fill_null(np.nan).to_numpy(), dtype=np.float64)
    _refuse(np.isinf(numbers) | (np.isnan(numbers) & (not missing)), values, name, of, "not a finite number")
    if lowest is not None:
        _refuse(numbers < lowest, values, name, of, f"below {lowest:g}")
    return numbers


def lookup_rows(values: list[str | None], known: dict[str, int], name: str, of: str, listed: str) -> Ints:
    """Return the index of each name in `known`, the rows of the table `listed`."""
    for row, value in enumerate(values, 1):
        if value not in known:
            raise SummaryError(f"no such row in {listed}", table=of, column=name, row=row, value=value)
    return np.array([known[str(value)] for value in values], dtype=np.int64)


def _parsed(values: pa.ChunkedArray, name: str, of: str) -> pa.ChunkedArray:
    """Return numbers that are stored as text, for example in a CSV file."""
    numbers = []
    for row, value in enumerate(values.to_pylist(), 1):
        try:
            numbers.append(None if value is None or value == "" else float(value))
        except (TypeError, ValueError):
            raise SummaryError("not a number", table=of, column=name, row=row, value=value) from None
    return pa.chunked_array([pa.array(numbers, pa.float64())])


def _refuse(wrong: Any, values: pa.ChunkedArray, name: str, of: str, detail: str) -> None:
    if wrong.any():
        row = int(np.argmax(wrong))
        raise SummaryError(detail, table=of, column=name, row=row + 1, value=values[row].as_py())


ROOT = "*"
"""id of the node that is added above several roots"""


@dataclass(frozen=True)
class Hierarchy:
    """A tree of nodes, which are numbered from 0.

    parents: parent of each node, -1 for the root
    """

    name: str
    ids: tuple[str, ...]
    parents: Ints
    labels: tuple[str, ...]

    @classmethod
    def of(cls, name: str, pairs: Iterable[tuple[str, str | None]]) -> Self:
        """Return the hierarchy of pairs of a node and its parent."""
        ids, parents = zip(*pairs, strict=True)
        return cls._checked(name, ids, parents, ids, f"{name}s")

    @classmethod
    def read(cls, name: str, table: pa.Table, of: str) -> Self:
        """Return the hierarchy of a table with the columns id, parent and, optionally, name."""
        ids = [str(value) for value in text_column(table, "id", of)]
        if not ids:
            raise SummaryError("a hierarchy needs at least one row", table=of)
        labels = text_column(table, "name", of, empty=True) if "name" in table.column_names else [None] * len(ids)
        names = [label or node for label, node in zip(labels, ids, strict=True)]
        return cls._checked(name, ids, text_column(table, "parent", of, empty=True), names, of)

    @classmethod
    def _checked(
        cls, name: str, ids: Sequence[str], parents: Sequence[str | None], labels: Sequence[str], of: str
    ) -> Self:
        known = {node: index for index, node in enumerate(ids)}
        _check_unique(ids, of)
        parent_rows = np.array(
            [_parent_index(known, parent, row, of) for row, parent in enumerate(parents, 1)], dtype=np.int64
        )
        _check_acyclic(ids, parent_rows, of)
        roots = np.flatnonzero(parent_rows < 0)
        if roots.size > 1:
            _check_root(known, of)
            parent_rows = np.append(np.where(parent_rows < 0, len(ids), parent_rows), -1)
            ids, labels = (*ids, ROOT), (*labels, ROOT)
        return cls(name, tuple(ids), parent_rows, tuple(labels))

    def __len__(self) -> int:
        return len(self.ids)

    def read_nodes(self, table: pa.Table, of: str) -> Ints:
        """Return the nodes in the column of this hierarchy of a table."""
        return lookup_rows(text_column(table, self.name, of), self.index, self.name, of, f"{self.name}s")

    def table(self) -> pa.Table:
        """Return the table that `read` reads."""
        parents = [self.ids[parent] if parent >= 0 else None for parent in self.parents]
        return pa.table({"id": list(self.ids), "parent": pa.array(parents, pa.string()), "name": list(self.labels)})

    @cached_property
    def index(self) -> dict[str, int]:
        """Node of each id."""
        return {name: node for node, name in enumerate(self.ids)}

    @cached_property
    def root(self) -> int:
        return int(np.flatnonzero(self.parents < 0)[0])

    @cached_property
    def depths(self) -> Ints:
        """Number of ancestors of each node."""
        depths, ancestors = np.zeros(len(self), dtype=np.int64), self.parents.copy()
        while (ancestors >= 0).any():
            depths += ancestors >= 0
            ancestors = np.where(ancestors >= 0, self.parents[ancestors], -1)
        return depths

    @cached_property
    def fanout(self) -> Ints:
        """Number of children of each node."""
        return np.bincount(self.parents[self.parents >= 0], minlength=len(self)).astype(np.int64)

    @cached_property
    def leaves(self) -> Ints:
        """The atomic nodes: those without children."""
        return np.flatnonzero(self.fanout == 0)

    @cached_property
    def levels(self) -> list[Ints]:
        """Cuts through the tree from the root down: the nodes of each depth, and leaves above it."""
        leaf = self.fanout == 0
        return [
            np.flatnonzero((self.depths == depth) | (leaf & (self.depths < depth)))
            for depth in range(int(self.depths.max()) + 1)
        ]


def _check_unique(ids: Sequence[str], of: str) -> None:
    seen: set[str] = set()
    for row, node in enumerate(ids, 1):
        if node in seen:
            raise SummaryError("duplicate id", table=of, column="id", row=row, value=node)
        seen.add(node)


def _check_root(known: dict[str, int], of: str) -> None:
    if ROOT in known:
        detail = "this id is reserved for the root; give each node a parent, or use another id"
        raise SummaryError(detail, table=of, column="id", row=known[ROOT] + 1, value=ROOT)


def _parent_index(known: dict[str, int], parent: str | None, row: int, of: str) -> int:
    if parent is None:
        return -1
    if parent not in known:
        raise SummaryError(
            "an orphan: its parent is not in the table", table=of, column="parent", row=row, value=parent
        )
    return known[parent]


def _check_acyclic(ids: Sequence[str], parents: Ints, of: str) -> None:
    """Raise an error for a cycle: after as many steps upwards as there are nodes, all paths must have left the root."""
    jump = parents
    for _ in range(len(ids).bit_length()):
        jump = np.where(jump >= 0, jump[jump], -1)
    if (jump >= 0).any():
        row = int(jump[jump >= 0].min())  # the end of the path is on the cycle; its start may not be
        raise SummaryError(
            "a cycle: the node is its own ancestor", table=of, column="parent", row=row + 1, value=ids[row]
        )
