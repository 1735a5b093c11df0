"""The benchmarks of workloads on Spark at tiny sizes, in the session of the tests."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from thinwire_lab.bench.benchmark import Row, Setting
from thinwire_lab.bench.spark import grid_join_bench as workload_matching
from thinwire_lab.bench.spark.grid_join_bench import CORNER, CROWDED_SHARE, SIDE, match_in_session, spread
from thinwire_lab.bench.spark.process_usage import ProcessUsage
from thinwire_lab.bench.spark.workload_bench import (
    FULL,
    QUICK,
    WorkloadSize,
    WorkloadSizes,
    assign_in_session,
    gain_rows,
    generation_rows,
    measure_generation,
)
from thinwire_lab.workload.assignment.assignment_costs import AssignmentCosts

TINY = WorkloadSizes((300, 600), 100, 1_000, 6)
COSTS = {
    "proximity": AssignmentCosts(9, 10.0, 1, 20.0, 3, 1),
    "joint, 1.1x": AssignmentCosts(9, 7.0, 1, 21.0, 3, 1),
    "joint, 2x": AssignmentCosts(9, 3.0, 1, 40.0, 3, 1),
    "interest": AssignmentCosts(9, 1.0, 1, 200.0, 3, 1),
}


def sound(row: Row) -> bool:
    return not row.remarks and row.value is not None and row.value > 0


def test_every_size_is_generated_and_counted(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thinwire_lab.bench.spark.process_usage.SAMPLE_INTERVAL", 0.05)
    found = measure_generation(spark, TINY)
    assert [one.rows for one in found] == [300, 600]
    rows = list(generation_rows(found))
    assert all(map(sound, rows))
    assert [row.required for row in rows if row.required] == ["at most 300", "at most 4,000"]


def test_only_the_largest_size_has_required_results() -> None:
    found = [
        WorkloadSize(1_000, ProcessUsage(2.0, 900.0, 9_000_000_000)),
        WorkloadSize(4_000, ProcessUsage(4.0, 301.0, 3_000_000_000)),
    ]
    *_, wall, memory, linear = generation_rows(found)
    assert [row.holds for row in generation_rows(found)] == [None, None, False, True, None]
    assert (wall.value, memory.value) == (301.0, 3000.0)
    assert linear.value == pytest.approx(0.5)
    assert [row.holds for row in generation_rows(found, has_requirements=False)] == [None] * 5


def test_a_small_workload_is_assigned_without_a_verdict(spark: SparkSession) -> None:
    rows = list(assign_in_session(spark, TINY))
    assert all(map(sound, rows))
    assert [row.holds for row in rows] == [None, None, None]
    assert "1,000 subscriptions, 6 brokers" in rows[0].how


def test_gains_are_those_of_the_best_joint_policy_within_reach() -> None:
    near, thin = gain_rows(COSTS, "by hand")
    assert near.value == pytest.approx(0.7)
    assert near.holds
    assert thin.holds is False
    assert "no joint policy" in thin.remarks
    further = {**COSTS, "joint, no limit": AssignmentCosts(9, 1.1, 1, 150.0, 3, 1)}
    assert list(gain_rows(further, ""))[1].value == pytest.approx(0.75)
    assert [row.holds for row in gain_rows(COSTS, "", has_requirements=False)] == [None, None]


def test_all_methods_of_matching_find_the_same_pairs(spark: SparkSession) -> None:
    rows = list(match_in_session(spark, workload_matching.GridJoinSizes(600, 1, has_requirements=True)))
    assert all(map(sound, rows))
    assert [row.high for row in rows] == [1.2, None, 3.0, 3.0]


def test_a_method_with_other_pairs_is_reported(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = workload_matching.usual_grid_join
    monkeypatch.setattr(workload_matching, "usual_grid_join", lambda *given: usual(*given).where("event < 0"))
    ours, *_ = match_in_session(spark, workload_matching.GridJoinSizes(600, 1))
    assert "do not agree" in ours.invalid
    assert ours.holds is False


@pytest.mark.parametrize(("quick", "sizes"), [(False, FULL), (True, QUICK)])
def test_only_full_runs_are_judged(quick: bool, sizes: WorkloadSizes) -> None:
    assert WorkloadSizes.of(Setting(quick=quick)) is sizes
    assert sizes.has_requirements is not quick


def test_crowded_rows_are_crowded() -> None:
    for crowded, share in ((False, CORNER**2), (True, CROWDED_SHARE + (1 - CROWDED_SHARE) * CORNER**2)):
        events, rectangles = spread(4_000, crowded=crowded)
        corner = (events["topic_at"].to_numpy() < CORNER) & (events["language_at"].to_numpy() < CORNER)
        assert corner.mean() == pytest.approx(share, abs=0.03)
        sides = rectangles["topic_high"].to_numpy() - rectangles["topic_low"].to_numpy()
        assert 0 <= sides.min() <= sides.max() <= SIDE + 1e-12
