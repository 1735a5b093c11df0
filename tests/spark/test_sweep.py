"""Sweeps: every cell runs once, and a failed cell does not affect others."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from thinwire.errors import ConfigError
from thinwire.spark.action_progress import run_action
from thinwire.spark.parameter_sweep import MAX_CELLS, balance, grid, sweep, table


def squared(n: int, unit: str = "m") -> Mapping[str, Any]:
    if n == 3:
        raise ValueError("three is not to be had")
    return {"square": n * n, "in": unit}


@given(st.lists(st.floats(0, 1e6), max_size=40), st.integers(1, 9))
def test_every_cell_is_assigned_once_and_no_task_is_overloaded(weights: list[float], tasks: int) -> None:
    held = balance(weights, tasks)
    assert sorted(number for numbers in held for number in numbers) == list(range(len(weights)))
    loads = [sum(weights[number] for number in numbers) for numbers in held]
    heaviest = max(weights, default=0.0)
    assert max(loads) <= sum(weights) / tasks + heaviest + 1e-6


def test_a_grid_is_every_combination() -> None:
    assert len(grid(a=[1, 2, 3], b=["x", "y"])) == 6
    assert grid(a=[1, 2])[1] == {"a": 2}


def test_results_are_in_the_order_of_the_cells_and_failures_are_isolated(spark: SparkSession) -> None:
    reported: list[tuple[int, int]] = []
    cells = grid(n=[1, 2, 3, 4, 5], unit=["m"])
    results = sweep(
        spark, squared, cells, weight=lambda cell: float(cell["n"]), progress=lambda *at: reported.append(at)
    )
    assert [result.cell for result in results] == cells
    assert [result.figures and result.figures["square"] for result in results] == [1, 4, None, 16, 25]
    assert [result.error for result in results if result.error] == ["ValueError: three is not to be had"]
    found = table(results)
    assert found.column_names == ["n", "unit", "square", "in", "cpu_seconds", "error"]
    assert found.column("square").to_pylist() == [1, 4, None, 16, 25]
    assert all(done <= total for done, total in reported)


def test_the_default_number_of_tasks_runs_every_cell(spark: SparkSession) -> None:
    results = sweep(spark, squared, grid(n=list(range(10, 40))))
    assert [result.figures for result in results] == [{"square": n * n, "in": "m"} for n in range(10, 40)]


@pytest.mark.parametrize(("cells", "word"), [([], "at least one"), ([{}] * (MAX_CELLS + 1), "too many")])
def test_a_sweep_without_cells_or_with_too_many_is_refused(cells: list[dict[str, Any]], word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        sweep(None, squared, cells)  # type: ignore[arg-type]


def test_an_interruption_cancels_the_job(spark: SparkSession) -> None:
    def slow(seconds: float) -> Mapping[str, Any]:
        time.sleep(seconds)
        return {}

    def interrupt(done: int, total: int) -> None:
        if total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(spark, slow, grid(seconds=[60.0, 60.0]), progress=interrupt)
    # The session is free again: running tasks would occupy both cores for a minute.
    assert [result.error for result in sweep(spark, squared, grid(n=[7]))] == [None]


def test_an_exception_of_an_action_is_raised_in_the_caller(spark: SparkSession) -> None:
    def action() -> None:
        assert threading.current_thread() is not threading.main_thread()
        raise LookupError("not there")

    with pytest.raises(LookupError, match="not there"):
        run_action(spark, action)
