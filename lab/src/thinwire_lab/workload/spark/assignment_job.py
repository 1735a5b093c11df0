"""Spark job that assigns the subscribers of a workload to brokers with several policies, and computes the costs.

Subscriptions are grouped by rectangle and nearest broker, which leaves few enough groups for one process. Each policy
assigns the groups in a task of its own. A second pass counts the latency of each subscription, in hundredths of a
millisecond.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from thinwire.errors import ConfigError
from thinwire.spark.action_progress import Progress, run_action
from thinwire_lab.workload.assignment.assignment_costs import (
    QUANTILES,
    AssignmentCosts,
    GroupDemands,
    broker_load,
    group_keys,
    nearest_brokers,
)
from thinwire_lab.workload.assignment.broker_assignment import Policy
from thinwire_lab.workload.random_rows import Floats, Ints
from thinwire_lab.workload.spark.workload_folder import read_manifest

SAMPLE = 2_000
"""events for the costs of super-interests; events are independent, so the first ones are a fair sample"""
MAX_GROUPS = 4_000_000
RESOLUTION = 100
"""latency steps per millisecond"""


class WorkloadColumns(NamedTuple):
    """Names of columns: corners of rectangles, and coordinates of locations and events."""

    low: list[str]
    high: list[str]
    at: list[str]
    event: list[str]

    @classmethod
    def of(cls, manifest: dict[str, Any]) -> WorkloadColumns:
        """Return the columns of a workload with this manifest."""
        low, high, event = ([f"{axis}_{end}" for axis in manifest["axes"]] for end in ("low", "high", "at"))
        return cls(low, high, [f"at_{dimension}" for dimension in range(manifest["dimensions"])], event)


class PolicyAssignments(NamedTuple):
    """The broker of each group, one row per policy."""

    policies: list[Policy]
    groups: GroupDemands
    chosen: Ints


def assign(
    spark: SparkSession,
    folder: Path,
    policies: Sequence[Policy],
    *,
    sample: int = SAMPLE,
    progress: Progress | None = None,
) -> tuple[PolicyAssignments, list[AssignmentCosts]]:
    """Assign the subscribers of a finished workload with each policy. Return the assignments and their costs."""
    columns = WorkloadColumns.of(read_manifest(folder))
    rows = spark.read.parquet(str((folder / "subscriptions").resolve()))
    groups = run_action(spark, lambda: _group(spark, folder, rows, columns, sample), progress)
    chosen = run_action(spark, lambda: _choose(spark, groups, policies), progress)
    assigned = PolicyAssignments(list(policies), groups, chosen)
    latency = run_action(spark, lambda: _quantiles(rows, columns, assigned), progress)
    costs = [broker_load(groups, brokers).costs(quantiles) for brokers, quantiles in zip(chosen, latency, strict=True)]
    return assigned, costs


def assignments(rows: DataFrame, columns: WorkloadColumns, assigned: PolicyAssignments) -> DataFrame:
    """Return the `id` of each subscription and its broker, one column per policy."""
    names = [policy.name for policy in assigned.policies]
    lookup = _BrokerLookup(columns, assigned)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            brokers = lookup(batch)[0].astype(np.int32)
            yield pa.RecordBatch.from_arrays([batch.column("id"), *map(pa.array, brokers)], names=["id", *names])

    selected = rows.select("id", *columns.low, *columns.high, *columns.at)
    return selected.mapInArrow(run, ", ".join(["id long", *(f"`{name}` int" for name in names)]))


def _group(spark: SparkSession, folder: Path, rows: DataFrame, columns: WorkloadColumns, sample: int) -> GroupDemands:
    """Return the groups of all subscriptions, in an order that does not depend on partitions."""
    brokers = _points(spark, folder / "brokers", columns.at)
    events = _points(spark, folder / "events", columns.event, sample)
    if not len(brokers):
        raise ConfigError("no brokers; generate the workload with brokers", folder=str(folder), brokers=0)
    keys = [*columns.low, *columns.high, "home"]
    sums = [F.count("*").alias("weight"), *(F.avg(name).alias(name) for name in ("distance", *columns.at))]
    grouped = _with_nearest(rows, columns, brokers).groupBy(*keys).agg(*sums)
    table = grouped.limit(MAX_GROUPS + 1).toArrow()
    if table.num_rows > MAX_GROUPS:
        detail = "too many different interests; generate fewer subscriptions, or without noise"
        raise ConfigError(detail, folder=str(folder), highest=MAX_GROUPS)
    low, high, at = (_stack(table, names) for names in (columns.low, columns.high, columns.at))
    home = table["home"].to_numpy()
    order = np.argsort(group_keys(low, high, home))
    weight, distance = (table[name].to_numpy().astype(np.float64)[order] for name in ("weight", "distance"))
    groups = GroupDemands(low[order], high[order], weight, home[order], distance, at[order], brokers, events)
    groups.check()
    return groups


def _points(spark: SparkSession, path: Path, names: list[str], first: int | None = None) -> Floats:
    frame = spark.read.parquet(str(path.resolve()))
    frame = frame if first is None else frame.where(F.col("id") < first)
    return _stack(frame.orderBy("id").select(*names).toArrow(), names)


def _with_nearest(rows: DataFrame, columns: WorkloadColumns, brokers: Floats) -> DataFrame:
    """Return each subscription with its nearest broker."""
    names = [*columns.low, *columns.high, *columns.at]

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            nearest, distance = nearest_brokers(_stack(batch, columns.at), brokers)
            arrays = [*(batch.column(name) for name in names), pa.array(nearest), pa.array(distance)]
            yield pa.RecordBatch.from_arrays(arrays, names=[*names, "home", "distance"])

    schema = ", ".join([*(f"`{name}` double" for name in names), "home long", "distance double"])
    return rows.select(*names).mapInArrow(run, schema)


def _choose(spark: SparkSession, groups: GroupDemands, policies: Sequence[Policy]) -> Ints:
    """Return the broker of each group, one row and one task per policy."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column(0).to_pylist():
                brokers = policies[index].choose(groups).astype(np.int32)
                arrays = [pa.array([index]), pa.array([brokers], pa.list_(pa.int32()))]
                yield pa.RecordBatch.from_arrays(arrays, names=["policy", "brokers"])

    cells = spark.range(0, len(policies), 1, len(policies))
    rows = cells.mapInArrow(run, "policy long, brokers array<int>").toArrow().sort_by("policy")
    flat = rows["brokers"].combine_chunks().flatten().to_numpy()
    return np.asarray(flat.reshape(len(policies), len(groups.weight)).astype(np.int64))


