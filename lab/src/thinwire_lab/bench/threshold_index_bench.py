"""Benchmarks of the interval index: values per second, and time as a multiple of a vector scan of all thresholds.

Processor time of one thread, batch calls. The methods process the same values, take turns in going first, and must find
the same; values are medians over rounds.

The vector scan compares every threshold with every value as fast as possible: its inner loop has no branch, so that the
compiler makes vector instructions of it. `scan_pairs` returns the same result as the index. `scan_counts` only counts,
which no application can use; it shows the cost of the comparisons alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from statistics import median
from time import process_time
from typing import Any

import numpy as np

from thinwire.codec.kernels.jit import compiled, part
from thinwire_lab.bench.benchmark import Benchmark, Row, Setting, time_blocks
from thinwire_lab.overlay_sim.filters.threshold_index import IntervalIndex
from thinwire_lab.overlay_sim.filters.thresholds import Ticks
from thinwire_lab.streams.threshold_streams import attack, jumping


@part
def _compare(x: int, thresholds: Any, centres: Any, flags: Any) -> int:
    """Set the flags and centres of the thresholds that fire, and return their number."""
    count = 0
    for i in range(len(thresholds)):
        away = x - centres[i]
        fires = (away > thresholds[i]) | (-away > thresholds[i])
        centres[i] = x if fires else centres[i]
        flags[i] = fires
        count += fires
    return count


@compiled
def scan_pairs(values: Any, thresholds: Any, centres: Any, flags: Any, words: Any, indexes: Any, fired: Any) -> int:
    """Write the indexes and thresholds that fire into buffers, which are reused, and return the number of pairs.

    words: the same memory as the flags, eight flags in a number, so that eight thresholds can be skipped together
    """
    total = 0
    for at in range(len(values)):
        count = _compare(values[at], thresholds, centres, flags)
        total += count
        if count:
            n = 0
            for word in range(len(words)):
                if words[word]:
                    for i in range(8 * word, min(8 * word + 8, len(thresholds))):
                        indexes[n] = at
                        fired[n] = thresholds[i]
                        n += flags[i]
    return total


@compiled
def scan_counts(values: Any, thresholds: Any, centres: Any) -> int:
    """Return the number of pairs."""
    total = 0
    for at in range(len(values)):
        x = values[at]
        for i in range(len(thresholds)):
            away = x - centres[i]
            fires = (away > thresholds[i]) | (-away > thresholds[i])
            centres[i] = x if fires else centres[i]
            total += fires
    return total


ROUNDS = 7
MAX_TIME = 1 / 0.8
"""time of the index as a multiple of that of the scan"""
DENSE_FROM, DENSE_TO = 1, 63


@dataclass(frozen=True)
class Case:
    """Thresholds and a stream.

    spread: `wide` for 1, 2, .. count ticks; `dense` for as many distinct ones between 1 and 63 larger ticks
    stream: `jumps` for normal steps with some large ones; `attack` for values that hit thresholds exactly
    """

    count: int
    spread: str
    stream: str

    @property
    def name(self) -> str:
        return f"{self.count:,} thresholds, {self.spread}, {self.stream}"

    @property
    def fineness(self) -> int:
        """Ticks of a larger tick, so that all dense thresholds are distinct."""
        return -(-self.count // (DENSE_TO - DENSE_FROM)) if self.spread == "dense" else 1

    def thresholds(self) -> Ticks:
        if self.spread == "wide":
            return np.arange(1, self.count + 1)
        return np.linspace(DENSE_FROM * self.fineness, DENSE_TO * self.fineness, self.count).astype(np.int64)

    def values(self, events: int) -> Ticks:
        if self.stream == "attack":
            return attack(events, seed=5) * self.fineness
        return jumping(events, seed=5, sigma=2.0 * self.fineness)


CASES = [
    Case(63, "wide", "jumps"),
    Case(1_000, "wide", "jumps"),
    Case(100_000, "wide", "jumps"),
    Case(100_000, "wide", "attack"),
    Case(100_000, "dense", "jumps"),
    Case(100_000, "dense", "attack"),
    Case(1_000_000, "wide", "jumps"),
    Case(1_000_000, "wide", "attack"),
    Case(1_000_000, "dense", "jumps"),
    Case(1_000_000, "dense", "attack"),
]


def rates(setting: Setting) -> Iterator[Row]:
    """Measure values per second with a million thresholds, of which a few fire or none."""
    count, events = setting.size(1_000_000, 10_000), setting.size(100_000, 5_000)
    few = Case(count, "wide", "jumps")
    yield _rate("a few fire", few.thresholds(), few.values(events * ROUNDS), events, 1e6)
    quiet = np.tile(np.array([0, 3, -2, 5, 1]), 2 * events * ROUNDS)
    yield _rate("nothing fires", np.arange(10, count + 10), quiet, 10 * events, 1e7)


def _rate(name: str, thresholds: Ticks, values: Ticks, size: int, low: float) -> Row:
    index = IntervalIndex(thresholds, int(values[0]))
    index.offer_many(values[:size])
    speeds, fired = [], 0
    for at in range(size, values.size, size):
        started = process_time()
        indexes, _ = index.offer_many(values[at : at + size])
        speeds.append(size / (process_time() - started))
        fired += indexes.size
    fires = fired / (values.size - size)
    how = f"{len(index):,} thresholds, {fires:.2f} fire an event, batches of {size:,}, one thread, CPU time"
    return Row(f"interval index, {name}", "events/s", median(speeds), low=low, how=how)


def against_scan(setting: Setting) -> Iterator[Row]:
    """Compare every case with a scan that returns the same result, and with one that only counts."""
    for number, case in enumerate(CASES):
        small = Case(min(case.count, 2_000), case.spread, case.stream) if setting.quick else case
        yield from _compare_case(small, setting.size(ROUNDS, 3))
        setting.progress((number + 1) / len(CASES))


def _compare_case(case: Case, rounds: int) -> Iterable[Row]:
    events = max(20, min(20_000, 20_000_000 // case.count))
    values = case.values(events * (rounds + 1))
    blocks = [values[at : at + events] for at in range(0, values.size, events)]
    methods = _methods(case.thresholds(), int(values[0]))
    times, results = time_blocks(methods, blocks)
    counts = list(map(sum, results))
    how = f"{rounds} rounds of {events:,} events, {counts[0] / values.size:,.1f} fire an event, CPU time"
    to_pairs, to_counts = (median(ours / scan for ours, scan in zip(times[0], times[k], strict=True)) for k in (1, 2))
    invalid = "" if len(set(counts)) == 1 else "the methods find different pairs"
    yield Row(f"interval index to vector scan: {case.name}", "times", to_pairs, high=MAX_TIME, how=how, invalid=invalid)
    yield Row(f"interval index to counting only: {case.name}", "times", to_counts, how=how)


def _methods(thresholds: Ticks, start: int) -> list[Callable[[Ticks], int]]:
    """Return the index, the scan and the counting scan, each as a function that returns the number of pairs."""
    index = IntervalIndex(thresholds, start)
    centres, counting_centres = (np.full(thresholds.size, start, dtype=np.int64) for _ in range(2))
    words = np.zeros(-(-thresholds.size // 8), dtype=np.uint64)
    flags = words.view(np.bool_)
    indexes, fired = (np.empty(thresholds.size + 1, dtype=np.int64) for _ in range(2))
    return [
        lambda values: sum(at.size for at, _ in index.offer_batches(values)),
        lambda values: int(scan_pairs(values, thresholds, centres, flags, words, indexes, fired)),
        lambda values: int(scan_counts(values, thresholds, counting_centres)),
    ]


BENCHMARKS = [Benchmark("interval index: rates", rates), Benchmark("interval index: against a scan", against_scan)]
