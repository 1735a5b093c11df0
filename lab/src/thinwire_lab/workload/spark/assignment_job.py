"""Subscribers of a workload assigned to its brokers on Spark, by several policies at once, and what each costs.

Subscriptions are grouped by rectangle and nearest broker, which leaves few enough groups for one process however many
subscriptions there are; each policy then gives the groups in a task of its own. Latency is that of every single
subscription: a second pass counts it, in hundredths of a millisecond.
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
from thinwire_lab.workload.assignment import QUANTILES, AssignmentCosts, GroupDemands, Policy, burden, names_of, nearest
from thinwire_lab.workload.random_rows import Floats, Rows
from thinwire_lab.workload.spark.workload_folder import read_manifest

SAMPLE = 2_000
"""events by which super-interests are judged; each is drawn for itself, so the first are as good as any"""
MOST_GROUPS = 4_000_000
FINE = 100
"""parts of a millisecond that latencies are counted in"""


class Columns(NamedTuple):
    """Names of columns: corners of rectangles, coordinates of places."""

    low: list[str]
    high: list[str]
    at: list[str]
    event: list[str]

    @classmethod
    def of(cls, manifest: dict[str, Any]) -> Columns:
        """Those that a workload of this manifest has."""
        low, high, event = ([f"{axis}_{end}" for axis in manifest["axes"]] for end in ("low", "high", "at"))
        return cls(low, high, [f"at_{lane}" for lane in range(manifest["dimensions"])], event)


class Assigned(NamedTuple):
    """What policies have chosen: the broker of every group, a row a policy."""

    policies: list[Policy]
    groups: GroupDemands
    chosen: Rows


def assign(
    spark: SparkSession,
    folder: Path,
    wanted: Sequence[Policy],
    *,
    sample: int = SAMPLE,
    progress: Progress | None = None,
) -> tuple[Assigned, list[AssignmentCosts]]:
    """Assign the subscribers of a finished workload by each of these policies; the costs are in their order."""
    columns = Columns.of(read_manifest(folder))
    rows = spark.read.parquet(str((folder / "subscriptions").resolve()))
    found = run_action(spark, lambda: _grouped(spark, folder, rows, columns, sample), progress)
    chosen = run_action(spark, lambda: _chosen(spark, found, wanted), progress)
    assigned = Assigned(list(wanted), found, chosen)
    latency = run_action(spark, lambda: _quantiles(rows, columns, assigned), progress)
    costs = [burden(found, own).costs(quantiles) for own, quantiles in zip(chosen, latency, strict=True)]
    return assigned, costs


def assignments(rows: DataFrame, columns: Columns, assigned: Assigned) -> DataFrame:
    """Of every subscription its `id` and, a column each, the broker that each policy has chosen."""
    names = [policy.name for policy in assigned.policies]
    find = _Finder(columns, assigned)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            brokers = find(batch)[0].astype(np.int32)
            yield pa.RecordBatch.from_arrays([batch.column("id"), *map(pa.array, brokers)], names=["id", *names])

    kept = rows.select("id", *columns.low, *columns.high, *columns.at)
    return kept.mapInArrow(run, ", ".join(["id long", *(f"`{name}` int" for name in names)]))


def _grouped(spark: SparkSession, folder: Path, rows: DataFrame, columns: Columns, sample: int) -> GroupDemands:
    """The groups of all subscriptions, in an order that does not depend on partitions."""
    brokers = _points(spark, folder / "brokers", columns.at)
    events = _points(spark, folder / "events", columns.event, sample)
    if not len(brokers):
        raise ConfigError("no brokers to assign to: generate the workload with some", folder=str(folder), brokers=0)
    keys = [*columns.low, *columns.high, "home"]
    sums = [F.count("*").alias("weight"), *(F.avg(name).alias(name) for name in ("distance", *columns.at))]
    grouped = _homes(rows, columns, brokers).groupBy(*keys).agg(*sums)
    table = grouped.limit(MOST_GROUPS + 1).toArrow()
    if table.num_rows > MOST_GROUPS:
        detail = "too many different interests to assign: generate fewer subscriptions, or some without noise"
        raise ConfigError(detail, folder=str(folder), highest=MOST_GROUPS)
    low, high, at = (_stack(table, names) for names in (columns.low, columns.high, columns.at))
    home = table["home"].to_numpy()
    order = np.argsort(names_of(low, high, home))
    weight, distance = (table[name].to_numpy().astype(np.float64)[order] for name in ("weight", "distance"))
    found = GroupDemands(low[order], high[order], weight, home[order], distance, at[order], brokers, events)
    found.check()
    return found


def _points(spark: SparkSession, place: Path, names: list[str], first: int | None = None) -> Floats:
    frame = spark.read.parquet(str(place.resolve()))
    frame = frame if first is None else frame.where(F.col("id") < first)
    return _stack(frame.orderBy("id").select(*names).toArrow(), names)


def _homes(rows: DataFrame, columns: Columns, brokers: Floats) -> DataFrame:
    """Every subscription with its nearest broker."""
    kept = [*columns.low, *columns.high, *columns.at]

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            home, distance = nearest(_stack(batch, columns.at), brokers)
            arrays = [*(batch.column(name) for name in kept), pa.array(home), pa.array(distance)]
            yield pa.RecordBatch.from_arrays(arrays, names=[*kept, "home", "distance"])

    schema = ", ".join([*(f"`{name}` double" for name in kept), "home long", "distance double"])
    return rows.select(*kept).mapInArrow(run, schema)


def _chosen(spark: SparkSession, groups: GroupDemands, wanted: Sequence[Policy]) -> Rows:
    """The broker of every group, a row a policy; a task a policy."""
    policies = list(wanted)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                brokers = policies[number].choose(groups).astype(np.int32)
                arrays = [pa.array([number]), pa.array([brokers], pa.list_(pa.int32()))]
                yield pa.RecordBatch.from_arrays(arrays, names=["policy", "brokers"])

    cells = spark.range(0, len(policies), 1, len(policies))
    found = cells.mapInArrow(run, "policy long, brokers array<int>").toArrow().sort_by("policy")
    flat = found["brokers"].combine_chunks().flatten().to_numpy()
    return np.asarray(flat.reshape(len(policies), len(groups.weight)).astype(np.int64))


class _Finder:
    """Finds the brokers of subscriptions, and how far they are: policies by rows."""

    def __init__(self, columns: Columns, assigned: Assigned) -> None:
        self.columns, self.brokers, self.chosen = columns, assigned.groups.brokers, assigned.chosen
        groups = assigned.groups
        self.names = names_of(groups.low, groups.high, groups.nearest)

    def __call__(self, batch: pa.RecordBatch) -> tuple[Rows, Floats]:
        low, high, at = (_stack(batch, names) for names in self.columns[:3])
        group = np.searchsorted(self.names, names_of(low, high, nearest(at, self.brokers)[0]))
        brokers = self.chosen[:, group]
        return brokers, np.linalg.norm(at - self.brokers[brokers], axis=2)


def _quantiles(rows: DataFrame, columns: Columns, assigned: Assigned) -> Floats:
    """The quantiles of the latency of all subscriptions, a row a policy."""
    find = _Finder(columns, assigned)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for policy, latency in enumerate(find(batch)[1]):
                parts, counts = np.unique(np.rint(latency * FINE).astype(np.int64), return_counts=True)
                arrays = [pa.array(np.full(parts.size, policy)), pa.array(parts), pa.array(counts)]
                yield pa.RecordBatch.from_arrays(arrays, names=["policy", "part", "count"])

    counted = rows.select(*columns.low, *columns.high, *columns.at).mapInArrow(
        run, "policy long, part long, count long"
    )
    table = counted.groupBy("policy", "part").agg(F.sum("count").alias("count")).toArrow().sort_by("part")
    policy, part, count = (table[name].to_numpy() for name in ("policy", "part", "count"))
    return np.array([_counted(part[policy == n], count[policy == n]) for n in range(len(assigned.policies))])


def _counted(part: Rows, count: Rows) -> Floats:
    ends = np.cumsum(count)
    return np.asarray(part[np.searchsorted(ends, np.array(QUANTILES) * ends[-1])] / FINE)


def _stack(table: pa.Table | pa.RecordBatch, names: list[str]) -> Floats:
    columns = [table.column(name).to_numpy() for name in names]
    return np.stack(columns, axis=1).astype(np.float64) if columns else np.zeros((table.num_rows, 0))
