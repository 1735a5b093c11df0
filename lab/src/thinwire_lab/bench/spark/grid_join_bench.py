"""Matching a million events with a million rectangles, beside the usual grid join, evenly spread and crowded.

Sides are up to 1/250 of the space, so an event lies in four rectangles where all is even. Crowded: half of both in a
twenty-fifth of the space. The workload: subscriptions and events of the built-in summary, where a rectangle that many
have asked for is one with a multiplicity. Quick runs have no bars: there a job is mostly its start.

The usual grid join: what a team writes in Spark SQL to find which rectangles hold which points.

One grid for all, its cells twice as wide as the longest side; rectangles are put into every cell they touch, points
into theirs, and what meets there is compared.
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

from thinwire_lab.bench.benchmark import Bar, Row, Setting
from thinwire_lab.bench.spark.process_usage import TWO, Spent, race, ratio, running
from thinwire_lab.workload.builtin_summary import builtin
from thinwire_lab.workload.recipe import Recipe, WorkloadPlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def usual_grid_join(events: DataFrame, rectangles: DataFrame, axes: Sequence[str]) -> DataFrame:
    """All pairs of `event` and `rectangle`; frames as `thinwire_lab.workload.spark.rectangle_match` takes them."""
    from pyspark.sql import functions as F

    sides = [F.max(F.col(f"{axis}_high") - F.col(f"{axis}_low")).alias(axis) for axis in axes]
    widest = rectangles.agg(*sides).collect()[0]
    cells = {axis: 2.0 * widest[axis] for axis in axes}
    here = events.select(F.col("id").alias("event"), *(F.col(f"{axis}_at") for axis in axes))
    there = rectangles.withColumnRenamed("id", "rectangle")
    for axis in axes:
        first, last = (F.floor(F.col(f"{axis}_{end}") / cells[axis]) for end in ("low", "high"))
        there = there.withColumn(f"{axis}_cell", F.explode(F.sequence(first, last)))
        here = here.withColumn(f"{axis}_cell", F.floor(F.col(f"{axis}_at") / cells[axis]))
    inside = reduce(and_, (F.col(f"{a}_at").between(F.col(f"{a}_low"), F.col(f"{a}_high")) for a in axes))
    return here.join(there, [f"{axis}_cell" for axis in axes]).where(inside).select("event", "rectangle")


SIDE = 1 / 250
CROWD, CORNER = 0.5, 0.2
"""the share of both that is crowded, and the side of the square where"""
AXES = ("topic", "language")
OURS, GRID, USUAL = "ours", "ours, by grid", "usual grid join"
CROWDED, WORKLOAD = "ours, crowded", "ours, workload"
LIMIT, CROWDED_LIMIT = 1.2, 3.0


class GridJoinSizes(NamedTuple):
    """Events, as many rectangles, and rounds after one that does not count; judged: whether it is enough for bars."""

    rows: int
    rounds: int
    judged: bool = False


FULL, QUICK = GridJoinSizes(1_000_000, 3, judged=True), GridJoinSizes(20_000, 1)


def matching(setting: Setting) -> Iterator[Row]:
    """All in the same run, taking turns; ours and the reference must find the same pairs."""
    with running() as spark:
        yield from matched(spark, QUICK if setting.quick else FULL, setting.progress)


def matched(
    spark: SparkSession, sizes: GridJoinSizes, progress: Callable[[float], None] = lambda share: None
) -> Iterator[Row]:
    """The same in a session that is there."""
    with TemporaryDirectory(prefix="thinwire-bench-") as folder:
        sets = _write(Path(folder), sizes.rows)
        found: dict[str, set[tuple[int, int]]] = {}

        def run(name: str, method: Callable[[], DataFrame]) -> Callable[[], None]:
            def once() -> None:
                spark.catalog.clearCache()  # what one round keeps must not spare the next one its work
                found.setdefault(name, set()).add(_checksum(method()))

            return once

        methods = {name: run(name, method) for name, method in _methods(spark, sets).items()}
        spent = race(methods, sizes.rounds, progress)
    pairs = {name: next(iter(own))[0] for name, own in found.items()}
    yield from _rows(sizes, pairs, spent, _trouble(found))


def _trouble(found: dict[str, set[tuple[int, int]]]) -> str:
    """What is wrong where those that are to find the same do not."""
    same = [found[name] for name in (OURS, GRID, USUAL)]
    alike = same[0] == same[1] == same[2] and len(same[0]) == 1
    return "" if alike else f"the methods do not agree: {found}"


def _rows(sizes: GridJoinSizes, pairs: dict[str, int], spent: dict[str, list[Spent]], trouble: str) -> Iterator[Row]:
    common = f"median of {len(spent[OURS])} rounds in turn on {TWO}"
    size = f"{sizes.rows:,} events x {sizes.rows:,} rectangles"
    limit, crowded = (LIMIT, CROWDED_LIMIT) if sizes.judged else (None, None)
    for name, high in ((OURS, limit), (GRID, None)):
        cpu = " to ".join(f"{spent[one][-1].cpu:.1f}" for one in (name, USUAL))
        how = f"{size}, {pairs[OURS]:,} pairs; last round {cpu} CPU-s; {common}"
        title = f"matching, {name}: CPU time to the usual grid join"
        yield Row(title, "times", ratio(spent[name], spent[USUAL]), high=high, how=how, note=trouble, sound=not trouble)
    for name in (CROWDED, WORKLOAD):
        share = pairs[OURS] / pairs[name]
        how = f"{size}, {pairs[name]:,} pairs to {pairs[OURS]:,}; last round {spent[name][-1].cpu:.1f} CPU-s; {common}"
        title = f"matching, {name}: CPU time a pair to that of evenly spread ones"
        yield Row(title, "times", share * ratio(spent[name], spent[OURS]), high=crowded, how=how)


def _methods(spark: SparkSession, sets: dict[str, Path]) -> dict[str, Callable[[], DataFrame]]:
    from thinwire_lab.workload.spark.rectangle_match import match

    def frames(name: str) -> tuple[DataFrame, DataFrame]:
        return tuple(spark.read.parquet(str(sets[name] / part)) for part in ("events", "rectangles"))  # type: ignore[return-value]

    return {
        OURS: lambda: match(*frames("even"), AXES),
        GRID: lambda: match(*frames("even"), AXES, method="grid"),
        USUAL: lambda: usual_grid_join(*frames("even"), AXES),
        CROWDED: lambda: match(*frames("crowded"), AXES),
        WORKLOAD: lambda: match(*frames("workload"), AXES),
    }


def _checksum(pairs: DataFrame) -> tuple[int, int]:
    """How many pairs, and a figure that any other pair would change."""
    from pyspark.sql import functions as F

    row: Any = pairs.agg(F.count("*"), F.bit_xor(F.xxhash64("event", "rectangle"))).collect()[0]
    return int(row[0]), int(row[1] or 0)


def _write(folder: Path, rows: int) -> dict[str, Path]:
    plan = WorkloadPlan(builtin(), Recipe(subscriptions=rows, events=rows, brokers=0, seed=1))
    numbers = np.arange(rows)
    tables = {
        "even": spread(rows, crowded=False),
        "crowded": spread(rows, crowded=True),
        "workload": (plan.events(numbers), plan.subscriptions(numbers)),
    }
    for name, (events, rectangles) in tables.items():
        for part, table in (("events", events), ("rectangles", rectangles)):
            (folder / name / part).mkdir(parents=True)
            whole = table if isinstance(table, pa.Table) else pa.Table.from_batches([table])
            for number in range(2):
                half = whole.slice(number * (rows // 2), rows // 2 + number * (rows % 2))
                pq.write_table(half, folder / name / part / f"{number}.parquet")
    return {name: folder / name for name in tables}


def spread(rows: int, *, crowded: bool, seed: int = 1) -> tuple[pa.Table, pa.Table]:
    """Events and rectangles, evenly or with half of both in a corner."""
    dice = np.random.default_rng(seed)
    places = []
    for _ in range(2):
        at = dice.random((rows, len(AXES)))
        places.append(np.where(dice.random((rows, 1)) < CROWD, at * CORNER, at) if crowded else at)
    low, sides = places[1], dice.random((rows, len(AXES))) * SIDE
    numbers = pa.array(np.arange(rows))
    events = {f"{axis}_at": places[0][:, lane] for lane, axis in enumerate(AXES)}
    corners = {
        f"{axis}_{end}": values[:, lane]
        for lane, axis in enumerate(AXES)
        for end, values in (("low", low), ("high", low + sides))
    }
    return pa.table({"id": numbers, **events}), pa.table({"id": numbers, **corners})


BARS = [Bar("matching on Spark", matching)]
