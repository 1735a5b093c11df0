"""Benchmarks of wide-area workloads on Spark: generation at growing sizes, and assignment of subscribers to brokers.

Generation runs in a process of its own, with a driver of one gigabyte. Memory is that of this process and all its
descendants. Quick runs have no required results, because a dozen brokers allow only small gains and most of the time is
the start of a job.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from thinwire_lab.bench.benchmark import Benchmark, Row, Setting
from thinwire_lab.bench.spark.process_usage import TWO_CORES, ProcessUsage, measure_usage, spark_session
from thinwire_lab.workload.assignment.assignment_costs import AssignmentCosts
from thinwire_lab.workload.assignment.broker_assignment import policies
from thinwire_lab.workload.builtin_summary import builtin
from thinwire_lab.workload.recipe import Recipe

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAX_MINUTES, MAX_GIGABYTES = 5, 4
MAX_LOSS, MAX_GAIN_RATIO = 1.1, 0.8
"""a joint policy may have 1.1 times the p90 of `proximity` if it wastes at most 0.8 times as much, and may waste 1.1
times as much as `interest` if its p90 is at most 0.8 times as high"""


class WorkloadSizes(NamedTuple):
    """Sizes of the workloads.

    generated: subscriptions, and as many events, of each run; an uncounted run of size `warm_up` comes first
    subscriptions, brokers: of the workload that is assigned
    has_requirements: whether the sizes suffice for required results
    """

    generated: tuple[int, ...]
    warm_up: int
    subscriptions: int
    brokers: int
    has_requirements: bool = False

    @classmethod
    def of(cls, setting: Setting) -> WorkloadSizes:
        return QUICK if setting.quick else FULL


FULL = WorkloadSizes((100_000, 1_000_000, 10_000_000), 20_000, 1_000_000, 100, has_requirements=True)
QUICK = WorkloadSizes((4_000, 20_000), 4_000, 4_000, 12)


class WorkloadSize(NamedTuple):
    """Rows of each kind, and the usage of their generation."""

    rows: int
    usage: ProcessUsage


def run_generation(setting: Setting) -> Iterator[Row]:
    """Generate each size once."""
    sizes = WorkloadSizes.of(setting)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor:
        found = executor.submit(_generate_alone, sizes).result()
    yield from generation_rows(found, sizes.has_requirements)


def generation_rows(found: Sequence[WorkloadSize], has_requirements: bool = True) -> Iterator[Row]:
    """Return time and memory of each size, with required results for the last, and the growth per row."""
    for size in found:
        last = has_requirements and size is found[-1]
        each = 1e6 * size.usage.cpu / size.rows
        how = f"{size.usage.cpu:,.1f} CPU-s, {each:,.2f} us a pair of rows, one run on {TWO_CORES}"
        name = f"generate, {size.rows:,} subscriptions and events"
        yield Row(f"{name}: on the clock", "s", size.usage.wall, high=60.0 * MAX_MINUTES if last else None, how=how)
        high = 1000.0 * MAX_GIGABYTES if last else None
        yield Row(
            f"{name}: peak memory of all processes", "MB", size.usage.memory / 1e6, high=high, how=f"on {TWO_CORES}"
        )
    for before, after in pairwise(found):
        name = f"generate: CPU time a row with {after.rows:,} to that with {before.rows:,}"
        value = after.usage.cpu / after.rows / (before.usage.cpu / before.rows)
        yield Row(name, "times", value, how="one run each; 1 is linear, less if the start of the job dominates")


def _generate_alone(sizes: WorkloadSizes) -> list[WorkloadSize]:
    with spark_session(**{"spark.driver.memory": "1g"}) as spark:
        return measure_generation(spark, sizes)


def measure_generation(spark: SparkSession, sizes: WorkloadSizes) -> list[WorkloadSize]:
    """Return the usage of each size."""
    from thinwire_lab.workload.spark.workload_folder import generate

    found = []
    for rows in (sizes.warm_up, *sizes.generated):
        recipe = Recipe(subscriptions=rows, events=rows, brokers=sizes.brokers, seed=7)
        with TemporaryDirectory(prefix="thinwire-bench-") as folder:
            usage = measure_usage(partial(generate, spark, builtin(), recipe, Path(folder) / "wide"))
        found.append(WorkloadSize(rows, usage))
    return found[1:]


def run_assignment(setting: Setting) -> Iterator[Row]:
    """Assign one workload with all policies."""
    with spark_session() as spark:
        yield from assign_in_session(spark, WorkloadSizes.of(setting))


def assign_in_session(spark: SparkSession, sizes: WorkloadSizes) -> Iterator[Row]:
    """Return the gains of the joint policies and the processor time."""
    from thinwire_lab.workload.spark.assignment_job import assign
    from thinwire_lab.workload.spark.workload_folder import generate

    wanted = policies("all")
    recipe = Recipe(subscriptions=sizes.subscriptions, events=10_000, brokers=sizes.brokers, seed=7)
    with TemporaryDirectory(prefix="thinwire-bench-") as folder:
        workload = Path(folder) / "wide"
        generate(spark, builtin(), recipe, workload)
        results: list[list[AssignmentCosts]] = []
        usage = measure_usage(lambda: results.append(assign(spark, workload, wanted)[1]))
    found = {policy.name: own for policy, own in zip(wanted, results[0], strict=True)}
    how = f"{sizes.subscriptions:,} subscriptions, {sizes.brokers} brokers, built-in summary, 2,000 events"
    yield from gain_rows(found, how, sizes.has_requirements)
    details = f"{how}; {usage.wall:,.0f} s on the clock, {len(wanted)} policies on {TWO_CORES}"
    yield Row("assign: CPU time of all policies", "s", usage.cpu, how=details)


def gain_rows(found: Mapping[str, AssignmentCosts], how: str, has_requirements: bool = True) -> Iterator[Row]:
    """Return the gains of the joint policies over each of the two extremes."""
    proximity, interest = found["proximity"], found["interest"]
    joint = {name: own for name, own in found.items() if name.startswith("joint")}
    with_low_p90 = {name: own for name, own in joint.items() if own.p90 <= MAX_LOSS * proximity.p90}
    with_low_waste = {name: own for name, own in joint.items() if own.wasted <= MAX_LOSS * interest.wasted}
    title = f"assign jointly, p90 at most {MAX_LOSS:g}x of proximity's: wasted deliveries to proximity's"
    waste = {name: own.wasted / proximity.wasted for name, own in with_low_p90.items()}
    yield _gain_row(title, waste, found, how, has_requirements)
    title = f"assign jointly, waste at most {MAX_LOSS:g}x of interest's: p90 to interest's"
    p90 = {name: own.p90 / interest.p90 for name, own in with_low_waste.items()}
    yield _gain_row(title, p90, found, how, has_requirements)


def _gain_row(
    title: str, values: Mapping[str, float], found: Mapping[str, AssignmentCosts], how: str, has_requirements: bool
) -> Row:
    high = MAX_GAIN_RATIO if has_requirements else None
    if not values:
        missing = "no joint policy is within that"
        note, invalid = ("", missing) if has_requirements else (missing, "")
        return Row(title, "times", high=high, how=how, note=note, invalid=invalid)
    best = min(values, key=lambda name: values[name])
    costs = ", ".join(f"{name}: {found[name].wasted:.2f} wasted, p90 {found[name].p90:.1f} ms" for name in
                     ("proximity", best, "interest"))  # fmt: skip
    return Row(title, "times", values[best], high=high, how=f"{costs}; {how}")


BENCHMARKS = [Benchmark("generation", run_generation), Benchmark("assignment", run_assignment)]
