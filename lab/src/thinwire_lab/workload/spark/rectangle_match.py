"""Matching on Spark: events by rectangles, every pair of which the event lies in the rectangle, exactly.

Two ways. `index`: the rectangles fit into one process; they travel to the tasks as an index, and events pass by it.
`grid`: events and rectangles meet in cells, by a join that Spark can spread over any number of machines.

A frame of rectangles has `id` and for each axis `_low` and `_high`; one of events has `id` and for each axis `_at`.
What comes out has a row a pair of `event` and distinct `rectangle` (the smallest id among identical ones) with the
rectangle's `multiplicity`.

The grid join: rectangles are put into the cells they touch, events into theirs, and both meet there.

Rectangles of very different sizes get grids of their own, with cells twice as wide as the sides of the largest, so that
each touches at most two cells along an axis; an event has a cell in every grid. Where a cell is so crowded that a task
would work long on it alone, its events are dealt to several copies of its rectangles.

The events of a workload matched with its rectangles, as a folder of pairs.
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
from thinwire_lab.workload.rectangle_grid import quickest
from thinwire_lab.workload.spark.workload_folder import new_folder, read_manifest, translated

NEAR = 3
"""powers of two by which the largest of a grid may be wider than the smallest"""
FEW = 0.1
"""a share of the rectangles that earns no grid of its own"""
MOST_GRIDS = 64
CROWDED = 4_000_000
"""comparisons in one cell beyond which it is split"""
MOST_COPIES = 64
MOST_CELLS = 10_000
"""cells that are split, the most crowded first: a table that travels to all tasks"""
SAMPLE = 100_000
"""events, and rectangles, from which crowds are estimated"""
SMALLEST, LARGEST = -60, 2.0**60


def grid_join(events: DataFrame, distinct: DataFrame, axes: Sequence[str]) -> DataFrame:
    """All pairs of an event and a distinct rectangle that holds it."""
    distinct = distinct.cache()
    sizes = GridSizes.of(distinct, axes)
    there = _touched(distinct, axes, sizes)
    here = _placed(events, axes, sizes)
    keys = [*(f"{axis}_grid" for axis in axes), *(f"{axis}_cell" for axis in axes)]
    copies = _crowded(events, distinct, axes, sizes, keys)
    if copies is not None:
        here, there = _dealt(here, there, copies, keys)
        keys = [*keys, "copy"]
    inside = reduce(and_, (F.col(f"{a}_at").between(F.col(f"{a}_low"), F.col(f"{a}_high")) for a in axes))
    return here.join(there, keys).where(inside).select("event", "rectangle", "multiplicity")


def grouped(exponents: Sequence[int], counts: Sequence[int]) -> dict[int, int]:
    """Which grid the sides of each power of two go to: that of the largest near them, unless they are few.

    >>> grouped([-8, -9, -10, -14, -15], [50, 25, 10, 10, 5])
    {-8: -8, -9: -8, -10: -8, -14: -14, -15: -14}
    >>> grouped([-8, -20], [99, 1])
    {-8: -8, -20: -8}
    """
    order = sorted(range(len(exponents)), key=lambda place: -exponents[place])
    found: dict[int, int] = {}
    left, top = sum(counts), exponents[order[0]]
    for place in order:
        if top - exponents[place] > NEAR and left >= FEW * sum(counts):
            top = exponents[place]
        found[exponents[place]] = top
        left -= counts[place]
    return found


class GridSizes(NamedTuple):
    """Of each axis the grid of every power of two that sides have, the combinations of grids that are used, and how
    many rectangles there are."""

    grid_of: list[dict[int, int]]
    used: list[tuple[int, ...]]
    rectangles: int

    @classmethod
    def of(cls, distinct: DataFrame, axes: Sequence[str]) -> GridSizes:
        """The grids that these rectangles need."""
        rows = distinct.groupBy(*(_exponent(axis).alias(axis) for axis in axes)).count().collect()
        if any(row[axis] is None for row in rows for axis in axes):
            raise ConfigError("the grid needs rectangles with finite sides: match by index", way="grid")
        tables = []
        for axis in axes:
            sizes = Counter[int]()
            for row in rows:
                sizes[row[axis]] += row["count"]
            tables.append(grouped(list(sizes), list(sizes.values())) if sizes else {})
        used = {tuple(table[row[axis]] for table, axis in zip(tables, axes, strict=True)) for row in rows}
        if len(used) > MOST_GRIDS:
            detail = "sides of too many sizes for the grid: match by index"
            raise ConfigError(detail, grids=len(used), limit=MOST_GRIDS)
        return cls(tables, sorted(used), sum(row["count"] for row in rows))


def _exponent(axis: str) -> Column:
    """The power of two that is at least as long as a side; null where the side has no end."""
    side = F.col(f"{axis}_high") - F.col(f"{axis}_low")
    power = F.ceil(F.log2(F.greatest(side, F.lit(2.0**SMALLEST)))).cast("int")
    return F.when(side <= F.lit(LARGEST), power)


def _touched(distinct: DataFrame, axes: Sequence[str], sizes: GridSizes) -> DataFrame:
    """A row for every cell that a rectangle touches in its grid."""
    for axis, table in zip(axes, sizes.grid_of, strict=True):
        found = F.create_map(*(F.lit(number) for pair in table.items() for number in pair)) if table else F.lit(0)
        grid = found[_exponent(axis)] if table else found
        distinct = distinct.withColumn(f"{axis}_grid", grid)
    for axis in axes:
        first, last = (_cell(F.col(f"{axis}_{end}"), F.col(f"{axis}_grid")) for end in ("low", "high"))
        distinct = distinct.withColumn(f"{axis}_cell", F.explode(F.sequence(first, last)))
    return distinct


def _placed(events: DataFrame, axes: Sequence[str], sizes: GridSizes) -> DataFrame:
    """A row for every grid that an event has a cell in."""
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
    """Cells with too many comparisons for one task, and how many copies of their rectangles to make.

    Both sides are estimated from samples; a wrong estimate costs time, never a pair.
    """
    few, one_in = _sampled(events, events.count())
    points = _placed(few, axes, sizes).groupBy(*keys).agg((F.count("*") * one_in).alias("points"))
    few, one_in = _sampled(distinct, sizes.rectangles)
    held = _touched(few, axes, sizes).groupBy(*keys).agg((F.count("*") * one_in).alias("held"))
    work = (F.col("points") * F.col("held") / F.lit(float(CROWDED))).cast("int")
    found = points.join(held, keys).select(*keys, F.least(work + 1, F.lit(MOST_COPIES)).alias("copies"))
    kept = found.where(F.col("copies") > 1).orderBy(F.desc("copies")).limit(MOST_CELLS).toArrow()
    return events.sparkSession.createDataFrame(kept) if kept.num_rows else None


def _sampled(rows: DataFrame, total: int) -> tuple[DataFrame, float]:
    """Some of so many rows, and how many each of them stands for."""
    share = min(1.0, SAMPLE / max(total, 1))
    return (rows.sample(fraction=share, seed=0) if share < 1.0 else rows), 1 / share


def _dealt(here: DataFrame, there: DataFrame, copies: DataFrame, keys: list[str]) -> tuple[DataFrame, DataFrame]:
    """Events of crowded cells dealt to copies of the rectangles there; everything else is copy 0."""
    many = F.coalesce(F.col("copies"), F.lit(1))
    told = F.broadcast(copies)
    dealt = here.join(told, keys, "left").withColumn("copy", F.pmod(F.xxhash64("event"), many).cast("int"))
    copied = there.join(told, keys, "left").withColumn("copy", F.explode(F.sequence(F.lit(0), many - 1)))
    return dealt.drop("copies"), copied.drop("copies")


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


def match_folder(
    spark: SparkSession, folder: Path, out: Path, *, way: Way = "auto", progress: Progress | None = None
) -> dict[str, int]:
    """Write all pairs of an event and a distinct rectangle; how many they are, and how many subscriptions hear."""
    axes = read_manifest(folder)["axes"]
    events, rectangles = (spark.read.parquet(str((folder / name).resolve())) for name in ("events", "subscriptions"))
    with new_folder(out) as unfinished, translated(out):
        place = str((unfinished / "pairs").resolve())
        pairs = match(events, rectangles, axes, way=way)
        run_action(spark, lambda: pairs.write.parquet(place), progress)
        sums = [F.count("*"), F.sum("multiplicity"), F.countDistinct("event")]
        row = spark.read.parquet(place).agg(*sums).collect()[0]
    return {"pairs": row[0], "notifications": row[1] or 0, "events": row[2]}
