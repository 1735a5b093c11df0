"""The dry run: all strategies on Spark beside the same functions in one process, and how it grows with events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from thinwire.analysis import AnalysisReport, AnalysisRequest, analyze_files
from thinwire_lab.bench.benchmark import Bar, Row, Setting
from thinwire_lab.bench.spark.bench_site import every
from thinwire_lab.bench.spark.process_usage import TWO, Peak, Spent, race, rate, ratio, running, spent
from thinwire_lab.live.live_feed import TOPIC

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS, QUICK = 1_000_000, 20_000
SIZES, QUICK_SIZES = (100_000, 1_000_000, 10_000_000), (4_000, 20_000)
WARM = 20_000
"""events of the run before the first one that counts"""
ROUNDS = 3
OURS, ALONE = "Spark", "one process"
LIMIT = 2.0


class AnalysisSize(NamedTuple):
    """One size: what it took, and the most memory meanwhile."""

    events: int
    took: Spent
    peak: Peak


def analysis(setting: Setting) -> Iterator[Row]:
    """Both in the same run, taking turns; they must find the same."""
    events = setting.size(EVENTS, QUICK)
    with TemporaryDirectory(prefix="thinwire-bench-") as folder, running() as spark:
        small, path = (_lines(Path(folder), count) for count in (min(WARM, events), events))
        _on_spark(spark, small)
        _here(small)
        answers: dict[str, Any] = {}
        methods = {
            OURS: lambda: answers.update({OURS: _figures(_on_spark(spark, path))}),
            ALONE: lambda: answers.update({ALONE: _figures(_here(path))}),
        }
        rounds = setting.size(ROUNDS, 1)
        found = race(methods, rounds, setting.progress, warm=False, alone=[ALONE])
    trouble = "" if answers[OURS] == answers[ALONE] else "the two do not find the same"
    how = f"{events:,} events as JSON lines, {_strategies()} strategies, median of {rounds} rounds in turn on {TWO}"
    how += f"; events a CPU-second: {rate(events, found[OURS]):,.0f} to {rate(events, found[ALONE]):,.0f}"
    name = "analyze: CPU time to the same functions in one process"
    value = ratio(found[OURS], found[ALONE])
    yield Row(name, "times", value, high=LIMIT, how=how, note=trouble, sound=not trouble)


def growth(setting: Setting) -> Iterator[Row]:
    """One run for each size."""
    sizes = QUICK_SIZES if setting.quick else SIZES
    found: list[AnalysisSize] = []
    with running() as spark:
        for number, events in enumerate((min(WARM, sizes[0]), *sizes)):
            with TemporaryDirectory(prefix="thinwire-bench-") as folder, Peak() as peak:
                path = _lines(Path(folder), events)
                took = spent(partial(_on_spark, spark, path))
            if number:
                found.append(AnalysisSize(events, took, peak))
            setting.progress(number / len(sizes))
    for one in found:
        yield from _size_rows(one)
    for before, after in pairwise(found):
        name = f"analyze: CPU time an event with {after.events:,} to that with {before.events:,}"
        how = f"one run each on {TWO}, {_strategies()} strategies; 1 is linear"
        yield Row(name, "times", after.took.cpu / after.events / (before.took.cpu / before.events), how=how)


def _size_rows(one: AnalysisSize) -> Iterator[Row]:
    how = f"{1e6 * one.took.cpu / one.events:,.1f} us an event, {one.took.wall:,.0f} s on the clock, one run on {TWO}"
    yield Row(f"analyze, {one.events:,} events, {_strategies()} strategies: CPU time", "s", one.took.cpu, how=how)
    how = f"the largest Python process below the driver; all processes together {one.peak.all / 1e6:,.0f} MB"
    yield Row(f"analyze, {one.events:,} events: peak resident memory of a worker", "MB", one.peak.worker / 1e6, how=how)


def _lines(folder: Path, events: int) -> Path:
    path = folder / f"{events}.jsonl"
    with path.open("w") as out:
        for event in every(events):
            out.write(json.dumps(event, separators=(",", ":")) + "\n")
    return path


def _request() -> AnalysisRequest:
    return AnalysisRequest(TOPIC, time="time", dimensions=["sensor"])


def _strategies() -> int:
    return len(_request().strategies)


def _on_spark(spark: SparkSession, path: Path) -> AnalysisReport:
    from thinwire.spark.jobs.analyze import analyze

    return analyze(spark, [str(path)], _request())


def _here(path: Path) -> AnalysisReport:
    return analyze_files([path], _request())


def _figures(report: AnalysisReport) -> dict[str, Any]:
    """All that does not depend on how long something took."""
    outcomes = [one.outcome for one in report.strategies]
    return {one.strategy.name: (one.events, one.total, one.missing, one.worst) for one in outcomes}


BARS = [Bar("analyze", analysis), Bar("analyze, growth", growth)]
