"""What a team would do without us, in Spark's own words: JSON out of a log, and partials filled in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EVENT = "time long, sensor string, temperature double, pressure double, flow double"
"""the schema of an event, as `from_json` wants it"""
KEY, ORDER, VALUES = "key", "seq", ("a", "b", "c", "d")
"""columns of the table of partials"""
EMITTED = 50_000
"""rows that are handed back to Spark at once"""


def from_lines(messages: DataFrame) -> DataFrame:
    """Events out of messages of JSON lines."""
    from pyspark.sql import functions as F

    lines = messages.select(F.explode(F.split(F.col("payload").cast("string"), "\n")).alias("line"))
    return lines.select(F.from_json("line", EVENT).alias("event"))


def from_single(messages: DataFrame) -> DataFrame:
    """Events out of messages of one each."""
    from pyspark.sql import functions as F

    return messages.select(F.from_json(F.col("payload").cast("string"), EVENT).alias("event"))


def by_window(partials: DataFrame) -> DataFrame:
    """Partials filled in by a window: of every column the last value that is not null."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    before = Window.partitionBy(KEY).orderBy(ORDER).rowsBetween(Window.unboundedPreceding, 0)
    filled = [F.last(name, ignorenulls=True).over(before).alias(name) for name in VALUES]
    return partials.select(KEY, ORDER, *filled)


def by_forward_fill(partials: DataFrame, parts: int) -> DataFrame:
    """Partials filled in with NumPy, a whole partition at once."""
    return partials.repartition(parts, KEY).mapInArrow(_fill, partials.schema)


def _fill(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    some = list(batches)
    if some:
        yield from forward_filled(pa.Table.from_batches(some), VALUES).to_batches(max_chunksize=EMITTED)


def forward_filled(table: pa.Table, values: Sequence[str]) -> pa.Table:
    """The rows by key and order, every null with the value before it.

    >>> rows = pa.table({"key": [1, 2, 1], "seq": [2, 1, 1], "a": [None, None, 2.5]})
    >>> forward_filled(rows, ["a"]).to_pydict()
    {'key': [1, 1, 2], 'seq': [1, 2, 1], 'a': [2.5, 2.5, None]}
    """
    keys = table.column(KEY).to_numpy()
    order = np.lexsort((table.column(ORDER).to_numpy(), keys))
    table, keys = table.take(pa.array(order)), keys[order]
    first = np.ones(len(keys), dtype=np.bool_)
    first[1:] = keys[1:] != keys[:-1]
    rows = np.arange(len(keys))
    for name in values:
        column = table.column(name).combine_chunks()
        told = first | pc.is_valid(column).to_numpy(zero_copy_only=False)
        latest = np.maximum.accumulate(np.where(told, rows, 0))
        table = table.set_column(table.schema.get_field_index(name), name, column.take(pa.array(latest)))
    return table
