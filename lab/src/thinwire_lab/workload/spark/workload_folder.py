"""A workload as a folder: Parquet tables and a manifest with everything that it was made from.

All is written beside the folder under another name; the manifest comes last, then the name. Whatever stops the job in
between, there is no folder that looks complete.

Folders that are either complete or not there.

Workloads on Spark: the rows of a plan as DataFrames, and all of them as a folder of Parquet tables.

Rows are drawn in blocks. A row depends on its number alone, so blocks may run anywhere, in any number of partitions;
what a task holds is a block, however many rows there are.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from thinwire.errors import ConfigError, JobFailed, ThinwireError
from thinwire.spark.action_progress import Progress, run_action
from thinwire_lab.workload.recipe import Recipe, WorkloadPlan
from thinwire_lab.workload.summary import Summary

UNFINISHED = ".unfinished"


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """A folder to fill under another name; it gets its own when the block ends well, and else nothing is left of it.

    A process that is killed leaves the other name behind, which the next one removes.
    """
    check_new(out)
    unfinished = out.with_name(out.name + UNFINISHED)
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    try:
        yield unfinished
        unfinished.rename(out)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def check_new(out: Path) -> None:
    """Refuse a folder that is there already, before anything is computed for it."""
    if out.exists():
        raise ConfigError("there is something already: name another folder, or remove it", out=str(out))


BLOCK = 1 << 16
"""rows that are drawn at once"""
BLOCKS_A_PARTITION = 8
MAX_PARTITIONS = 10_000


def subscriptions(spark: SparkSession, plan: WorkloadPlan, *, partitions: int | None = None) -> DataFrame:
    """All subscriptions of a plan; their order is that of their ids within a partition."""
    return _drawn(spark, plan.subscriptions, plan.subscription_schema, plan.recipe.subscriptions, partitions)


def events(spark: SparkSession, plan: WorkloadPlan, *, partitions: int | None = None) -> DataFrame:
    """All events of a plan."""
    return _drawn(spark, plan.events, plan.event_schema, plan.recipe.events, partitions)


def brokers(spark: SparkSession, plan: WorkloadPlan) -> DataFrame:
    """All brokers of a plan: a number, a region and a place each."""
    found = plan.brokers.table()
    return spark.createDataFrame(found.add_column(0, "id", pa.array(np.arange(found.num_rows))))


def table_step(frame: DataFrame, step: Callable[[pa.Table], pa.Table], schema: Any = None) -> DataFrame:
    """A pure step on a small table, such as the members of a summary, as a transform: one task sees all rows.

    schema: of what comes out, by default that of what went in
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        taken = list(batches)
        if taken:
            yield from step(pa.Table.from_batches(taken)).to_batches()

    return frame.coalesce(1).mapInArrow(run, schema or frame.schema)


def _drawn(
    spark: SparkSession,
    draw: Callable[[Any], pa.RecordBatch],
    schema: pa.Schema,
    total: int,
    partitions: int | None,
) -> DataFrame:
    blocks = -(-total // BLOCK)
    count = _partitions(blocks, partitions)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for block in batch.column(0).to_pylist():
                yield draw(np.arange(block * BLOCK, min((block + 1) * BLOCK, total)))

    return spark.range(0, blocks, 1, count).mapInArrow(run, from_arrow_schema(schema))


def _partitions(blocks: int, asked: int | None) -> int:
    if asked is None:
        return max(1, min(-(-blocks // BLOCKS_A_PARTITION), MAX_PARTITIONS))
    if not 1 <= asked <= MAX_PARTITIONS:
        raise ConfigError("outside its limits", partitions=asked, lowest=1, highest=MAX_PARTITIONS)
    return asked


MANIFEST = "manifest.json"
VERSION = 1
RAISED = re.compile(r"[A-Za-z_][\w.]*: ")
"""the last line of a traceback from a task in Python"""


def generate(
    spark: SparkSession,
    summary: Summary,
    recipe: Recipe,
    out: Path,
    *,
    partitions: int | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Write a workload and return its manifest; the folder must not be there yet."""
    plan = WorkloadPlan(summary, recipe)
    told = _manifest(plan)
    with new_folder(out) as folder, translated(out):
        _write_tables(spark, plan, folder, partitions, progress)
        (folder / MANIFEST).write_text(json.dumps(told, indent=2) + "\n")
    return told


@contextmanager
def translated(out: Path) -> Iterator[None]:
    """What Spark complains about in the block, as a failed job that says why."""
    try:
        yield
    except (ThinwireError, OSError):
        raise
    except Exception as problem:  # a full disk is an error of Java that Spark does not translate
        raise JobFailed(f"nothing was written: {_reason(problem)}", out=str(out)) from problem


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a finished workload."""
    try:
        found = json.loads((folder / MANIFEST).read_text())
    except FileNotFoundError:
        raise ConfigError("no finished workload there: it has no manifest", folder=str(folder)) from None
    except ValueError as problem:
        raise ConfigError(f"its manifest is no JSON: {problem}", folder=str(folder)) from None
    if not isinstance(found, dict) or found.get("version") != VERSION:
        raise ConfigError("its manifest is of another version: generate it anew", folder=str(folder), version=VERSION)
    return found


def _write_tables(
    spark: SparkSession, plan: WorkloadPlan, folder: Path, partitions: int | None, progress: Progress | None
) -> None:
    frames = {
        "subscriptions": subscriptions(spark, plan, partitions=partitions),
        "events": events(spark, plan, partitions=partitions),
        "brokers": brokers(spark, plan).coalesce(1),
    }
    for name, frame in frames.items():
        run_action(spark, lambda frame=frame, name=name: _write(frame, folder / name), progress)  # type: ignore[misc]
    (folder / "summary").mkdir()
    for name, table in plan.summary.tables().items():
        pq.write_table(table, folder / "summary" / f"{name}.parquet")


def _write(frame: DataFrame, place: Path) -> None:
    frame.write.parquet(str(place.resolve()))


def _manifest(plan: WorkloadPlan) -> dict[str, Any]:
    return {
        "version": VERSION,
        "recipe": asdict(plan.recipe),
        "summary": digest(plan.summary),
        "axes": [axis.name for axis in plan.axes],
        "regions": list(plan.interests.regions),
        "dimensions": plan.summary.nodes.dimensions,
        "stages": [stage.facts() for stage in plan.stages],
    }


def digest(summary: Summary) -> str:
    """A name for a summary that any change in it changes."""
    found = sha256()
    for axis in summary.members.axes:
        found.update(json.dumps([axis.name, axis.ids, axis.parents.tolist()]).encode())
    for values in (summary.members.counts, summary.rates, summary.nodes.region, summary.nodes.points):
        found.update(values.tobytes())
    return found.hexdigest()


def _reason(problem: BaseException) -> str:
    """What was first in a chain of complaints, such as a full disk: the later ones only say that something failed."""
    lines = str(problem).strip().splitlines() or [type(problem).__name__]
    causes = [line.strip().removeprefix("Caused by: ") for line in lines if line.strip().startswith("Caused by: ")]
    raised = [line for line in lines if RAISED.match(line)]
    return (causes or raised or lines[:1])[-1][:300]
