"""A workload as a folder: Parquet tables and a manifest with everything that it was made from.

All is written beside the folder under another name; the manifest comes last, then the name. Whatever stops the job in
between, there is no folder that looks complete.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from thinwire.errors import ConfigError, JobFailed, ThinwireError
from thinwire.spark.action_progress import Progress, watched
from thinwire_lab.workload.recipe import Recipe
from thinwire_lab.workload.recipe_plan import Plan
from thinwire_lab.workload.spark.workload_folder_folders import new_folder
from thinwire_lab.workload.spark.workload_folder_workload import brokers, events, subscriptions
from thinwire_lab.workload.summary import Summary

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
    plan = Plan(summary, recipe)
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
    spark: SparkSession, plan: Plan, folder: Path, partitions: int | None, progress: Progress | None
) -> None:
    frames = {
        "subscriptions": subscriptions(spark, plan, partitions=partitions),
        "events": events(spark, plan, partitions=partitions),
        "brokers": brokers(spark, plan).coalesce(1),
    }
    for name, frame in frames.items():
        watched(spark, lambda frame=frame, name=name: _write(frame, folder / name), progress)  # type: ignore[misc]
    (folder / "summary").mkdir()
    for name, table in plan.summary.tables().items():
        pq.write_table(table, folder / "summary" / f"{name}.parquet")


def _write(frame: DataFrame, place: Path) -> None:
    frame.write.parquet(str(place.resolve()))


def _manifest(plan: Plan) -> dict[str, Any]:
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
