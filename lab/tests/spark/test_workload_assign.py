"""Assignment on Spark: the costs of the pure functions, and a broker for every subscription."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from assignment_population import AssignmentPopulation, compute_costs, group_subscriptions
from pyspark.sql import SparkSession

from thinwire.errors import ConfigError
from thinwire_lab.workload.assignment.broker_assignment import policies
from thinwire_lab.workload.builtin_summary import builtin
from thinwire_lab.workload.recipe import Recipe
from thinwire_lab.workload.spark import assignment_job as job
from thinwire_lab.workload.spark.workload_folder import generate, read_manifest

SOURCE = str(Path(__file__).parents[3] / "src")
RECIPE = Recipe(subscriptions=3_000, events=400, brokers=8, seed=5)


@pytest.fixture(scope="module")
def wide(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("assign") / "wide"
    generate(spark, builtin(), RECIPE, out, partitions=3)
    return out


def stacked(path: Path, names: list[str]) -> np.ndarray:
    table = pq.read_table(path).sort_by("id")
    return np.stack([table[name].to_numpy() for name in names], axis=1)


def test_costs_are_those_of_the_pure_functions(spark: SparkSession, wide: Path) -> None:
    names = job.WorkloadColumns.of(read_manifest(wide))
    corners = [stacked(wide / "subscriptions", side) for side in (names.low, names.high, names.at)]
    town = AssignmentPopulation(
        *corners, stacked(wide / "brokers", names.at), stacked(wide / "events", names.event)[:300]
    )
    groups, of = group_subscriptions(town)
    wanted = policies("all", [1.5])
    assigned, found = job.assign(spark, wide, wanted, sample=300)
    assert assigned.groups.weight.sum() == 3_000
    for policy, own in zip(wanted, found, strict=True):
        expected = compute_costs(town, groups, of, policy.choose(groups))
        assert own._replace(p50=0, p90=0, p99=0) == pytest.approx(expected._replace(p50=0, p90=0, p99=0))
        assert own[2:5] == pytest.approx(expected[2:5], abs=0.5)  # of 3,000 neighbours in the order one may be meant
    rows = spark.read.parquet(str(wide / "subscriptions"))
    table = job.assignments(rows, names, assigned).toArrow().sort_by("id")
    assert (table["proximity"].to_numpy() == groups.nearest[of]).all()


def test_what_cannot_be_assigned_is_refused(
    spark: SparkSession, wide: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "MAX_GROUPS", 100)
    with pytest.raises(ConfigError, match="too many different interests"):
        job.assign(spark, wide, policies("proximity"))
    with pytest.raises(ConfigError, match="no finished workload"):
        job.assign(spark, tmp_path, policies("proximity"))
    generate(spark, builtin(), Recipe(subscriptions=10, events=10, brokers=0), tmp_path / "bare")
    with pytest.raises(ConfigError, match="no brokers"):
        job.assign(spark, tmp_path / "bare", policies("proximity"))


@pytest.mark.slow
def test_the_verb_keeps_assignments_and_draws(wide: Path, tmp_path: Path) -> None:
    """In a process of its own: a verb stops its session."""
    out = tmp_path / "assigned"
    options = ["--limits", "1.5,none", "--out", str(out), "--master", "local[2]", "--json"]
    command = [sys.executable, "-m", "thinwire", "workload", "assign", str(wide), *options]
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    names = [row["policy"] for row in json.loads(done.stdout)["policies"]]
    assert names == ["proximity", "joint, 1.5x", "joint, no limit", "interest"]
    assert pq.read_table(out / "assignments").column_names == ["id", *names]
    if find_spec("matplotlib") is not None:
        assert (out / "costs.png").stat().st_size > 1_000
