"""Events again from a table of partials: what a row does not tell stays as the source last told it.

A partial has a null where nothing had to travel. Rows of a source are put in order and every null takes the value
before it; what was told to be absent stays absent until it is told again. Sources are dealt to buckets, and a bucket is
filled in one piece: memory is that of a bucket, and no state is kept between two of them.
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
    """The table with every null filled that has a value before it in its source.

    source: the columns that say which asset a row tells of; order: the columns that put its rows in order
    properties: the columns to fill; all others by default
    absent: a column that lists the properties a row tells to be absent
    buckets: into how many pieces the work is cut; a piece must fit into memory
    """
    fixed = {*source, *order, *([absent] if absent else [])}
    filled = list(properties) if properties is not None else [name for name in partials.columns if name not in fixed]
    _check(partials, source, order, filled, absent, buckets)
    schema = partials.schema

    def fill(bucket: pa.Table) -> pa.Table:
        return filled_in(bucket, source=source, order=order, properties=filled, absent=absent)

    bucket = F.pmod(F.xxhash64(*source), F.lit(buckets))
    return partials.groupBy(bucket).applyInArrow(fill, schema)


def filled_in(
    table: pa.Table,
    *,
    source: Sequence[str],
    order: Sequence[str],
    properties: Sequence[str],
    absent: str | None = None,
) -> pa.Table:
    """The same of one piece that holds whole sources; the rows of a source come out in order.

    >>> rooms = pa.table({"room": ["a", "b", "a"], "n": [2, 1, 1], "t": [None, None, 20.5]})
    >>> filled_in(rooms, source=["room"], order=["n"], properties=["t"]).to_pylist()
    [{'room': 'a', 'n': 1, 't': 20.5}, {'room': 'a', 'n': 2, 't': 20.5}, {'room': 'b', 'n': 1, 't': None}]
    """
    codes = _codes(table, source)
    places = np.lexsort((*(_sortable(table.column(name)) for name in reversed(order)), codes))
    table, codes = table.take(pa.array(places)), codes[places]
    first = np.ones(len(codes), dtype=np.bool_)
    first[1:] = codes[1:] != codes[:-1]
    told_absent = table.column(absent).combine_chunks() if absent else None
    for name in properties:
        column = table.column(name).combine_chunks()
        told = first | column.is_valid().to_numpy(zero_copy_only=False)
        if told_absent is not None:
            told |= _lists(told_absent, name)
        table = table.set_column(table.schema.get_field_index(name), name, column.take(pa.array(_latest(told))))
    return table


def _latest(told: Bools) -> Ints:
    """For every row the last one that told, itself included."""
    rows = np.arange(len(told))
    latest: Ints = np.maximum.accumulate(np.where(told, rows, 0))
    return latest


def _codes(table: pa.Table, source: Sequence[str]) -> Ints:
    """A number for every source."""
    codes = np.zeros(table.num_rows, dtype=np.int64)
    for name in source:
        column = table.column(name).combine_chunks()
        if pa.types.is_integer(column.type) and len(source) == 1 and not column.null_count:
            whole: Ints = column.cast(pa.int64()).to_numpy()
            return whole
        encoded = pc.dictionary_encode(column, null_encoding="encode")
        codes = codes * len(encoded.dictionary) + encoded.indices.to_numpy()
    return codes


def _sortable(column: pa.ChunkedArray) -> Any:
    """The column as something NumPy puts in order: times as whole numbers, texts by their rank."""
    whole = column.combine_chunks()
    if pa.types.is_timestamp(whole.type):
        whole = whole.cast(pa.int64())
    if pa.types.is_integer(whole.type) or pa.types.is_floating(whole.type):
        return whole.to_numpy(zero_copy_only=False)
    return pc.rank(whole, tiebreaker="dense").to_numpy()


def _lists(told: pa.Array, name: str) -> Bools:
    """In which rows does the list hold the name?"""
    rows, names = pc.list_parent_indices(told).to_numpy(), pc.list_flatten(told)
    found = np.zeros(len(told), dtype=np.bool_)
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
        raise ConfigError("absent is a column of lists of texts", absent=absent)
    if buckets < 1:
        raise ConfigError("cut the work into at least one bucket", buckets=buckets)
