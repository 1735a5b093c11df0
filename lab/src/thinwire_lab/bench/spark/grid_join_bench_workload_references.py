"""The usual grid join: what a team writes in Spark SQL to find which rectangles hold which points.

One grid for all, its cells twice as wide as the longest side; rectangles are put into every cell they touch, points
into theirs, and what meets there is compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