class _BrokerLookup:
    """Finds the brokers of subscriptions and their distances, one row per policy."""

    def __init__(self, columns: WorkloadColumns, assigned: PolicyAssignments) -> None:
        self.columns, self.brokers, self.chosen = columns, assigned.groups.brokers, assigned.chosen
        groups = assigned.groups
        self.keys = group_keys(groups.low, groups.high, groups.nearest)

    def __call__(self, batch: pa.RecordBatch) -> tuple[Ints, Floats]:
        low, high, at = (_stack(batch, names) for names in self.columns[:3])
        group = np.searchsorted(self.keys, group_keys(low, high, nearest_brokers(at, self.brokers)[0]))
        brokers = self.chosen[:, group]
        return brokers, np.linalg.norm(at - self.brokers[brokers], axis=2)


def _quantiles(rows: DataFrame, columns: WorkloadColumns, assigned: PolicyAssignments) -> Floats:
    """Return the quantiles of the latency of all subscriptions, one row per policy."""
    lookup = _BrokerLookup(columns, assigned)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for policy, latency in enumerate(lookup(batch)[1]):
                steps, counts = np.unique(np.rint(latency * RESOLUTION).astype(np.int64), return_counts=True)
                arrays = [pa.array(np.full(steps.size, policy)), pa.array(steps), pa.array(counts)]
                yield pa.RecordBatch.from_arrays(arrays, names=["policy", "part", "count"])

    counted = rows.select(*columns.low, *columns.high, *columns.at).mapInArrow(
        run, "policy long, part long, count long"
    )
    table = counted.groupBy("policy", "part").agg(F.sum("count").alias("count")).toArrow().sort_by("part")
    policy, step, count = (table[name].to_numpy() for name in ("policy", "part", "count"))
    return np.array([_counted(step[policy == n], count[policy == n]) for n in range(len(assigned.policies))])


def _counted(steps: Ints, counts: Ints) -> Floats:
    ends = np.cumsum(counts)
    return np.asarray(steps[np.searchsorted(ends, np.array(QUANTILES) * ends[-1])] / RESOLUTION)


def _stack(table: pa.Table | pa.RecordBatch, names: list[str]) -> Floats:
    columns = [table.column(name).to_numpy() for name in names]
    return np.stack(columns, axis=1).astype(np.float64) if columns else np.zeros((table.num_rows, 0))
