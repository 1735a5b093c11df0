"""Placement on Spark: training sets and placements as sweeps, the same as in one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from thinwire.analysis.analysis_run import CellRunner
from thinwire.edge.placement_files import read_model
from thinwire_lab.cli.cell_runner import run_on_spark
from thinwire_lab.placement.model_training import SIZES, TrainedModels, in_process, simulate_runs
from thinwire_lab.placement.published_model import fit_published
from thinwire_lab.reproduce.placement.placement_cells import PlacementExperiment, PlacementScale

GRID: list[dict[str, Any]] = [
    {"kind": "uni", "solver": solver, "seed": 1, "n": 8, "first": 2} for solver in ("hybrid", "ours")
]


def test_a_training_set_is_the_same_on_spark(spark: SparkSession) -> None:
    assert simulate_runs(3, (1, 2), 3, run_on_spark(spark)) == simulate_runs(3, (1, 2), 3)


def test_placements_are_the_same_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    both = TrainedModels(read_model(None), fit_published(simulate_runs(8, SIZES, 1), rounds=5), [])
    assert _placed(both, tmp_path, run_on_spark(spark)) == _placed(both, tmp_path, in_process)


def _placed(both: TrainedModels, out: Path, sweep: CellRunner) -> list[dict[str, Any]]:
    """Return the results of the cells without their run times."""
    occasion = PlacementExperiment(PlacementScale(), out, sweep)
    occasion.both = both
    found = occasion.placements(GRID)
    assert all(figures.pop("solver_seconds") >= 0 for figures in found)
    return found
