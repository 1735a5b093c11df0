"""Exact matching of events and rectangles on Spark: all pairs in which the rectangle contains the event.

Frames of rectangles have `id` and for each axis `_low` and `_high`; frames of events have `id` and for each axis `_at`.
The result has one row per pair of `event` and distinct `rectangle` (the smallest id of identical ones), with the
`multiplicity` of the rectangle. There are two methods.

`index`: an index of the rectangles is sent to all tasks; it must fit into one process.

`grid`: a join by cells, which Spark can distribute. Rectangles are put into the cells that they touch. Rectangles of
very different sizes have separate grids with cells twice as wide as the sides of the largest, so that each touches at
most two cells along an axis. An event has one cell in each grid. The events of a crowded cell are distributed over
several copies of its rectangles.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from thinwire.errors import ConfigError
from thinwire.spark.action_progress import Progress, run_action
from thinwire_lab.workload.rectangle_grid import fastest_index
from thinwire_lab.workload.spark.workload_folder import new_folder, read_manifest, spark_errors

NEAR = 3
"""maximum ratio of sides within a grid, in powers of two"""
FEW = 0.1
"""minimum share of the rectangles for a grid of its own"""
MAX_GRIDS = 64
CROWDED = 4_000_000
"""comparisons per cell from which it is split"""
MAX_COPIES = 64
MAX_CELLS = 10_000
"""limit of split cells, most crowded first; this table is sent to all tasks"""
SAMPLE = 100_000
"""events and rectangles for the estimate of crowded cells"""
MIN_EXPONENT, MAX_SIDE = -60, 2.0**60


def grid_join(events: DataFrame, distinct: DataFrame, axes: Sequence[str]) -> DataFrame:
    """Return all pairs of an event and a distinct rectangle that contains it, joined by grid cells."""
    distinct = distinct.cache()
    sizes = GridSizes.of(distinct, axes)
    boxes = _touched(distinct, axes, sizes)
    points = _event_cells(events, axes, sizes)
    keys = [*(f"{axis}_grid" for axis in axes), *(f"{axis}_cell" for axis in axes)]
    copies = _crowded(events, distinct, axes, sizes, keys)
    if copies is not None:
        points, boxes = _split(points, boxes, copies, keys)
        keys = [*keys, "copy"]
    contained = reduce(and_, (F.col(f"{a}_at").between(F.col(f"{a}_low"), F.col(f"{a}_high")) for a in axes))
    return points.join(boxes, keys).where(contained).select("event", "rectangle", "multiplicity")


def group_sides(exponents: Sequence[int], counts: Sequence[int]) -> dict[int, int]:
    """Return the grid of the sides of each power of two: that of the next larger ones, unless these are far and many
    remain.

    >>> group_sides([-8, -9, -10, -14, -15], [50, 25, 10, 10, 5])
    {-8: -8, -9: -8, -10: -8, -14: -14, -15: -14}
    >>> group_sides([-8, -20], [99, 1])
    {-8: -8, -20: -8}
    """
    order = sorted(range(len(exponents)), key=lambda index: -exponents[index])
    grid_of: dict[int, int] = {}
    remaining, top = sum(counts), exponents[order[0]]
    for index in order:
        if top - exponents[index] > NEAR and remaining >= FEW * sum(counts):
            top = exponents[index]
        grid_of[exponents[index]] = top
        remaining -= counts[index]
    return grid_of


class GridSizes(NamedTuple):
    """Grids of rectangles.

    grid_of: grid of each power of two that sides have, by axis
    used: combinations of grids
    rectangles: number of distinct rectangles
    """

    grid_of: list[dict[int, int]]
    used: list[tuple[int, ...]]
    rectangles: int

    @classmethod
    def of(cls, distinct: DataFrame, axes: Sequence[str]) -> GridSizes:
        """Return the grids of these rectangles."""
        rows = distinct.groupBy(*(_exponent(axis).alias(axis) for axis in axes)).count().collect()
        if any(row[axis] is None for row in rows for axis in axes):
            raise ConfigError("the grid needs rectangles with finite sides; use the index", way="grid")
        tables = []
        for axis in axes:
            sizes = Counter[int]()
            for row in rows:
                sizes[row[axis]] += row["count"]
            tables.append(group_sides(list(sizes), list(sizes.values())) if sizes else {})
        used = {tuple(table[row[axis]] for table, axis in zip(tables, axes, strict=True)) for row in rows}
        if len(used) > MAX_GRIDS:
            detail = "too many sizes of sides for the grid; use the index"
            raise ConfigError(detail, grids=len(used), limit=MAX_GRIDS)
        return cls(tables, sorted(used), sum(row["count"] for row in rows))


def _exponent(axis: str) -> Column:
    """Return the exponent of the power of two that is at least the length of a side; null for an infinite side."""
    side = F.col(f"{axis}_high") - F.col(f"{axis}_low")
    power = F.ceil(F.log2(F.greatest(side, F.lit(2.0**MIN_EXPONENT)))).cast("int")
    return F.when(side <= F.lit(MAX_SIDE), power)


def _touched(distinct: DataFrame, axes: Sequence[str], sizes: GridSizes) -> DataFrame:
    """Return one row for each cell that a rectangle touches in its grid."""
    for axis, table in zip(axes, sizes.grid_of, strict=True):
        grids = F.create_map(*(F.lit(number) for pair in table.items() for number in pair)) if table else F.lit(0)
        grid = grids[_exponent(axis)] if table else grids
        distinct = distinct.withColumn(f"{axis}_grid", grid)
    for axis in axes:
        first, last = (_cell(F.col(f"{axis}_{end}"), F.col(f"{axis}_grid")) for end in ("low", "high"))
        distinct = distinct.withColumn(f"{axis}_cell", F.explode(F.sequence(first, last)))
    return distinct


def _event_cells(events: DataFrame, axes: Sequence[str], sizes: GridSizes) -> DataFrame:
    """Return one row per event and grid, with its cell."""
    grids = F.array(*(F.struct(*(F.lit(g).alias(f"{a}_grid") for a, g in _pairs(axes, used))) for used in sizes.used))
    rows = events.select(F.col("id").alias("event"), *(F.col(f"{axis}_at") for axis in axes))
    if not sizes.used:
        grids = F.array(F.struct(*(F.lit(0).alias(f"{axis}_grid") for axis in axes)))
    rows = rows.withColumn("grids", F.explode(grids)).select(*rows.columns, "grids.*")
    cells = {f"{axis}_cell": _cell(F.col(f"{axis}_at"), F.col(f"{axis}_grid")) for axis in axes}
    return rows.withColumns(cells)


def _pairs(axes: Sequence[str], used: tuple[int, ...]) -> list[tuple[str, int]]:
    return list(zip(axes, used, strict=True))


def _cell(value: Column, grid: Column) -> Column:
    return F.floor(value * F.pow(F.lit(2.0), -(grid + 1).cast("double")))


def _crowded(
    events: DataFrame, distinct: DataFrame, axes: Sequence[str], sizes: GridSizes, keys: list[str]
) -> DataFrame | None:
    """Return cells with too many comparisons for one task, and the number of copies of their rectangles.

    Estimated from samples; the result of the join does not depend on it.
    """
    sample, factor = _sampled(events, events.count())
    points = _event_cells(sample, axes, sizes).groupBy(*keys).agg((F.count("*") * factor).alias("points"))
    sample, factor = _sampled(distinct, sizes.rectangles)
    boxes = _touched(sample, axes, sizes).groupBy(*keys).agg((F.count("*") * factor).alias("boxes"))
    work = (F.col("points") * F.col("boxes") / F.lit(float(CROWDED))).cast("int")
    counted = points.join(boxes, keys).select(*keys, F.least(work + 1, F.lit(MAX_COPIES)).alias("copies"))
    crowded = counted.where(F.col("copies") > 1).orderBy(F.desc("copies")).limit(MAX_CELLS).toArrow()
    return events.sparkSession.createDataFrame(crowded) if crowded.num_rows else None


def _sampled(rows: DataFrame, total: int) -> tuple[DataFrame, float]:
    """Return a sample of rows, and the number of rows that each represents."""
    share = min(1.0, SAMPLE / max(total, 1))
    return (rows.sample(fraction=share, seed=0) if share < 1.0 else rows), 1 / share


def _split(points: DataFrame, boxes: DataFrame, copies: DataFrame, keys: list[str]) -> tuple[DataFrame, DataFrame]:
    """Distribute the events of crowded cells over copies of the rectangles; all other rows are copy 0."""
    number = F.coalesce(F.col("copies"), F.lit(1))
    small = F.broadcast(copies)
    distributed = points.join(small, keys, "left").withColumn("copy", F.pmod(F.xxhash64("event"), number).cast("int"))
    copied = boxes.join(small, keys, "left").withColumn("copy", F.explode(F.sequence(F.lit(0), number - 1)))
    return distributed.drop("copies"), copied.drop("copies")


MatchMethod = Literal["auto", "index", "grid"]
MAX_INDEXED = 2_000_000
"""distinct rectangles that are sent to tasks"""
_PAIRS = "event long, rectangle long, multiplicity long"


def match(events: DataFrame, rectangles: DataFrame, axes: Sequence[str], *, method: MatchMethod = "auto") -> DataFrame:
    """Return all pairs of an event and a distinct rectangle that contains it, both ends included."""
    _check(events, rectangles, axes, method)
    if method == "grid":
        return grid_join(events, collapse(rectangles, axes), axes)
    if rectangles.count() <= MAX_INDEXED:
        # The index collapses so few rectangles faster than a shuffle.
        single = rectangles.withColumnRenamed("id", "rectangle").withColumn("multiplicity", F.lit(1).cast("long"))
        return index_join(events, single, axes)
    distinct = collapse(rectangles, axes).cache()
    if method == "auto" and distinct.count() > MAX_INDEXED:
        return grid_join(events, distinct, axes)
    return index_join(events, distinct, axes)


def collapse(rectangles: DataFrame, axes: Sequence[str]) -> DataFrame:
    """Return distinct rectangles with their multiplicity."""
    ends = [f"{axis}_{end}" for axis in axes for end in ("low", "high")]
    return rectangles.groupBy(*ends).agg(F.min("id").alias("rectangle"), F.count("*").alias("multiplicity"))


def index_join(events: DataFrame, rectangles: DataFrame, axes: Sequence[str]) -> DataFrame:
    """Return the pairs of events and rectangles (with `rectangle` and `multiplicity`), found by an index."""
    sides = [[f"{axis}_{end}" for axis in axes] for end in ("low", "high")]
    table = rectangles.select("rectangle", "multiplicity", *sides[0], *sides[1]).toArrow()
    low, high = (np.stack([table[name].to_numpy() for name in side], axis=1).astype(np.float64) for side in sides)
    index = fastest_index(low, high)
    names, counts = np.full(len(index), np.iinfo(np.int64).max), np.zeros(len(index), dtype=np.int64)
    np.minimum.at(names, index.distinct.row_of, table["rectangle"].to_numpy())
    np.add.at(counts, index.distinct.row_of, table["multiplicity"].to_numpy())
    columns = [f"{axis}_at" for axis in axes]

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            points = np.stack([batch.column(name).to_numpy(zero_copy_only=False) for name in columns], axis=1)
            ids = batch.column("id").to_numpy()
            for rows, boxes in index.match_batches(points):
                pairs = [pa.array(ids[rows]), pa.array(names[boxes]), pa.array(counts[boxes])]
                yield pa.RecordBatch.from_arrays(pairs, names=["event", "rectangle", "multiplicity"])

    return events.select("id", *columns).mapInArrow(run, _PAIRS)


def _check(events: DataFrame, rectangles: DataFrame, axes: Sequence[str], method: str) -> None:
    if method not in ("auto", "index", "grid"):
        raise ConfigError("unknown match method", way=method, known=["auto", "index", "grid"])
    needed = {"events": ["id", *(f"{axis}_at" for axis in axes)]}
    needed["rectangles"] = ["id", *(f"{axis}_{end}" for axis in axes for end in ("low", "high"))]
    for name, frame in (("events", events), ("rectangles", rectangles)):
        missing = [column for column in needed[name] if column not in frame.columns]
        if missing or not axes:
            raise ConfigError("columns are missing", table=name, missing=missing, axes=list(axes))


def match_folder(
    spark: SparkSession, folder: Path, out: Path, *, method: MatchMethod = "auto", progress: Progress | None = None
) -> dict[str, int]:
    """Write all pairs of the events and the distinct rectangles of a workload.

    Return the number of pairs, of matching subscriptions and of matched events.
    """
    axes = read_manifest(folder)["axes"]
    events, rectangles = (spark.read.parquet(str((folder / name).resolve())) for name in ("events", "subscriptions"))
    with new_folder(out) as unfinished, spark_errors(out):
        path = str((unfinished / "pairs").resolve())
        pairs = match(events, rectangles, axes, method=method)
        run_action(spark, lambda: pairs.write.parquet(path), progress)
        sums = [F.count("*"), F.sum("multiplicity"), F.countDistinct("event")]
        row = spark.read.parquet(path).agg(*sums).collect()[0]
    return {"pairs": row[0], "notifications": row[1] or 0, "events": row[2]}
