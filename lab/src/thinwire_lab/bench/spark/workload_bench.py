"""Generating workloads of growing size, and assigning the subscribers of one: time, memory and what is gained.

Generation runs in a process of its own, with a driver of one gigabyte: memory is that of all processes below it. Quick
runs have no bars: with a dozen brokers there is little to gain, and starting outweighs the rows.
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

from thinwire_lab.bench.benchmark import Bar, Row, Setting
from thinwire_lab.bench.spark.process_usage import TWO, Peak, Spent, running, spent
from thinwire_lab.workload.assignment import AssignmentCosts, policies
from thinwire_lab.workload.builtin_summary import builtin
from thinwire_lab.workload.recipe import Recipe

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MINUTES, GIGABYTES = 5, 4
MORE, LESS = 1.1, 0.8
"""what a joint policy may be worse by in one thing, and must be better by in the other"""


class WorkloadSizes(NamedTuple):
    """How much is generated, and assigned.

    generated: subscriptions, and as many events, of each run; one of `warm` comes before them, uncounted
    subscriptions, brokers: of the workload that is assigned
    judged: whether it is enough for the bars
    """

    generated: tuple[int, ...]
    warm: int
    subscriptions: int
    brokers: int
    judged: bool = False

    @classmethod
    def of(cls, setting: Setting) -> WorkloadSizes:
        return QUICK if setting.quick else FULL


FULL = WorkloadSizes((100_000, 1_000_000, 10_000_000), 20_000, 1_000_000, 100, judged=True)
QUICK = WorkloadSizes((4_000, 20_000), 4_000, 4_000, 12)


class WorkloadSize(NamedTuple):
    """One size: rows of each kind, what they took, and the most memory meanwhile, in bytes."""

    rows: int
    took: Spent
    memory: int


def generation(setting: Setting) -> Iterator[Row]:
    """One run for each size, so many subscriptions and as many events."""
    sizes = WorkloadSizes.of(setting)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
        found = fresh.submit(_alone, sizes).result()
    yield from growth(found, sizes.judged)


def growth(found: Sequence[WorkloadSize], judged: bool = True) -> Iterator[Row]:
    """Time and memory of each size, the last one held against the bars, and what a row costs from one to the next."""
    for one in found:
        last = judged and one is found[-1]
        how = f"{one.took.cpu:,.1f} CPU-s, {1e6 * one.took.cpu / one.rows:,.2f} us a pair of rows, one run on {TWO}"
        name = f"generate, {one.rows:,} subscriptions and events"
        yield Row(f"{name}: on the clock", "s", one.took.wall, high=60.0 * MINUTES if last else None, how=how)
        high = 1000.0 * GIGABYTES if last else None
        yield Row(f"{name}: peak memory of all processes", "MB", one.memory / 1e6, high=high, how=f"on {TWO}")
    for before, after in pairwise(found):
        name = f"generate: CPU time a row with {after.rows:,} to that with {before.rows:,}"
        value = after.took.cpu / after.rows / (before.took.cpu / before.rows)
        yield Row(name, "times", value, how="one run each; 1 is linear, less where starting weighs")


def _alone(sizes: WorkloadSizes) -> list[WorkloadSize]:
    from thinwire.spark.session import session

    spark = session(TWO, app="thinwire bench", ship=False, **{"spark.driver.memory": "1g"})
    try:
        return generated(spark, sizes)
    finally:
        spark.stop()


def generated(spark: SparkSession, sizes: WorkloadSizes) -> list[WorkloadSize]:
    """What each size took."""
    from thinwire_lab.workload.spark.workload_folder import generate

    found = []
    for rows in (sizes.warm, *sizes.generated):
        recipe = Recipe(subscriptions=rows, events=rows, brokers=sizes.brokers, seed=7)
        with TemporaryDirectory(prefix="thinwire-bench-") as folder, Peak() as peak:
            took = spent(partial(generate, spark, builtin(), recipe, Path(folder) / "wide"))
        found.append(WorkloadSize(rows, took, peak.all))
    return found[1:]


def assignment(setting: Setting) -> Iterator[Row]:
    """All policies on one workload."""
    with running() as spark:
        yield from assigned(spark, WorkloadSizes.of(setting))


def assigned(spark: SparkSession, sizes: WorkloadSizes) -> Iterator[Row]:
    """What the joint policies gain, and what it takes to find out."""
    from thinwire_lab.workload.spark.assignment_job import assign
    from thinwire_lab.workload.spark.workload_folder import generate

    wanted = policies("all")
    recipe = Recipe(subscriptions=sizes.subscriptions, events=10_000, brokers=sizes.brokers, seed=7)
    with TemporaryDirectory(prefix="thinwire-bench-") as folder:
        place = Path(folder) / "wide"
        generate(spark, builtin(), recipe, place)
        answers: list[list[AssignmentCosts]] = []
        took = spent(lambda: answers.append(assign(spark, place, wanted)[1]))
    found = {policy.name: own for policy, own in zip(wanted, answers[0], strict=True)}
    how = f"{sizes.subscriptions:,} subscriptions, {sizes.brokers} brokers, built-in summary, 2,000 events"
    yield from gains(found, how, sizes.judged)
    told = f"{how}; {took.wall:,.0f} s on the clock, {len(wanted)} policies on {TWO}"
    yield Row("assign: CPU time of all policies", "s", took.cpu, how=told)


def gains(found: Mapping[str, AssignmentCosts], how: str, judged: bool = True) -> Iterator[Row]:
    """What the joint policies gain over each of the two extremes."""
    near, similar = found["proximity"], found["interest"]
    joint = {name: own for name, own in found.items() if name.startswith("joint")}
    quick = {name: own for name, own in joint.items() if own.p90 <= MORE * near.p90}
    thin = {name: own for name, own in joint.items() if own.wasted <= MORE * similar.wasted}
    title = f"assign jointly, p90 at most {MORE:g}x of proximity's: wasted deliveries to proximity's"
    yield _gain(title, {name: own.wasted / near.wasted for name, own in quick.items()}, found, how, judged)
    title = f"assign jointly, waste at most {MORE:g}x of interest's: p90 to interest's"
    yield _gain(title, {name: own.p90 / similar.p90 for name, own in thin.items()}, found, how, judged)


def _gain(title: str, values: Mapping[str, float], found: Mapping[str, AssignmentCosts], how: str, judged: bool) -> Row:
    high = LESS if judged else None
    if not values:
        return Row(title, "times", high=high, how=how, note="no joint policy is within that", sound=not judged)
    best = min(values, key=lambda name: values[name])
    told = ", ".join(f"{name}: {found[name].wasted:.2f} wasted, p90 {found[name].p90:.1f} ms" for name in
                     ("proximity", best, "interest"))  # fmt: skip
    return Row(title, "times", values[best], high=high, how=f"{told}; {how}")


BARS = [Bar("generation", generation), Bar("assignment", assignment)]
