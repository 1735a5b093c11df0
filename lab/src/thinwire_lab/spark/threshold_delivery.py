"""The events that thresholds deliver of a recorded table: the filters of the live system on Spark.

Rows of a source are in one partition, in order. A task processes its sources one after the other with one state per
threshold, so the table is read once for any number of thresholds. Rows without a value are skipped.

In batches, the columns of the source come first and the value last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, LongType, NumericType, StructField, StructType

from thinwire.analysis.event_files import file_format
from thinwire.errors import ConfigError
from thinwire.spark.jobs.input_files import report_missing_file
from thinwire.spark.jobs.replay import ORDER, SOURCE
from thinwire.spark.jobs.time_columns import named
from thinwire_lab.overlay_sim.filters.greedy_filter import ThresholdCounts
from thinwire_lab.overlay_sim.filters.threshold_index import IntervalIndex
from thinwire_lab.overlay_sim.filters.thresholds import Ticks, checked_thresholds, nearest_ticks, ranged, ticks_of


def table_at(spark: SparkSession, path: str) -> DataFrame:
    """Return the rows of a file: Parquet, CSV with a header or JSON lines. A folder contains Parquet files."""
    name = PurePosixPath(path).name
    kind = file_format(name) if "." in name else "parquet"
    with report_missing_file(path):
        if kind == "csv":
            return spark.read.csv(path, header=True, inferSchema=True)
        return spark.read.json(path) if kind == "json" else spark.read.option("mergeSchema", "true").parquet(path)


Piece = tuple[bool, pa.RecordBatch]
"""whether a new source starts, and rows of it"""


def pieces(batches: Iterable[pa.RecordBatch], keys: int) -> Iterator[Piece]:
    """Split batches where the first `keys` columns change."""
    last: Any = None
    for batch in batches:
        if not batch.num_rows:
            continue
        starts = [0, *_changes(batch, keys).tolist()]
        for begin, end in zip(starts, [*starts[1:], batch.num_rows], strict=True):
            key = _key(batch, begin, keys)
            yield begin > 0 or key != last, batch.slice(begin, end - begin)
            last = key


def count_deliveries(
    batches: Iterable[pa.RecordBatch], thresholds: tuple[int, ...], step: float, keys: int
) -> Iterator[pa.RecordBatch]:
    """Yield a row for each source and threshold."""
    tally, before = ThresholdCounts(thresholds), None
    for starts_source, piece in pieces(batches, keys):
        if starts_source and before is not None:
            yield _counts(tally, before, step, keys)
            tally = ThresholdCounts(thresholds)
        tally.take(_ticks(piece, step))
        before = piece
    if before is not None:
        yield _counts(tally, before, step, keys)


def deliver_rows(
    batches: Iterable[pa.RecordBatch], thresholds: tuple[int, ...], step: float, keys: int
) -> Iterator[pa.RecordBatch]:
    """Yield each delivered row with each threshold that delivers it."""
    index = IntervalIndex(thresholds, 0)
    every = np.array(thresholds, dtype=np.int64)
    for starts_source, piece in pieces(batches, keys):
        ticks = _ticks(piece, step)
        if starts_source:
            index = IntervalIndex(every, int(ticks[0]))
            yield _rows(piece, np.zeros(every.size, dtype=np.int64), every, step)
        for indexes, fired in index.offer_batches(ticks):
            yield _rows(piece, indexes, fired, step)


def _changes(batch: pa.RecordBatch, keys: int) -> Ticks:
    """Return the rows whose key differs from that of the previous row."""
    changed = np.zeros(max(0, batch.num_rows - 1), dtype=np.bool_)
    for column in batch.columns[:keys]:
        codes = column.dictionary_encode(null_encoding="encode").indices.to_numpy(zero_copy_only=False)
        changed |= np.diff(codes) != 0
    return 1 + np.flatnonzero(changed)


def _key(batch: pa.RecordBatch, row: int, keys: int) -> tuple[Any, ...]:
    return tuple(column[row].as_py() for column in batch.columns[:keys])


def _ticks(piece: pa.RecordBatch, step: float) -> Ticks:
    return nearest_ticks(piece.column(piece.num_columns - 1).to_numpy(zero_copy_only=False), step)


def _counts(tally: ThresholdCounts, piece: pa.RecordBatch, step: float, keys: int) -> pa.RecordBatch:
    first = pa.array(np.zeros(tally.thresholds.size, dtype=np.int64))
    source_columns = [column.take(first) for column in piece.columns[:keys]]
    figures = {
        "threshold": tally.thresholds * step,
        "events": np.full(tally.thresholds.size, tally.events, dtype=np.int64),
        "delivered": tally.delivered,
        "share": tally.delivered / max(1, tally.events),
        "largest_gap": tally.gaps * step,
        "longest_silence": tally.silences,
    }
    arrays = [*source_columns, *map(pa.array, figures.values())]
    return pa.RecordBatch.from_arrays(arrays, names=[*piece.schema.names[:keys], *figures])


def _rows(piece: pa.RecordBatch, indexes: Ticks, fired: Ticks, step: float) -> pa.RecordBatch:
    rows = piece.take(pa.array(indexes))
    return pa.RecordBatch.from_arrays([*rows.columns, pa.array(fired * step)], names=[*rows.schema.names, "threshold"])


THRESHOLD = "threshold"
COUNTS = [
    StructField(THRESHOLD, DoubleType()),
    StructField("events", LongType()),
    StructField("delivered", LongType()),
    StructField("share", DoubleType()),
    StructField("largest_gap", DoubleType()),
    StructField("longest_silence", LongType()),
]
"""by source and threshold: share of delivered events, largest error of the delivered value, longest run of events that
were not delivered"""


@dataclass(frozen=True)
class DeliveryRequest:
    """Parameters of the filter.

    thresholds: in ticks of `step`, ascending
    source, order: columns that identify a source, and that sort its rows
    """

    property: str
    thresholds: tuple[int, ...]
    step: float
    source: tuple[str, ...]
    order: tuple[str, ...]


def deliver(
    frame: DataFrame,
    property: str,
    thresholds: str | Sequence[float],
    *,
    step: float = 1,
    source: Sequence[str] | None = None,
    order: Sequence[str] | None = None,
    rows: bool = False,
) -> DataFrame:
    """Return counts of delivered events by source and threshold, or with `rows` the delivered rows.

    thresholds: in the unit of the property, multiples of `step`; as a text "1..1000", "0.5,2" or both
    step: the size of a tick; values are rounded to it
    source: columns that identify a source; by default that of `thinwire ingest`, else all rows are one source
    order: columns that sort events; by default those of `thinwire ingest`
    """
    ticks = checked_thresholds(ranged(thresholds, step) if isinstance(thresholds, str) else ticks_of(thresholds, step))
    known = frame.columns
    source_columns = tuple(source if source is not None else [SOURCE] if SOURCE in known else [])
    order_columns = tuple(order if order is not None else [name for name in ORDER if name in known])
    request = DeliveryRequest(property, tuple(ticks.tolist()), float(step), source_columns, order_columns)
    _check(frame, request)
    return _run_filter(_partition_by_source(frame, request), request, rows)


def totals(counts: DataFrame) -> DataFrame:
    """Return the counts over all sources by threshold."""
    summed = counts.groupBy(THRESHOLD).agg(
        F.count("*").alias("sources"),
        F.sum("events").alias("events"),
        F.sum("delivered").alias("delivered"),
        F.max("largest_gap").alias("largest_gap"),
        F.max("longest_silence").alias("longest_silence"),
    )
    return summed.withColumn("share", F.col("delivered") / F.col("events")).orderBy(THRESHOLD)


def _check(frame: DataFrame, request: DeliveryRequest) -> None:
    if not request.thresholds:
        raise ConfigError("at least one is needed", field="thresholds")
    if not request.order:
        raise ConfigError("name the columns that sort the rows", field="order", choose_from=frame.columns)
    key_columns = dict.fromkeys((*request.source, *request.order))
    for name in (request.property, *key_columns):
        if name not in frame.columns:
            raise ConfigError("no such column", column=name, choose_from=frame.columns)
        if name == THRESHOLD:
            raise ConfigError("the result has a column of this name", column=name)
    kind = frame.schema[request.property].dataType
    if request.property in key_columns or not isinstance(kind, NumericType):
        detail = "the property must be a number, and not a column of source or order"
        raise ConfigError(detail, field="property", column=request.property, type=kind.simpleString())


def _partition_by_source(frame: DataFrame, request: DeliveryRequest) -> DataFrame:
    """Return the needed columns of rows with a value, partitioned by source and sorted."""
    key_columns = dict.fromkeys((*request.source, *request.order))
    value = named(request.property)
    rows = frame.select(*map(named, key_columns), value.cast("double").alias(request.property))
    rows = rows.where(value.isNotNull() & ~F.isnan(value))
    source_columns, order_columns = [named(name) for name in request.source], [named(name) for name in request.order]
    partitioned = rows.repartition(*source_columns) if source_columns else rows.repartition(1)
    return partitioned.sortWithinPartitions(*source_columns, *order_columns)


def _run_filter(partitioned: DataFrame, request: DeliveryRequest, rows: bool) -> DataFrame:
    known = partitioned.schema.fields
    fields = [*known, COUNTS[0]] if rows else [*known[: len(request.source)], *COUNTS]
    work = deliver_rows if rows else count_deliveries

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return work(batches, request.thresholds, request.step, len(request.source))

    return partitioned.mapInArrow(run, StructType(fields))
