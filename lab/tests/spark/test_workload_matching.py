"""Matching on Spark: by grid and by index, exactly what a comparison of everything with everything finds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from thinwire.errors import ConfigError
from thinwire_lab.workload.builtin_summary import builtin
from thinwire_lab.workload.recipe import Recipe, WorkloadPlan
from thinwire_lab.workload.spark import rectangle_match as match_grid
from thinwire_lab.workload.spark.rectangle_match import match

AXES = ("topic", "language")


def workload(noise: float) -> tuple[pa.Table, pa.Table]:
    plan = WorkloadPlan(builtin(), Recipe(subscriptions=800, events=300, brokers=1, seed=3, noise=noise))
    drawn = plan.subscriptions(np.arange(800)), plan.events(np.arange(300))
    return tuple(pa.Table.from_batches([batch]) for batch in drawn)  # type: ignore[return-value]


def brute(rectangles: pa.Table, events: pa.Table) -> list[tuple[int, int, int]]:
    """Every event with every distinct rectangle."""
    first: dict[tuple[float, ...], list[int]] = {}
    ends = [rectangles[f"{axis}_{end}"].to_pylist() for axis in AXES for end in ("low", "high")]
    for row, corners in enumerate(zip(*ends, strict=True)):
        first.setdefault(corners, []).append(row)
    points = list(zip(*(events[f"{axis}_at"].to_pylist() for axis in AXES), strict=True))
    return sorted(
        (event, rows[0], len(rows))
        for event, point in enumerate(points)
        for corners, rows in first.items()
        if all(corners[2 * a] <= x <= corners[2 * a + 1] for a, x in enumerate(point))
    )


@pytest.mark.parametrize("method", ["auto", "grid", "split"])
@pytest.mark.parametrize("noise", [0.0, 0.4])
def test_pairs_are_those_of_brute_force(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, method: str, noise: float
) -> None:
    if method == "split":
        monkeypatch.setattr(match_grid, "CROWDED", 20)
    rectangles, events = workload(noise)
    frames = spark.createDataFrame(events), spark.createDataFrame(rectangles)
    found = match(*frames, AXES, method="grid" if method == "split" else method)  # type: ignore[arg-type]
    assert sorted(map(tuple, found.collect())) == brute(rectangles, events)


def test_nothing_matches_nothing(spark: SparkSession) -> None:
    rectangles, events = workload(0.0)
    none = spark.createDataFrame(rectangles).where("false")
    for method in ("grid", "index"):
        assert match(spark.createDataFrame(events), none, AXES, method=method).count() == 0  # type: ignore[arg-type]


def test_missing_columns_and_unknown_methods_are_rejected(spark: SparkSession) -> None:
    rectangles, events = map(spark.createDataFrame, workload(0.0))
    with pytest.raises(ConfigError, match=r"table='events', missing=\['price_at'\]"):
        match(events, rectangles, ["price"])
    with pytest.raises(ConfigError, match="unknown match method"):
        match(events, rectangles, AXES, method="magic")  # type: ignore[arg-type]
