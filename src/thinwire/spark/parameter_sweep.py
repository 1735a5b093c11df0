"""Any function over a grid of parameters, as one Spark job: balanced tasks, progress, cancellation, a table of results.

A cell is one set of parameters. Cells are dealt to tasks by their weight, heaviest first, each to the task that has the
least so far; what a cell returns, how long it worked and what went wrong in it stand in one row of the result. A cell
that fails takes nothing with it.

>>> cells = grid(size=[10, 20], level=["exact"])
>>> cells
[{'size': 10, 'level': 'exact'}, {'size': 20, 'level': 'exact'}]
>>> dealt([5.0, 1.0, 1.0, 1.0, 2.0], 2)
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
from thinwire.spark.action_progress import Progress, watched

Cell = dict[str, Any]
"""parameters by name, in JSON's own types"""

Function = Callable[..., Mapping[str, Any]]
"""takes the parameters by name and answers with figures by name, in JSON's own types"""

MAX_CELLS = 1_000_000
TASKS_A_CORE = 4
_RESULT = "cell long, result string, cpu_seconds double, error string"


class Result(NamedTuple):
    """What a cell came to; `figures` is None where it failed, and `error` says why."""

    cell: Cell
    figures: Mapping[str, Any] | None
    cpu_seconds: float
    error: str | None


def grid(**choices: Sequence[Any]) -> list[Cell]:
    """Every combination of the choices, the last one changing fastest."""
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
    """Run the function on every cell; the results come in the order of the cells.

    weight: how much work a cell is, in any unit; all the same where it is not given
    tasks: how many tasks to make, by default four for every core
    """
    _check(cells)
    frame = planned(spark, function, cells, weight=weight, tasks=tasks)
    rows = watched(spark, frame.collect, progress)
    found = {row.cell: row for row in rows}
    return [_result(cell, found[number]) for number, cell in enumerate(cells)]


def planned(
    spark: SparkSession,
    function: Function,
    cells: Sequence[Cell],
    *,
    weight: Callable[[Cell], float] | None = None,
    tasks: int | None = None,
) -> DataFrame:
    """The job as a DataFrame, not yet run: a row a cell."""
    count = min(len(cells), tasks or _tasks(spark))
    hands = dealt([weight(cell) if weight else 1.0 for cell in cells], max(count, 1))
    texts = [json.dumps(cell) for cell in cells]
    _travels(function)
    work = [[(number, texts[number]) for number in hand] for hand in hands]

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for task in batch.column(0).to_pylist():
                yield from (_row(number, *_measured(function, json.loads(text))) for number, text in work[task])

    # One partition a task and one row a partition: the row says which hand to play.
    return spark.range(0, len(work), 1, len(work)).mapInArrow(run, _RESULT)


def table(results: Sequence[Result]) -> pa.Table:
    """The results as a table: a column a parameter, a column a figure, the time and the error."""
    rows = [
        {**result.cell, **(result.figures or {}), "cpu_seconds": result.cpu_seconds, "error": result.error}
        for result in results
    ]
    names = list(dict.fromkeys(name for row in rows for name in row))
    return pa.table({name: pa.array([row.get(name) for row in rows]) for name in names})


def dealt(weights: Sequence[float], hands: int) -> list[list[int]]:
    """The numbers of the cells in every hand: heaviest first, each to the hand that has the least so far."""
    loads = [(0.0, hand) for hand in range(hands)]
    held: list[list[int]] = [[] for _ in range(hands)]
    for number in sorted(range(len(weights)), key=lambda n: (-weights[n], n)):
        load, hand = heapq.heappop(loads)
        held[hand].append(number)
        heapq.heappush(loads, (load + weights[number], hand))
    return held


def _check(cells: Sequence[Cell]) -> None:
    if not cells:
        raise ConfigError("a sweep needs at least one cell", cells=0)
    if len(cells) > MAX_CELLS:
        raise ConfigError("too many cells for one sweep: run it in parts", cells=len(cells), limit=MAX_CELLS)


def _tasks(spark: SparkSession) -> int:
    # A session, local or remote, tells its cores only by how many partitions it makes by itself.
    return TASKS_A_CORE * spark.range(10_000).select(spark_partition_id()).distinct().count()


def _travels(function: Function) -> None:
    """Let a function of the caller's own module go to the tasks as it is: they may not be able to import it."""
    inner = function.func if isinstance(function, partial) else function
    module = sys.modules.get(getattr(inner, "__module__", None) or "")
    if module is not None and module.__name__.partition(".")[0] not in ("__main__", "thinwire", "thinwire_lab"):
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def _measured(function: Function, cell: Cell) -> tuple[str | None, float, str | None]:
    started = time.thread_time()
    try:
        figures = json.dumps(dict(function(**cell)))
    except Exception as problem:  # a cell of somebody's function may fail in any way
        return None, time.thread_time() - started, f"{type(problem).__name__}: {problem}"
    return figures, time.thread_time() - started, None


def _row(number: int, figures: str | None, seconds: float, error: str | None) -> pa.RecordBatch:
    columns = [pa.array([number], pa.int64()), pa.array([figures], pa.string())]
    columns += [pa.array([seconds], pa.float64()), pa.array([error], pa.string())]
    return pa.RecordBatch.from_arrays(columns, names=["cell", "result", "cpu_seconds", "error"])


def _result(cell: Cell, row: Any) -> Result:
    return Result(cell, None if row.result is None else json.loads(row.result), row.cpu_seconds, row.error)
