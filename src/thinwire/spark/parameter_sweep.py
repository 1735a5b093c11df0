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
from pyspark.sql import SparkSession
from pyspark.sql.functions import spark_partition_id
from pyspark.sql.pandas.types import from_arrow_schema

from thinwire.errors import ConfigError, JobFailed
from thinwire.spark.action_progress import Progress, run_action
from thinwire.spark.executor_package import shipped_packages

Cell = dict[str, Any]
"""parameters by name, JSON values"""

Function = Callable[..., Mapping[str, Any]]
"""takes parameters by name and returns figures by name, both JSON values"""

MAX_CELLS = 1_000_000
TASKS_PER_CORE = 4
_RESULT = pa.schema(
    [("cell", pa.int64()), ("result", pa.string()), ("cpu_seconds", pa.float64()), ("error", pa.string())]
)


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
    progress: Progress | None = None,
) -> list[Result]:
    """Run a function on every cell, in four tasks per core, and return the results in the order of the cells.

    weight: relative cost of a cell; equal costs by default
    """
    if not cells:
        raise ConfigError("a sweep needs at least one cell", cells=0)
    if len(cells) > MAX_CELLS:
        raise ConfigError("too many cells for one sweep", cells=len(cells), limit=MAX_CELLS)
    weights = [weight(cell) if weight else 1.0 for cell in cells]
    texts = [json.dumps(cell) for cell in cells]
    _pickle_by_value(function)
    work = [
        [(number, texts[number]) for number in numbers]
        for numbers in balance(weights, min(len(cells), TASKS_PER_CORE * _count_cores(spark)))
    ]

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for task in batch.column(0).to_pylist():
                for number, text in work[task]:
                    yield pa.RecordBatch.from_pylist([{"cell": number, **_run_cell(function, text)}], _RESULT)

    # One partition per task with one row, which is the index of the task's cells.
    frame = spark.range(0, len(work), 1, len(work)).mapInArrow(run, from_arrow_schema(_RESULT))
    rows = sorted(run_action(spark, frame.collect, progress), key=lambda row: row.cell)
    return [
        Result(cell, json.loads(row.result) if row.result is not None else None, row.cpu_seconds, row.error)
        for cell, row in zip(cells, rows, strict=True)
    ]


def run_cells(
    spark: SparkSession,
    function: Function,
    cells: Sequence[Cell],
    weight: Callable[[Cell], float] | None = None,
    progress: Progress | None = None,
) -> list[Mapping[str, Any]]:
    """Run a sweep and return the figures of every cell. Raise `JobFailed` if a cell failed."""
    figures = []
    for result in sweep(spark, function, cells, weight=weight, progress=progress):
        if result.figures is None:
            raise JobFailed(f"a cell failed: {result.error}", **result.cell)
        figures.append(result.figures)
    return figures


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


def _count_cores(spark: SparkSession) -> int:
    # The default number of partitions is the only way to find the cores of a local or remote session.
    return spark.range(10_000).select(spark_partition_id()).distinct().count()


def _pickle_by_value(function: Function) -> None:
    """Pickle functions of the caller's modules by value: executors may be unable to import them."""
    inner = function.func if isinstance(function, partial) else function
    module = sys.modules.get(getattr(inner, "__module__", None) or "")
    if module is not None and module.__name__.partition(".")[0] not in ("__main__", *shipped_packages()):
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def _run_cell(function: Function, cell: str) -> dict[str, Any]:
    started = time.thread_time()
    result: str | None = None
    error: str | None = None
    try:
        result = json.dumps(dict(function(**json.loads(cell))))
    except Exception as problem:  # the function is user code
        error = f"{type(problem).__name__}: {problem}"
    return {"result": result, "cpu_seconds": time.thread_time() - started, "error": error}
