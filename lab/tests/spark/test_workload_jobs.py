"""Workloads on Spark: the rows of the plan for any number of partitions; no incomplete folder has a manifest."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from thinwire.errors import ConfigError, JobFailed
from thinwire_lab.cli.workload_reports import describe_folder, plot_folder
from thinwire_lab.workload.builtin_summary import builtin
from thinwire_lab.workload.recipe import Recipe, WorkloadPlan
from thinwire_lab.workload.spark import workload_folder as job
from thinwire_lab.workload.spark.rectangle_match import match_folder
from thinwire_lab.workload.spark.workload_folder import MANIFEST, generate, spark_errors

RECIPE = Recipe(subscriptions=2_500, events=1_700, brokers=12, seed=7, noise=0.2)


@pytest.mark.parametrize("partitions", [1, 3])
def test_spark_draws_the_rows_of_the_plan(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, partitions: int
) -> None:
    monkeypatch.setattr(job, "BLOCK", 512)
    plan = WorkloadPlan(builtin(), RECIPE)
    pairs = [
        (job.subscriptions(spark, plan, partitions=partitions), plan.subscriptions(np.arange(2_500))),
        (job.events(spark, plan, partitions=partitions), plan.events(np.arange(1_700))),
    ]
    for frame, expected in pairs:
        assert frame.toArrow().sort_by("id").combine_chunks() == pa.Table.from_batches([expected])


def test_a_folder_is_complete_with_its_manifest(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "wide"
    manifest = generate(spark, builtin(), RECIPE, out, partitions=2)
    assert json.loads((out / MANIFEST).read_text()) == manifest
    assert manifest["recipe"]["seed"] == 7
    assert pq.read_table(out / "brokers").num_rows == 12
    found = describe_folder(out)
    assert found["tables"]["subscriptions"][0] == 2_500
    assert found["drawn"]["subscribers"] == 2_500
    assert found["missed"]["interests"] == manifest["stages"][-1]["interests"] - found["drawn"]["interests"]
    assert found["missed"]["interests"] < found["missed"]["plain_sampling"]
    assert [len(nodes) for nodes in found["missed"]["most_popular"]] == [2] * 10
    if find_spec("matplotlib") is not None:
        names = {path.stem for path in plot_folder(out, found, tmp_path / "shown")}
        assert names == {"interests", "regions", "correlation", "places"}
        assert all(path.stat().st_size > 1_000 for path in (tmp_path / "shown").iterdir())
    with pytest.raises(ConfigError, match="the folder exists"):
        generate(spark, builtin(), RECIPE, out)
    _matched(spark, out, tmp_path / "matched")


def _matched(spark: SparkSession, wide: Path, out: Path) -> None:
    """All pairs of a brute-force comparison are found; an unknown method writes nothing."""
    plan = WorkloadPlan(builtin(), RECIPE)
    table, points = plan.subscriptions(np.arange(2_500)), plan.events(np.arange(1_700))
    low, high = (np.stack([table[f"{a.name}_{end}"].to_numpy() for a in plan.axes], 1) for end in ("low", "high"))
    at = np.stack([points[f"{axis.name}_at"].to_numpy() for axis in plan.axes], 1)[:, None]
    inside = ((low <= at) & (at <= high)).all(axis=2)
    found = match_folder(spark, wide, out)
    assert (found["notifications"], found["events"]) == (inside.sum(), inside.any(axis=1).sum())
    assert pq.read_table(out / "pairs").num_rows == found["pairs"]
    with pytest.raises(ConfigError, match="unknown match method"):
        match_folder(spark, wide, out.with_name("other"), method="magic")  # type: ignore[arg-type]
    assert not list(out.parent.glob("other*"))


def test_what_fails_in_mid_job_leaves_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("thinwire_lab.workload.spark.workload_folder._write", full)
    with pytest.raises(OSError, match="No space left"):
        generate(spark, builtin(), RECIPE, tmp_path / "wide")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ConfigError, match="no finished workload"):
        describe_folder(tmp_path)


def test_the_first_error_of_a_chain_is_reported() -> None:
    chain = "Job aborted.\n\tat a.b(C.java:1)\nCaused by: x.Y: task failed\nCaused by: java.io.IOException: No space\n"
    with (
        pytest.raises(JobFailed, match=r"nothing was written: java\.io\.IOException: No space"),
        spark_errors(Path("w")),
    ):
        raise PySparkException(chain)
    task = 'In the worker:\nTraceback (most recent call last):\n  File "a.py"\nOSError: full\n SQLSTATE: 1'
    with pytest.raises(JobFailed, match="nothing was written: OSError: full"), spark_errors(Path("w")):
        raise PySparkException(task)
    with pytest.raises(JobFailed, match="nothing was written: odd"), spark_errors(Path("w")):
        raise PySparkException("odd\nand long")
