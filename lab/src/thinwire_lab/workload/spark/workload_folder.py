"""Workloads on Spark: the rows of a plan as DataFrames, and a folder of Parquet tables with a manifest.

Rows are drawn in blocks. A row depends only on its number, so blocks may run in any number of partitions, and a task
holds one block at a time.

A folder is written under a temporary name and renamed at the end, so that it is either complete or does not exist. The
manifest has all parameters.
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
    """Yield a temporary folder, which is renamed at the end of the block, and removed after an exception.

    If the process is killed, the temporary folder remains; the next call removes it.
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
    """Raise an error if a folder exists, before anything is computed."""
    if out.exists():
        raise ConfigError("the folder exists; name another one or remove it", out=str(out))


BLOCK = 1 << 16
"""rows per block"""
BLOCKS_A_PARTITION = 8
MAX_PARTITIONS = 10_000


def subscriptions(spark: SparkSession, plan: WorkloadPlan, *, partitions: int | None = None) -> DataFrame:
    """Return all subscriptions of a plan, in the order of their ids within a partition."""
    return _draw_blocks(spark, plan.subscriptions, plan.subscription_schema, plan.recipe.subscriptions, partitions)


def events(spark: SparkSession, plan: WorkloadPlan, *, partitions: int | None = None) -> DataFrame:
    """Return all events of a plan."""
    return _draw_blocks(spark, plan.events, plan.event_schema, plan.recipe.events, partitions)


def brokers(spark: SparkSession, plan: WorkloadPlan) -> DataFrame:
    """Return all brokers of a plan: id, region and location."""
    table = plan.brokers.table()
    return spark.createDataFrame(table.add_column(0, "id", pa.array(np.arange(table.num_rows))))


def _draw_blocks(
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


def _partitions(blocks: int, requested: int | None) -> int:
    if requested is None:
        return max(1, min(-(-blocks // BLOCKS_A_PARTITION), MAX_PARTITIONS))
    if not 1 <= requested <= MAX_PARTITIONS:
        raise ConfigError("out of range", partitions=requested, lowest=1, highest=MAX_PARTITIONS)
    return requested


MANIFEST = "manifest.json"
VERSION = 1
RAISED = re.compile(r"[A-Za-z_][\w.]*: ")
"""start of the last line of a Python traceback from a task"""


def generate(
    spark: SparkSession,
    summary: Summary,
    recipe: Recipe,
    out: Path,
    *,
    partitions: int | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Write a workload and return its manifest. The folder must not exist."""
    plan = WorkloadPlan(summary, recipe)
    manifest = _manifest(plan)
    with new_folder(out) as folder, spark_errors(out):
        _write_tables(spark, plan, folder, partitions, progress)
        (folder / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")
    return manifest


@contextmanager
def spark_errors(out: Path) -> Iterator[None]:
    """Convert errors of Spark in the block to `JobFailed` with their cause."""
    try:
        yield
    except (ThinwireError, OSError):
        raise
    except Exception as problem:  # Spark passes some Java errors on, for example of a full disk
        raise JobFailed(f"nothing was written: {_reason(problem)}", out=str(out)) from problem


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a finished workload."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
    except FileNotFoundError:
        raise ConfigError("no finished workload: there is no manifest", folder=str(folder)) from None
    except ValueError as problem:
        raise ConfigError(f"the manifest is not JSON: {problem}", folder=str(folder)) from None
    if not isinstance(manifest, dict) or manifest.get("version") != VERSION:
        raise ConfigError(
            "the manifest has another version; generate the workload again", folder=str(folder), version=VERSION
        )
    return manifest


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


def _write(frame: DataFrame, path: Path) -> None:
    frame.write.parquet(str(path.resolve()))


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
    """Return a hash of a summary."""
    hashed = sha256()
    for axis in summary.members.axes:
        hashed.update(json.dumps([axis.name, axis.ids, axis.parents.tolist()]).encode())
    for values in (summary.members.counts, summary.rates, summary.nodes.region, summary.nodes.points):
        hashed.update(values.tobytes())
    return hashed.hexdigest()


def _reason(problem: BaseException) -> str:
    """Return the root cause of a chain of errors, such as a full disk."""
    lines = str(problem).strip().splitlines() or [type(problem).__name__]
    causes = [line.strip().removeprefix("Caused by: ") for line in lines if line.strip().startswith("Caused by: ")]
    raised = [line for line in lines if RAISED.match(line)]
    return (causes or raised or lines[:1])[-1][:300]
