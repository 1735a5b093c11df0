"""A hierarchy of topics, languages or anything else: every node has one parent, and one node has none.

>>> sports = Hierarchy.of("topic", [("all", None), ("games", "all"), ("soccer", "games"), ("tennis", "games")])
>>> [sports.ids[node] for node in sports.leaves]
['soccer', 'tennis']
>>> sports.depths.tolist()
[0, 1, 2, 2]

Looking at the tables that somebody brings: a complaint names the table, the column and the row.

Rows are counted from 1, as in a file below its header.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import pyarrow as pa

from thinwire_lab.errors import SummaryError
from thinwire_lab.workload.random_rows import Floats, Rows


def column(table: pa.Table, name: str, of: str) -> pa.ChunkedArray:
    """A column of a table called `of`; it must be there."""
    if name not in table.column_names:
        raise SummaryError("a column is missing", table=of, column=name, found=table.column_names)
    return table.column(name)


def texts(table: pa.Table, name: str, of: str, *, empty: bool = False) -> list[str | None]:
    """A column of names; a number counts as its digits. `empty` ones are None, where they are allowed."""
    values = column(table, name, of).to_pylist()
    found = [None if value is None or value == "" else str(value) for value in values]
    if not empty and None in found:
        raise SummaryError("a value is missing", table=of, column=name, row=found.index(None) + 1)
    return found


def numbers(table: pa.Table, name: str, of: str, *, lowest: float | None = None, missing: bool = False) -> Floats:
    """A column of finite numbers, none below `lowest`; where some may be `missing`, those are NaN."""
    values = column(table, name, of)
    if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
        values = _parsed(values, name, of)
    found = np.asarray(values.cast(pa.float64()).fill_null(np.nan).to_numpy(), dtype=np.float64)
    _refuse(np.isinf(found) | (np.isnan(found) & (not missing)), values, name, of, "not a finite number")
    if lowest is not None:
        _refuse(found < lowest, values, name, of, f"below {lowest:g}")
    return found


def places(values: list[str | None], known: dict[str, int], name: str, of: str, listed: str) -> Rows:
    """The number of every name in `known`; `listed` says which table knows them."""
    for row, value in enumerate(values, 1):
        if value not in known:
            raise SummaryError(f"there is no such row in {listed}", table=of, column=name, row=row, value=value)
    return np.array([known[str(value)] for value in values], dtype=np.int64)


def _parsed(values: pa.ChunkedArray, name: str, of: str) -> pa.ChunkedArray:
    """Numbers that came as text, as they do from a file of commas."""
    found = []
    for row, value in enumerate(values.to_pylist(), 1):
        try:
            found.append(None if value is None or value == "" else float(value))
        except (TypeError, ValueError):
            raise SummaryError("not a number", table=of, column=name, row=row, value=value) from None
    return pa.chunked_array([pa.array(found, pa.float64())])


def _refuse(wrong: Any, values: pa.ChunkedArray, name: str, of: str, why: str) -> None:
    if wrong.any():
        row = int(np.argmax(wrong))
        raise SummaryError(why, table=of, column=name, row=row + 1, value=values[row].as_py())


ROOT = "*"
"""the node that is put above several that have no parent"""


@dataclass(frozen=True)
class Hierarchy:
    """Nodes are numbers, the places of their ids.

    parents: the node above each, -1 for the root
    """

    name: str
    ids: tuple[str, ...]
    parents: Rows
    labels: tuple[str, ...]

    @classmethod
    def of(cls, name: str, pairs: Iterable[tuple[str, str | None]]) -> Self:
        """The hierarchy of these nodes and their parents."""
        ids, parents = zip(*pairs, strict=True)
        return cls._checked(name, ids, parents, ids, f"{name}s")

    @classmethod
    def read(cls, name: str, table: pa.Table, of: str) -> Self:
        """The hierarchy in a table of ids, parents and, where there are some, names."""
        ids = [str(value) for value in texts(table, "id", of)]
        if not ids:
            raise SummaryError("a hierarchy needs at least one row", table=of)
        labels = texts(table, "name", of, empty=True) if "name" in table.column_names else [None] * len(ids)
        shown = [label or node for label, node in zip(labels, ids, strict=True)]
        return cls._checked(name, ids, texts(table, "parent", of, empty=True), shown, of)

    @classmethod
    def _checked(
        cls, name: str, ids: Sequence[str], parents: Sequence[str | None], labels: Sequence[str], of: str
    ) -> Self:
        known = {node: place for place, node in enumerate(ids)}
        _unique(ids, of)
        above = np.array([_above(known, parent, row, of) for row, parent in enumerate(parents, 1)], dtype=np.int64)
        _acyclic(ids, above, of)
        roots = np.flatnonzero(above < 0)
        if roots.size > 1:
            _free(known, of)
            above = np.append(np.where(above < 0, len(ids), above), -1)
            ids, labels = (*ids, ROOT), (*labels, ROOT)
        return cls(name, tuple(ids), above, tuple(labels))

    def __len__(self) -> int:
        return len(self.ids)

    def table(self) -> pa.Table:
        """What `read` reads."""
        parents = [self.ids[parent] if parent >= 0 else None for parent in self.parents]
        return pa.table({"id": list(self.ids), "parent": pa.array(parents, pa.string()), "name": list(self.labels)})

    @cached_property
    def places(self) -> dict[str, int]:
        """The node of every id."""
        return {node: place for place, node in enumerate(self.ids)}

    @cached_property
    def root(self) -> int:
        return int(np.flatnonzero(self.parents < 0)[0])

    @cached_property
    def depths(self) -> Rows:
        """How many nodes are above each."""
        depths, at = np.zeros(len(self), dtype=np.int64), self.parents.copy()
        while (at >= 0).any():
            depths += at >= 0
            at = np.where(at >= 0, self.parents[at], -1)
        return depths

    @cached_property
    def fanout(self) -> Rows:
        """How many children each has."""
        return np.bincount(self.parents[self.parents >= 0], minlength=len(self)).astype(np.int64)

    @cached_property
    def leaves(self) -> Rows:
        """The atomic nodes, those without children."""
        return np.flatnonzero(self.fanout == 0)

    @cached_property
    def levels(self) -> list[Rows]:
        """Cuts through the tree from the root down: the nodes of each depth, and leaves that end above it."""
        leaf = self.fanout == 0
        return [
            np.flatnonzero((self.depths == depth) | (leaf & (self.depths < depth)))
            for depth in range(int(self.depths.max()) + 1)
        ]


def _unique(ids: Sequence[str], of: str) -> None:
    seen: set[str] = set()
    for row, node in enumerate(ids, 1):
        if node in seen:
            raise SummaryError("an id is there twice", table=of, column="id", row=row, value=node)
        seen.add(node)


def _free(known: dict[str, int], of: str) -> None:
    if ROOT in known:
        detail = "this id is kept for the node above all others: give every node a parent, or another id"
        raise SummaryError(detail, table=of, column="id", row=known[ROOT] + 1, value=ROOT)


def _above(known: dict[str, int], parent: str | None, row: int, of: str) -> int:
    if parent is None:
        return -1
    if parent not in known:
        raise SummaryError("an orphan: its parent is no row", table=of, column="parent", row=row, value=parent)
    return known[parent]


def _acyclic(ids: Sequence[str], above: Rows, of: str) -> None:
    """Whoever climbs as many steps as there are nodes must have left through the root."""
    jump = above
    for _ in range(len(ids).bit_length()):
        jump = np.where(jump >= 0, jump[jump], -1)
    if (jump >= 0).any():
        row = int(jump[jump >= 0].min())  # where the climb ends is on a cycle; where it began may only lead to one
        raise SummaryError("a cycle: the node is above itself", table=of, column="parent", row=row + 1, value=ids[row])
