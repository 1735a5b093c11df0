"""Looking at the tables that somebody brings: a complaint names the table, the column and the row.

Rows are counted from 1, as in a file below its header.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from thinwire.errors import SummaryError
from thinwire_lab.workload.random_rows_randomness import Floats, Rows


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
