"""Benchmarks of `thinwire analyze` on Spark: beside the same functions in one process, and with growing streams."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from thinwire.analysis import AnalysisReport, AnalysisRequest, analyze_files
from thinwire_lab.bench.benchmark import Benchmark, Row, Setting
from thinwire_lab.bench.spark.bench_site import all_events
from thinwire_lab.bench.spark.process_usage import (
    TWO_CORES,
    Peak,
    ProcessUsage,
    measure_usage,
    race,
    rate,
    ratio,
    spark_session,
)
from thinwire_lab.live.live_feed import TOPIC

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS, QUICK = 1_000_000, 20_000
SIZES, QUICK_SIZES = (100_000, 1_000_000, 10_000_000), (4_000, 20_000)
WARM = 20_000
"""events of the uncounted first run"""
ROUNDS = 3
OURS, ALONE = "Spark", "one process"
MAX_TIME = 2.0


class AnalysisSize(NamedTuple):
    """Time and peak memory of one size."""

    events: int
    spent: ProcessUsage
    peak: Peak


def analysis(setting: Setting) -> Iterator[Row]:
    """Run both in turn. They must find the same."""
    events = setting.size(EVENTS, QUICK)
    with TemporaryDirectory(prefix="thinwire-bench-") as folder, spark_session() as spark:
        small, path = (_write_lines(Path(folder), count) for count in (min(WARM, events), events))
        _on_spark(spark, small)
        _in_process(small)
        results: dict[str, Any] = {}
        methods = {
            OURS: lambda: results.update({OURS: _figures(_on_spark(spark, path))}),
            ALONE: lambda: results.update({ALONE: _figures(_in_process(path))}),
        }
        rounds = setting.size(ROUNDS, 1)
        found = race(methods, rounds, setting.progress, warm=False, alone=[ALONE])
    trouble = "" if results[OURS] == results[ALONE] else "the results differ"
    how = (
        f"{events:,} events as JSON lines, {_strategies()} strategies, median of {rounds} rounds in turn on {TWO_CORES}"
    )
    how += f"; events a CPU-second: {rate(events, found[OURS]):,.0f} to {rate(events, found[ALONE]):,.0f}"
    name = "analyze: CPU time to the same functions in one process"
    value = ratio(found[OURS], found[ALONE])
    yield Row(name, "times", value, high=MAX_TIME, how=how, note=trouble, sound=not trouble)


def growth(setting: Setting) -> Iterator[Row]:
    """Run once for each size."""
    sizes = QUICK_SIZES if setting.quick else SIZES
    found: list[AnalysisSize] = []
    with spark_session() as spark:
        for number, events in enumerate((min(WARM, sizes[0]), *sizes)):
            with TemporaryDirectory(prefix="thinwire-bench-") as folder, Peak() as peak:
                path = _write_lines(Path(folder), events)
                usage = measure_usage(partial(_on_spark, spark, path))
            if number:
                found.append(AnalysisSize(events, usage, peak))
            setting.progress(number / len(sizes))
    for size in found:
        yield from _size_rows(size)
    for before, after in pairwise(found):
        name = f"analyze: CPU time an event with {after.events:,} to that with {before.events:,}"
        how = f"one run each on {TWO_CORES}, {_strategies()} strategies; 1 is linear"
        yield Row(name, "times", after.spent.cpu / after.events / (before.spent.cpu / before.events), how=how)


def _size_rows(size: AnalysisSize) -> Iterator[Row]:
    how = f"{1e6 * size.spent.cpu / size.events:,.1f} us an event, {size.spent.wall:,.0f} s on the clock"
    how += f", one run on {TWO_CORES}"
    yield Row(f"analyze, {size.events:,} events, {_strategies()} strategies: CPU time", "s", size.spent.cpu, how=how)
    how = f"the largest Python process below the driver; all processes together {size.peak.all / 1e6:,.0f} MB"
    yield Row(
        f"analyze, {size.events:,} events: peak resident memory of a worker", "MB", size.peak.worker / 1e6, how=how
    )


def _write_lines(folder: Path, events: int) -> Path:
    path = folder / f"{events}.jsonl"
    with path.open("w") as out:
        for event in all_events(events):
            out.write(json.dumps(event, separators=(",", ":")) + "\n")
    return path


def _request() -> AnalysisRequest:
    return AnalysisRequest(TOPIC, time="time", dimensions=["sensor"])


def _strategies() -> int:
    return len(_request().strategies)


def _on_spark(spark: SparkSession, path: Path) -> AnalysisReport:
    from thinwire.spark.jobs.analyze import analyze

    return analyze(spark, [str(path)], _request())


def _in_process(path: Path) -> AnalysisReport:
    return analyze_files([path], _request())


def _figures(report: AnalysisReport) -> dict[str, Any]:
    """Return the results that do not depend on time."""
    outcomes = [strategy.outcome for strategy in report.strategies]
    return {o.strategy.name: (o.events, o.total, o.missing, o.worst_ratio) for o in outcomes}


BENCHMARKS = [Benchmark("analyze", analysis), Benchmark("analyze, growth", growth)]
