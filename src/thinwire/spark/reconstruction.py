"""Complete events from a table of partial events.

A partial event has a null for every value that was not sent. Rows of a source are sorted and every null takes the value
before it; a property marked as absent stays null until its next value. Sources are grouped into buckets and each bucket
is processed in memory, without state between buckets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StringType

from thinwire.errors import ConfigError

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

BUCKETS = 64


def reconstruct(
    partials: DataFrame,
    *,
    source: Sequence[str],
    order: Sequence[str] = ("_ordinal",),
    properties: Sequence[str] | None = None,
    absent: str | None = None,
    buckets: int = BUCKETS,
) -> DataFrame:
    """Return the table with nulls replaced by the last value of the source before them.

    source: columns that identify a source; order: columns that sort the rows of a source
    properties: columns to fill; by default all others
    absent: a column with a list of the properties that become absent at a row, until their next value
    buckets: number of buckets; a bucket must fit into memory
    """
    fixed = {*source, *order, *([absent] if absent else [])}
    filled = list(properties) if properties is not None else [name for name in partials.columns if name not in fixed]
    _check(partials, source, order, filled, absent, buckets)
    schema = partials.schema

    def fill(bucket: pa.Table) -> pa.Table:
        return fill_table(bucket, source=source, order=order, properties=filled, absent=absent)

    bucket = F.pmod(F.xxhash64(*source), F.lit(buckets))
    return partials.groupBy(bucket).applyInArrow(fill, schema)


def fill_table(
    table: pa.Table,
    *,
    source: Sequence[str],
    order: Sequence[str],
    properties: Sequence[str],
    absent: str | None = None,
) -> pa.Table:
    """Fill the nulls of an Arrow table with complete sources. The rows of a source are returned in order.

    >>> rooms = pa.table({"room": ["a", "b", "a"], "n": [2, 1, 1], "t": [None, None, 20.5]})
    >>> fill_table(rooms, source=["room"], order=["n"], properties=["t"]).to_pylist()
    [{'room': 'a', 'n': 1, 't': 20.5}, {'room': 'a', 'n': 2, 't': 20.5}, {'room': 'b', 'n': 1, 't': None}]
    """
    codes = _source_codes(table, source)
    order_of_rows = np.lexsort((*(_sortable(table.column(name)) for name in reversed(order)), codes))
    table, codes = table.take(pa.array(order_of_rows)), codes[order_of_rows]
    first = np.ones(len(codes), dtype=np.bool_)
    first[1:] = codes[1:] != codes[:-1]
    absent_lists = table.column(absent).combine_chunks() if absent else None
    for name in properties:
        column = table.column(name).combine_chunks()
        sets_value = first | column.is_valid().to_numpy(zero_copy_only=False)
        if absent_lists is not None:
            sets_value |= _contain(absent_lists, name)  # to null
        filled = column.take(pa.array(_last_true(sets_value)))
        table = table.set_column(table.schema.get_field_index(name), name, filled)
    return table


def _last_true(flags: Bools) -> Ints:
    """Return for every row the index of the last true flag at or before the row."""
    indexes: Ints = np.maximum.accumulate(np.where(flags, np.arange(len(flags)), 0))
    return indexes


def _source_codes(table: pa.Table, source: Sequence[str]) -> Ints:
    """Return an integer for every row that identifies its source."""
    codes = np.zeros(table.num_rows, dtype=np.int64)
    for name in source:
        column = table.column(name).combine_chunks()
        if pa.types.is_integer(column.type) and len(source) == 1 and not column.null_count:
            numbers: Ints = column.cast(pa.int64()).to_numpy()
            return numbers
        encoded = pc.dictionary_encode(column, null_encoding="encode")
        codes = codes * len(encoded.dictionary) + encoded.indices.to_numpy()
    return codes


def _sortable(column: pa.ChunkedArray) -> Any:
    """Return the column in a form that NumPy sorts: times as integers, texts as ranks."""
    values = column.combine_chunks()
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        return values.to_numpy(zero_copy_only=False)
    return pc.rank(values, tiebreaker="dense").to_numpy()


def _contain(lists: pa.Array, name: str) -> Bools:
    """Return for every list whether it contains the name."""
    rows, names = pc.list_parent_indices(lists).to_numpy(), pc.list_flatten(lists)
    found = np.zeros(len(lists), dtype=np.bool_)
    found[rows[pc.fill_null(pc.equal(names, name), False).to_numpy(zero_copy_only=False)]] = True
    return found


def _check(
    partials: DataFrame,
    source: Sequence[str],
    order: Sequence[str],
    properties: Sequence[str],
    absent: str | None,
    buckets: int,
) -> None:
    known = set(partials.columns)
    for what, names in (("source", source), ("order", order), ("properties", properties)):
        if not names and what != "properties":
            raise ConfigError("name at least one column", **{what: list(names)})
        for name in names:
            if name not in known:
                raise ConfigError("the table has no such column", **{what: name}, columns=sorted(known))
    if absent is not None and (absent not in known or partials.schema[absent].dataType != ArrayType(StringType())):
        raise ConfigError("absent must be a column of lists of texts", absent=absent)
    if buckets < 1:
        raise ConfigError("at least one bucket", buckets=buckets)
