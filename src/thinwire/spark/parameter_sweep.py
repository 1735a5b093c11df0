"""A function over a grid of parameters, as one Spark job with progress and cancellation.

A cell is one set of parameters. Cells are assigned to tasks by weight, the heaviest first, each to the task with the
lowest load. The result has one row per cell with its figures, CPU time and error. A failed cell does not affect others.

>>> cells = grid(size=[10, 20], level=["exact"])
>>> cells
[{'size': 10, 'level': 'exact'}, {'size': 20, 'level': 'exact'}]
>>> balance([5.0, 1.0, 1.0, 1.0, 2.0], 2)
[[0], [4, 1, 2, 3]]
"""

from __future__ import annotations

import heapq
import itertools
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import spark_partition_id

from thinwire.errors import ConfigError
from thinwire.spark.action_progress import Progress, run_action

Cell = dict[str, Any]
"""parameters by name, JSON values"""

Function = Callable[..., Mapping[str, Any]]
"""takes parameters by name and returns figures by name, both JSON values"""

MAX_CELLS = 1_000_000
TASKS_PER_CORE = 4
_RESULT = "cell long, result string, cpu_seconds double, error string"


class Result(NamedTuple):
    """The result of a cell. `figures` is None if it failed with `error`."""

    cell: Cell
    figures: Mapping[str, Any] | None
    cpu_seconds: float
    error: str | None


def grid(**choices: Sequence[Any]) -> list[Cell]:
    """Return every combination of the choices. The last one changes fastest."""
    names = list(choices)
    return [dict(zip(names, values, strict=True)) for values in itertools.product(*choices.values())]


def sweep(
    spark: SparkSession,
    function: Function,
    cells: Sequence[Cell],
    *,
    weight: Callable[[Cell], float] | None = None,
    tasks: int | None = None,
    progress: Progress | None = None,
) -> list[Result]:
    """Run a function on every cell and return the results in the order of the cells.

    weight: relative cost of a cell; equal costs by default
    tasks: number of tasks; by default four per core
    """
    _check(cells)
    frame = plan_sweep(spark, function, cells, weight=weight, tasks=tasks)
    rows = run_action(spark, frame.collect, progress)
    found = {row.cell: row for row in rows}
    return [_result(cell, found[number]) for number, cell in enumerate(cells)]


def plan_sweep(
    spark: SparkSession,
    function: Function,
    cells: Sequence[Cell],
    *,
    weight: Callable[[Cell], float] | None = None,
    tasks: int | None = None,
) -> DataFrame:
    """Return the job as a DataFrame that is not run yet, with one row per cell."""
    count = min(len(cells), tasks or _tasks(spark))
    assigned = balance([weight(cell) if weight else 1.0 for cell in cells], max(count, 1))
    texts = [json.dumps(cell) for cell in cells]
    _pickle_by_value(function)
    work = [[(number, texts[number]) for number in numbers] for numbers in assigned]

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for task in batch.column(0).to_pylist():
                yield from (_row(number, *_measured(function, json.loads(text))) for number, text in work[task])

    # One partition per task with one row, which is the index of the task's cells.
    return spark.range(0, len(work), 1, len(work)).mapInArrow(run, _RESULT)


def table(results: Sequence[Result]) -> pa.Table:
    """Return the results as a table with columns for parameters, figures, CPU time and error."""
    rows = [
        {**result.cell, **(result.figures or {}), "cpu_seconds": result.cpu_seconds, "error": result.error}
        for result in results
    ]
    names = list(dict.fromkeys(name for row in rows for name in row))
    return pa.table({name: pa.array([row.get(name) for row in rows]) for name in names})


def balance(weights: Sequence[float], tasks: int) -> list[list[int]]:
    """Return the cells of every task: the heaviest first, each to the task with the lowest load."""
    loads = [(0.0, task) for task in range(tasks)]
    assigned: list[list[int]] = [[] for _ in range(tasks)]
    for number in sorted(range(len(weights)), key=lambda n: (-weights[n], n)):
        load, task = heapq.heappop(loads)
        assigned[task].append(number)
        heapq.heappush(loads, (load + weights[number], task))
    return assigned


def _check(cells: Sequence[Cell]) -> None:
    if not cells:
        raise ConfigError("a sweep needs at least one cell", cells=0)
    if len(cells) > MAX_CELLS:
        raise ConfigError("too many cells for one sweep", cells=len(cells), limit=MAX_CELLS)


def _tasks(spark: SparkSession) -> int:
    # The default number of partitions is the only way to find the cores of a local or remote session.
    return TASKS_PER_CORE * spark.range(10_000).select(spark_partition_id()).distinct().count()


def _pickle_by_value(function: Function) -> None:
    """Pickle functions of the caller's modules by value: executors may be unable to import them."""
    inner = function.func if isinstance(function, partial) else function
    module = sys.modules.get(getattr(inner, "__module__", None) or "")
    if module is not None and module.__name__.partition(".")[0] not in ("__main__", "thinwire", "thinwire_lab"):
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def _measured(function: Function, cell: Cell) -> tuple[str | None, float, str | None]:
    started = time.thread_time()
    try:
        figures = json.dumps(dict(function(**cell)))
    except Exception as problem:  # the function is user code
        return None, time.thread_time() - started, f"{type(problem).__name__}: {problem}"
    return figures, time.thread_time() - started, None


def _row(number: int, figures: str | None, seconds: float, error: str | None) -> pa.RecordBatch:
    columns = [pa.array([number], pa.int64()), pa.array([figures], pa.string())]
    columns += [pa.array([seconds], pa.float64()), pa.array([error], pa.string())]
    return pa.RecordBatch.from_arrays(columns, names=["cell", "result", "cpu_seconds", "error"])


def _result(cell: Cell, row: Any) -> Result:
    return Result(cell, None if row.result is None else json.loads(row.result), row.cpu_seconds, row.error)
