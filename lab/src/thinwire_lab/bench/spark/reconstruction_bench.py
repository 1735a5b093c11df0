"""Benchmark of reconstruction: partial events, compared with a window of Spark SQL and a forward fill with NumPy.

The references are what a team would do without thinwire; `from_lines` and `from_single` parse JSON out of a log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from thinwire_lab.bench.benchmark import Benchmark, Row, Setting
from thinwire_lab.bench.spark.process_usage import (
    SHUFFLE_PARTITIONS,
    TWO_CORES,
    ProcessUsage,
    race,
    rate,
    ratio,
    spark_session,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


EVENT = "time long, sensor string, temperature double, pressure double, flow double"
"""the schema of an event for `from_json`"""
KEY, ORDER, VALUES = "key", "seq", ("a", "b", "c", "d")
"""columns of the table of partial events"""
BATCH_ROWS = 50_000
"""rows of a batch that is returned to Spark"""


def from_lines(messages: DataFrame) -> DataFrame:
    """Parse events from messages of JSON lines."""
    from pyspark.sql import functions as F

    lines = messages.select(F.explode(F.split(F.col("payload").cast("string"), "\n")).alias("line"))
    return lines.select(F.from_json("line", EVENT).alias("event"))


def from_single(messages: DataFrame) -> DataFrame:
    """Parse events from messages of one event."""
    from pyspark.sql import functions as F

    return messages.select(F.from_json(F.col("payload").cast("string"), EVENT).alias("event"))


def by_window(partials: DataFrame) -> DataFrame:
    """Fill partial events with a window: the last value of every column that is not null."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    before = Window.partitionBy(KEY).orderBy(ORDER).rowsBetween(Window.unboundedPreceding, 0)
    filled = [F.last(name, ignorenulls=True).over(before).alias(name) for name in VALUES]
    return partials.select(KEY, ORDER, *filled)


def by_forward_fill(partials: DataFrame, parts: int) -> DataFrame:
    """Fill partial events with NumPy, a complete partition at a time."""
    return partials.repartition(parts, KEY).mapInArrow(_fill, partials.schema)


def _fill(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    collected = list(batches)
    if collected:
        yield from forward_fill(pa.Table.from_batches(collected), VALUES).to_batches(max_chunksize=BATCH_ROWS)


def forward_fill(table: pa.Table, values: Sequence[str]) -> pa.Table:
    """Return the rows by key and order, with every null replaced by the previous value.

    >>> rows = pa.table({"key": [1, 2, 1], "seq": [2, 1, 1], "a": [None, None, 2.5]})
    >>> forward_fill(rows, ["a"]).to_pydict()
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
        known = first | pc.is_valid(column).to_numpy(zero_copy_only=False)
        latest = np.maximum.accumulate(np.where(known, rows, 0))
        table = table.set_column(table.schema.get_field_index(name), name, column.take(pa.array(latest)))
    return table


EVENTS, QUICK = 5_000_000, 100_000
SOURCE_EVENTS = 50
"""mean number of events of a source"""
NULL_SHARE = 0.6
"""the share of null values"""
FILES = 4
ROUNDS = 5
OURS, WINDOW, FILL = "reconstruct", "SQL window", "NumPy forward fill"
MAX_TIME = 1.2


def reconstruction(setting: Setting) -> Iterator[Row]:
    """Run all three in turn and compare their checksums."""
    events = setting.size(EVENTS, QUICK)
    with TemporaryDirectory(prefix="thinwire-bench-") as folder, spark_session() as spark:
        write_partials(Path(folder), events)
        checksums: dict[str, set[Any]] = {}

        def run(name: str, method: Callable[[DataFrame], DataFrame]) -> Callable[[], None]:
            def action() -> None:
                checksums.setdefault(name, set()).add(_checksums(method(spark.read.parquet(folder))))

            return action

        methods = {name: run(name, method) for name, method in _methods().items()}
        found = race(methods, setting.size(ROUNDS, 1), setting.progress)
    agreed = len(set.union(*checksums.values())) == 1
    yield _row(events, found, "" if agreed else f"the methods do not agree: {checksums}")


def write_partials(folder: Path, events: int, seed: int = 1) -> None:
    """Write the table: random sources, most values null. Values are eighths, whose sums are exact in any order."""
    rng = np.random.default_rng(seed)
    rows = events // FILES
    for number in range(FILES):
        columns: dict[str, Any] = {
            KEY: rng.integers(0, max(1, events // SOURCE_EVENTS), rows),
            ORDER: np.arange(number * rows, (number + 1) * rows),
        }
        for name in VALUES:
            columns[name] = pa.array(rng.integers(-8_000, 8_000, rows) / 8, mask=rng.random(rows) < NULL_SHARE)
        pq.write_table(pa.table(columns), folder / f"{number}.parquet")


def _methods() -> dict[str, Callable[[DataFrame], DataFrame]]:
    from thinwire.spark.reconstruction import reconstruct

    return {
        OURS: lambda partials: reconstruct(partials, source=[KEY], order=[ORDER]),
        WINDOW: by_window,
        FILL: lambda partials: by_forward_fill(partials, SHUFFLE_PARTITIONS),
    }


def _checksums(rows: DataFrame) -> tuple[Any, ...]:
    """Return sums that depend on every value."""
    from pyspark.sql import functions as F

    weight = F.col(ORDER) % 97 + 1
    sums = [F.sum(F.col(name) * weight) for name in VALUES]
    return tuple(rows.agg(F.count("*"), *(F.count(name) for name in VALUES), *sums).collect()[0])


def _row(events: int, found: dict[str, list[ProcessUsage]], invalid: str) -> Row:
    better = max((WINDOW, FILL), key=lambda name: rate(events, found[name]))
    rates = ", ".join(f"{name} {rate(events, runs):,.0f}" for name, runs in found.items())
    how = f"{events:,} events of {events // SOURCE_EVENTS:,} sources, {len(VALUES)} columns"
    how += f", {100 * NULL_SHARE:.0f} % null"
    how += f"; events a CPU-second: {rates}; median of {len(found[OURS])} rounds in turn on {TWO_CORES}"
    name = "reconstruction: CPU time to the better of SQL window and NumPy forward fill"
    value = ratio(found[OURS], found[better])
    return Row(name, "times", value, high=MAX_TIME, how=f"{how}; the better one: {better}", invalid=invalid)


BENCHMARKS = [Benchmark("reconstruction", reconstruction)]
