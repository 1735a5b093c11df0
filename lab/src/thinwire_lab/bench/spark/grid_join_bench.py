"""Benchmark of matching a million events with a million rectangles on Spark, compared with the usual grid join.

Sides are up to 1/250 of the space, so an event lies in four rectangles if they are spread evenly. Crowded: half of both
lies in a twenty-fifth of the space. Workload: subscriptions and events of the built-in summary, in which a rectangle of
several subscriptions has a multiplicity. Quick runs have no required results: they mostly measure the start of a job.

The usual grid join is what a team writes in Spark SQL: one grid whose cells are twice as wide as the longest side, with
rectangles in every cell that they touch, and a comparison of the rectangles and points of each cell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from operator import and_
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from thinwire_lab.bench.benchmark import Benchmark, Row, Setting
from thinwire_lab.bench.spark.process_usage import TWO_CORES, ProcessUsage, race, ratio, spark_session
from thinwire_lab.workload.builtin_summary import builtin
from thinwire_lab.workload.recipe import Recipe, WorkloadPlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def usual_grid_join(events: DataFrame, rectangles: DataFrame, axes: Sequence[str]) -> DataFrame:
    """Return all pairs of `event` and `rectangle`, from tables as in `thinwire_lab.workload.spark.rectangle_match`."""
    from pyspark.sql import functions as F

    sides = [F.max(F.col(f"{axis}_high") - F.col(f"{axis}_low")).alias(axis) for axis in axes]
    widest = rectangles.agg(*sides).collect()[0]
    cells = {axis: 2.0 * widest[axis] for axis in axes}
    points = events.select(F.col("id").alias("event"), *(F.col(f"{axis}_at") for axis in axes))
    boxes = rectangles.withColumnRenamed("id", "rectangle")
    for axis in axes:
        first, last = (F.floor(F.col(f"{axis}_{end}") / cells[axis]) for end in ("low", "high"))
        boxes = boxes.withColumn(f"{axis}_cell", F.explode(F.sequence(first, last)))
        points = points.withColumn(f"{axis}_cell", F.floor(F.col(f"{axis}_at") / cells[axis]))
    inside = reduce(and_, (F.col(f"{a}_at").between(F.col(f"{a}_low"), F.col(f"{a}_high")) for a in axes))
    return points.join(boxes, [f"{axis}_cell" for axis in axes]).where(inside).select("event", "rectangle")


SIDE = 1 / 250
CROWDED_SHARE, CORNER = 0.5, 0.2
"""the share of both in the crowded square, and the side of the square"""
AXES = ("topic", "language")
OURS, GRID, USUAL = "ours", "ours, by grid", "usual grid join"
CROWDED, WORKLOAD = "ours, crowded", "ours, workload"
MAX_TIME, MAX_CROWDED_TIME = 1.2, 3.0


class GridJoinSizes(NamedTuple):
    """Number of events and of rectangles, and rounds after the uncounted one.

    has_requirements: whether the size suffices for required results
    """

    rows: int
    rounds: int
    has_requirements: bool = False


FULL, QUICK = GridJoinSizes(1_000_000, 3, has_requirements=True), GridJoinSizes(20_000, 1)


def matching(setting: Setting) -> Iterator[Row]:
    """Run all methods in turn. Ours and the reference must find the same pairs."""
    with spark_session() as spark:
        yield from match_in_session(spark, QUICK if setting.quick else FULL, setting.progress)


def match_in_session(
    spark: SparkSession, sizes: GridJoinSizes, progress: Callable[[float], None] = lambda share: None
) -> Iterator[Row]:
    """Run all methods in a session."""
    with TemporaryDirectory(prefix="thinwire-bench-") as folder:
        sets = _write(Path(folder), sizes.rows)
        found: dict[str, set[tuple[int, int]]] = {}

        def run(name: str, method: Callable[[], DataFrame]) -> Callable[[], None]:
            def run_once() -> None:
                spark.catalog.clearCache()  # cached results would shorten the next round
                found.setdefault(name, set()).add(_checksum(method()))

            return run_once

        methods = {name: run(name, method) for name, method in _methods(spark, sets).items()}
        usages = race(methods, sizes.rounds, progress)
    pairs = {name: next(iter(own))[0] for name, own in found.items()}
    yield from _rows(sizes, pairs, usages, _describe_invalid(found))


def _describe_invalid(found: dict[str, set[tuple[int, int]]]) -> str:
    """Return the difference of the results; empty if the methods agree."""
    same = [found[name] for name in (OURS, GRID, USUAL)]
    alike = same[0] == same[1] == same[2] and len(same[0]) == 1
    return "" if alike else f"the methods do not agree: {found}"


def _rows(
    sizes: GridJoinSizes, pairs: dict[str, int], usages: dict[str, list[ProcessUsage]], invalid: str
) -> Iterator[Row]:
    common = f"median of {len(usages[OURS])} rounds in turn on {TWO_CORES}"
    size = f"{sizes.rows:,} events x {sizes.rows:,} rectangles"
    limit, crowded = (MAX_TIME, MAX_CROWDED_TIME) if sizes.has_requirements else (None, None)
    for name, high in ((OURS, limit), (GRID, None)):
        cpu = " to ".join(f"{usages[one][-1].cpu:.1f}" for one in (name, USUAL))
        how = f"{size}, {pairs[OURS]:,} pairs; last round {cpu} CPU-s; {common}"
        title = f"matching, {name}: CPU time to the usual grid join"
        yield Row(title, "times", ratio(usages[name], usages[USUAL]), high=high, how=how, invalid=invalid)
    for name in (CROWDED, WORKLOAD):
        share = pairs[OURS] / pairs[name]
        how = f"{size}, {pairs[name]:,} pairs to {pairs[OURS]:,}; last round {usages[name][-1].cpu:.1f} CPU-s; {common}"
        title = f"matching, {name}: CPU time a pair to that of evenly spread ones"
        yield Row(title, "times", share * ratio(usages[name], usages[OURS]), high=crowded, how=how)


def _methods(spark: SparkSession, sets: dict[str, Path]) -> dict[str, Callable[[], DataFrame]]:
    from thinwire_lab.workload.spark.rectangle_match import match

    def tables(name: str) -> tuple[DataFrame, DataFrame]:
        return tuple(spark.read.parquet(str(sets[name] / part)) for part in ("events", "rectangles"))  # type: ignore[return-value]

    return {
        OURS: lambda: match(*tables("even"), AXES),
        GRID: lambda: match(*tables("even"), AXES, method="grid"),
        USUAL: lambda: usual_grid_join(*tables("even"), AXES),
        CROWDED: lambda: match(*tables("crowded"), AXES),
        WORKLOAD: lambda: match(*tables("workload"), AXES),
    }


def _checksum(pairs: DataFrame) -> tuple[int, int]:
    """Return the number of pairs and a checksum of them."""
    from pyspark.sql import functions as F

    row: Any = pairs.agg(F.count("*"), F.bit_xor(F.xxhash64("event", "rectangle"))).collect()[0]
    return int(row[0]), int(row[1] or 0)


def _write(folder: Path, rows: int) -> dict[str, Path]:
    plan = WorkloadPlan(builtin(), Recipe(subscriptions=rows, events=rows, brokers=0, seed=1))
    numbers = np.arange(rows)
    workloads = {
        "even": spread(rows, crowded=False),
        "crowded": spread(rows, crowded=True),
        "workload": (plan.events(numbers), plan.subscriptions(numbers)),
    }
    for name, (events, rectangles) in workloads.items():
        for part, table in (("events", events), ("rectangles", rectangles)):
            (folder / name / part).mkdir(parents=True)
            complete = table if isinstance(table, pa.Table) else pa.Table.from_batches([table])
            for number in range(2):
                half = complete.slice(number * (rows // 2), rows // 2 + number * (rows % 2))
                pq.write_table(half, folder / name / part / f"{number}.parquet")
    return {name: folder / name for name in workloads}


def spread(rows: int, *, crowded: bool, seed: int = 1) -> tuple[pa.Table, pa.Table]:
    """Return events and rectangles, spread evenly or with half of both in a corner."""
    generator = np.random.default_rng(seed)
    points = []
    for _ in range(2):
        values = generator.random((rows, len(AXES)))
        points.append(
            np.where(generator.random((rows, 1)) < CROWDED_SHARE, values * CORNER, values) if crowded else values
        )
    low, sides = points[1], generator.random((rows, len(AXES))) * SIDE
    numbers = pa.array(np.arange(rows))
    events = {f"{axis}_at": points[0][:, index] for index, axis in enumerate(AXES)}
    corners = {
        f"{axis}_{end}": values[:, index]
        for index, axis in enumerate(AXES)
        for end, values in (("low", low), ("high", low + sides))
    }
    return pa.table({"id": numbers, **events}), pa.table({"id": numbers, **corners})


BENCHMARKS = [Benchmark("matching on Spark", matching)]
