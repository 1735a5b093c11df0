"""Reconstruction: a table of partials filled in, beside a window of Spark SQL and a forward fill with NumPy.

What a team would do without us, in Spark's own words: JSON out of a log, and partials filled in.
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

from thinwire_lab.bench.benchmark import Bar, Row, Setting
from thinwire_lab.bench.spark.process_usage import SHUFFLED, TWO, Spent, race, rate, ratio, running

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


EVENTS, QUICK = 5_000_000, 100_000
A_SOURCE = 50
"""events of a source, about"""
SILENT = 0.6
"""the share of values that a partial does not tell"""
FILES = 4
ROUNDS = 5
OURS, WINDOW, FILL = "reconstruct", "SQL window", "NumPy forward fill"
LIMIT = 1.2


def reconstruction(setting: Setting) -> Iterator[Row]:
    """All three in the same run, taking turns; each one's checksums are asked for, and compared."""
    events = setting.size(EVENTS, QUICK)
    with TemporaryDirectory(prefix="thinwire-bench-") as folder, running() as spark:
        write_partials(Path(folder), events)
        answers: dict[str, set[Any]] = {}

        def run(name: str, method: Callable[[DataFrame], DataFrame]) -> Callable[[], None]:
            def action() -> None:
                answers.setdefault(name, set()).add(_checksums(method(spark.read.parquet(folder))))

            return action

        methods = {name: run(name, method) for name, method in _methods().items()}
        found = race(methods, setting.size(ROUNDS, 1), setting.progress)
    agreed = len(set.union(*answers.values())) == 1
    yield _row(events, found, "" if agreed else f"the methods do not agree: {answers}")


def write_partials(folder: Path, events: int, seed: int = 1) -> None:
    """The table: sources at random, most values untold. Values are eighths, whose sums are exact in any order."""
    rng = np.random.default_rng(seed)
    rows = events // FILES
    for number in range(FILES):
        columns: dict[str, Any] = {
            KEY: rng.integers(0, max(1, events // A_SOURCE), rows),
            ORDER: np.arange(number * rows, (number + 1) * rows),
        }
        for name in VALUES:
            columns[name] = pa.array(rng.integers(-8_000, 8_000, rows) / 8, mask=rng.random(rows) < SILENT)
        pq.write_table(pa.table(columns), folder / f"{number}.parquet")


def _methods() -> dict[str, Callable[[DataFrame], DataFrame]]:
    from thinwire.spark.reconstruction import reconstruct

    return {
        OURS: lambda partials: reconstruct(partials, source=[KEY], order=[ORDER]),
        WINDOW: by_window,
        FILL: lambda partials: by_forward_fill(partials, SHUFFLED),
    }


def _checksums(rows: DataFrame) -> tuple[Any, ...]:
    """Figures that another value in any place would change."""
    from pyspark.sql import functions as F

    weight = F.col(ORDER) % 97 + 1
    sums = [F.sum(F.col(name) * weight) for name in VALUES]
    return tuple(rows.agg(F.count("*"), *(F.count(name) for name in VALUES), *sums).collect()[0])


def _row(events: int, found: dict[str, list[Spent]], trouble: str) -> Row:
    better = max((WINDOW, FILL), key=lambda name: rate(events, found[name]))
    rates = ", ".join(f"{name} {rate(events, runs):,.0f}" for name, runs in found.items())
    how = f"{events:,} events of {events // A_SOURCE:,} sources, {len(VALUES)} columns, {100 * SILENT:.0f} % null"
    how += f"; events a CPU-second: {rates}; median of {len(found[OURS])} rounds in turn on {TWO}"
    name = "reconstruction: CPU time to the better of SQL window and NumPy forward fill"
    value = ratio(found[OURS], found[better])
    return Row(
        name, "times", value, high=LIMIT, how=f"{how}; the better one: {better}", note=trouble, sound=not trouble
    )


BARS = [Bar("reconstruction", reconstruction)]
