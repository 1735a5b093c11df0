"""Workloads on Spark: the rows of a plan as DataFrames, and all of them as a folder of Parquet tables.

Rows are drawn in blocks. A row depends on its number alone, so blocks may run anywhere, in any number of partitions;
what a task holds is a block, however many rows there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from thinwire.errors import ConfigError
from thinwire_lab.workload.recipe_plan import Plan

BLOCK = 1 << 16
"""rows that are drawn at once"""
BLOCKS_A_PARTITION = 8
MAX_PARTITIONS = 10_000


def subscriptions(spark: SparkSession, plan: Plan, *, partitions: int | None = None) -> DataFrame:
    """All subscriptions of a plan; their order is that of their ids within a partition."""
    return _drawn(spark, plan.subscriptions, plan.subscription_schema, plan.recipe.subscriptions, partitions)


def events(spark: SparkSession, plan: Plan, *, partitions: int | None = None) -> DataFrame:
    """All events of a plan."""
    return _drawn(spark, plan.events, plan.event_schema, plan.recipe.events, partitions)


def brokers(spark: SparkSession, plan: Plan) -> DataFrame:
    """All brokers of a plan: a number, a region and a place each."""
    found = plan.brokers.table()
    return spark.createDataFrame(found.add_column(0, "id", pa.array(np.arange(found.num_rows))))


def table_step(frame: DataFrame, step: Callable[[pa.Table], pa.Table], schema: Any = None) -> DataFrame:
    """A pure step on a small table, such as the members of a summary, as a transform: one task sees all rows.

    schema: of what comes out, by default that of what went in
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        taken = list(batches)
        if taken:
            yield from step(pa.Table.from_batches(taken)).to_batches()

    return frame.coalesce(1).mapInArrow(run, schema or frame.schema)


def _drawn(
    spark: SparkSession,
    draw: Callable[[Any], pa.RecordBatch],
    schema: pa.Schema,
    total: int,
    partitions: int | None,
) -> DataFrame:
    blocks = -(-total // BLOCK)
    count = _partitions(blocks, partitions)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for block in batch.column(0).to_pylist():
                yield draw(np.arange(block * BLOCK, min((block + 1) * BLOCK, total)))

    return spark.range(0, blocks, 1, count).mapInArrow(run, from_arrow_schema(schema))


def _partitions(blocks: int, asked: int | None) -> int:
    if asked is None:
        return max(1, min(-(-blocks // BLOCKS_A_PARTITION), MAX_PARTITIONS))
    if not 1 <= asked <= MAX_PARTITIONS:
        raise ConfigError("outside its limits", partitions=asked, lowest=1, highest=MAX_PARTITIONS)
    return asked
