"""Matching on Spark: events by rectangles, every pair of which the event lies in the rectangle, exactly.

Two ways. `index`: the rectangles fit into one process; they travel to the tasks as an index, and events pass by it.
`grid`: events and rectangles meet in cells, by a join that Spark can spread over any number of machines.

A frame of rectangles has `id` and for each axis `_low` and `_high`; one of events has `id` and for each axis `_at`.
What comes out has a row a pair of `event` and distinct `rectangle` (the smallest id among identical ones) with the
rectangle's `multiplicity`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from thinwire.errors import ConfigError
from thinwire_lab.workload.rectangle_grid import quickest
from thinwire_lab.workload.spark.rectangle_match_match_grid import grid_join

Way = Literal["auto", "index", "grid"]
MOST_INDEXED = 2_000_000
"""distinct rectangles that travel to tasks"""
_PAIRS = "event long, rectangle long, multiplicity long"


def match(events: DataFrame, rectangles: DataFrame, axes: Sequence[str], *, way: Way = "auto") -> DataFrame:
    """All pairs of an event and a distinct rectangle that holds it, both ends included."""
    _check(events, rectangles, axes, way)
    if way == "grid":
        return grid_join(events, collapse(rectangles, axes), axes)
    if rectangles.count() <= MOST_INDEXED:
        # So few are collapsed quicker where the index is built than by a shuffle.
        single = rectangles.withColumnRenamed("id", "rectangle").withColumn("multiplicity", F.lit(1).cast("long"))
        return index_join(events, single, axes)
    distinct = collapse(rectangles, axes).cache()
    if way == "auto" and distinct.count() > MOST_INDEXED:
        return grid_join(events, distinct, axes)
    return index_join(events, distinct, axes)


def collapse(rectangles: DataFrame, axes: Sequence[str]) -> DataFrame:
    """Identical rectangles as one, with how many they are."""
    ends = [f"{axis}_{end}" for axis in axes for end in ("low", "high")]
    return rectangles.groupBy(*ends).agg(F.min("id").alias("rectangle"), F.count("*").alias("multiplicity"))


def index_join(events: DataFrame, rectangles: DataFrame, axes: Sequence[str]) -> DataFrame:
    """Events past an index of rectangles, which have a `rectangle` and a `multiplicity` each."""
    sides = [[f"{axis}_{end}" for axis in axes] for end in ("low", "high")]
    table = rectangles.select("rectangle", "multiplicity", *sides[0], *sides[1]).toArrow()
    low, high = (np.stack([table[name].to_numpy() for name in side], axis=1).astype(np.float64) for side in sides)
    index = quickest(low, high)
    names, counts = np.full(len(index), np.iinfo(np.int64).max), np.zeros(len(index), dtype=np.int64)
    np.minimum.at(names, index.distinct.of, table["rectangle"].to_numpy())
    np.add.at(counts, index.distinct.of, table["multiplicity"].to_numpy())
    columns = [f"{axis}_at" for axis in axes]

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            points = np.stack([batch.column(name).to_numpy(zero_copy_only=False) for name in columns], axis=1)
            ids = batch.column("id").to_numpy()
            for rows, found in index.match_batches(points):
                pairs = [pa.array(ids[rows]), pa.array(names[found]), pa.array(counts[found])]
                yield pa.RecordBatch.from_arrays(pairs, names=["event", "rectangle", "multiplicity"])

    return events.select("id", *columns).mapInArrow(run, _PAIRS)


def _check(events: DataFrame, rectangles: DataFrame, axes: Sequence[str], way: str) -> None:
    if way not in ("auto", "index", "grid"):
        raise ConfigError("no such way to match", way=way, known=["auto", "index", "grid"])
    needed = {"events": ["id", *(f"{axis}_at" for axis in axes)]}
    needed["rectangles"] = ["id", *(f"{axis}_{end}" for axis in axes for end in ("low", "high"))]
    for name, frame in (("events", events), ("rectangles", rectangles)):
        missing = [column for column in needed[name] if column not in frame.columns]
        if missing or not axes:
            raise ConfigError("columns are missing", table=name, missing=missing, axes=list(axes))
