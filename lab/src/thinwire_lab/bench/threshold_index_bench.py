"""The bars of the interval index: values a second, and time as a multiple of a vector scan of all thresholds.

Processor time, one thread, batch calls. Both methods take the same values, one after the other, taking turns in going
first, and must find the same; figures are medians over rounds.

What the interval index is measured against: every threshold looked at for every value, as fast as that goes.

No branch in the inner loop, so the compiler makes vector instructions of it. `scan_pairs` gives the same answer as the
index; `scan_counts` leaves out the answer and only counts, which nobody could use: it shows what looking alone costs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from statistics import median
from time import process_time
from typing import Any

import numpy as np

from thinwire.codec.kernels.jit import compiled, part
from thinwire_lab.bench.benchmark import Bar, Row, Setting
from thinwire_lab.overlay_sim.filters.threshold_index import IntervalIndex
from thinwire_lab.overlay_sim.filters.thresholds import Ticks
from thinwire_lab.streams.threshold_streams import attack, jumping


@part
def _look(x: int, thresholds: Any, centres: Any, flags: Any) -> int:
    """Marks and moves what fires, and says how many that are."""
    count = 0
    for i in range(len(thresholds)):
        away = x - centres[i]
        fires = (away > thresholds[i]) | (-away > thresholds[i])
        centres[i] = x if fires else centres[i]
        flags[i] = fires
        count += fires
    return count


@compiled
def scan_pairs(values: Any, thresholds: Any, centres: Any, flags: Any, words: Any, places: Any, fired: Any) -> int:
    """Writes places and thresholds that fire there, one room of pairs over and over; says how many there were.

    words: the flags again, eight of them a number, so that thresholds of which none fires are passed over together
    """
    total = 0
    for at in range(len(values)):
        count = _look(values[at], thresholds, centres, flags)
        total += count
        if count:
            n = 0
            for word in range(len(words)):
                if words[word]:
                    for i in range(8 * word, min(8 * word + 8, len(thresholds))):
                        places[n] = at
                        fired[n] = thresholds[i]
                        n += flags[i]
    return total


@compiled
def scan_counts(values: Any, thresholds: Any, centres: Any) -> int:
    """How many fired."""
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
SLOWER = 1 / 0.8
"""the index may take this many times the time of a scan at most"""
DENSE_FROM, DENSE_TO = 1, 63


@dataclass(frozen=True)
class Case:
    """Thresholds and a stream.

    spread: `wide` for 1, 2, .. count ticks, `dense` for as many between 1 and 63 of what was a tick
    stream: `jumps`, normal steps with a large one now and then; or `attack`, thresholds hit exactly
    """

    count: int
    spread: str
    stream: str

    @property
    def name(self) -> str:
        return f"{self.count:,} thresholds, {self.spread}, {self.stream}"

    @property
    def fine(self) -> int:
        """Ticks in what was a tick, so that all thresholds are distinct."""
        return -(-self.count // (DENSE_TO - DENSE_FROM)) if self.spread == "dense" else 1

    def thresholds(self) -> Ticks:
        if self.spread == "wide":
            return np.arange(1, self.count + 1)
        return np.linspace(DENSE_FROM * self.fine, DENSE_TO * self.fine, self.count).astype(np.int64)

    def values(self, events: int) -> Ticks:
        if self.stream == "attack":
            return attack(events, seed=5) * self.fine
        return jumping(events, seed=5, sigma=2.0 * self.fine)


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
    """Values a second with a million thresholds: a few fire, and nothing does."""
    count, events = setting.size(1_000_000, 10_000), setting.size(100_000, 5_000)
    few = Case(count, "wide", "jumps")
    yield _rate("a few fire", few.thresholds(), few.values(events * ROUNDS), events, 1e6)
    calm = np.tile(np.array([0, 3, -2, 5, 1]), 2 * events * ROUNDS)
    yield _rate("nothing fires", np.arange(10, count + 10), calm, 10 * events, 1e7)


def _rate(name: str, thresholds: Ticks, values: Ticks, size: int, low: float) -> Row:
    index = IntervalIndex(thresholds, int(values[0]))
    index.offer_many(values[:size])
    found, fired = [], 0
    for at in range(size, values.size, size):
        begun = process_time()
        places, _ = index.offer_many(values[at : at + size])
        found.append(size / (process_time() - begun))
        fired += places.size
    fires = fired / (values.size - size)
    how = f"{len(index):,} thresholds, {fires:.2f} fire an event, batches of {size:,}, one thread, CPU time"
    return Row(f"interval index, {name}", "events/s", median(found), low=low, how=how)


def against_scan(setting: Setting) -> Iterator[Row]:
    """Every case beside a scan that gives the same answer, and beside one that only counts."""
    for number, case in enumerate(CASES):
        small = Case(min(case.count, 2_000), case.spread, case.stream) if setting.quick else case
        yield from _compared(small, setting.size(ROUNDS, 3))
        setting.progress((number + 1) / len(CASES))


def _compared(case: Case, rounds: int) -> Iterable[Row]:
    events = max(20, min(20_000, 20_000_000 // case.count))
    values = case.values(events * (rounds + 1))
    blocks = [values[at : at + events] for at in range(0, values.size, events)]
    runs = _methods(case.thresholds(), int(values[0]))
    times, counts = _raced(runs, blocks)
    same = len(set(counts)) == 1
    how = f"{rounds} rounds of {events:,} events, {counts[0] / values.size:,.1f} fire an event, CPU time"
    pairs, counted = (median(ours / scan for ours, scan in zip(times[0], times[k], strict=True)) for k in (1, 2))
    note = "" if same else "they do not find the same"
    yield Row(f"interval index to vector scan: {case.name}", "times", pairs, None, SLOWER, how, note, same)
    yield Row(f"interval index to counting only: {case.name}", "times", counted, how=how)


def _methods(thresholds: Ticks, start: int) -> list[Callable[[Ticks], int]]:
    """The index, the scan, and the scan that only counts: each answers how many fired."""
    index = IntervalIndex(thresholds, start)
    centres, again = (np.full(thresholds.size, start, dtype=np.int64) for _ in range(2))
    words = np.zeros(-(-thresholds.size // 8), dtype=np.uint64)
    flags = words.view(np.bool_)
    places, fired = (np.empty(thresholds.size + 1, dtype=np.int64) for _ in range(2))
    return [
        lambda values: sum(at.size for at, _ in index.offer_batches(values)),
        lambda values: int(scan_pairs(values, thresholds, centres, flags, words, places, fired)),
        lambda values: int(scan_counts(values, thresholds, again)),
    ]


def _raced(runs: list[Callable[[Ticks], int]], blocks: list[Ticks]) -> tuple[list[list[float]], list[int]]:
    """Times of each method, round by round, and what each found in all; the first block warms up."""
    times: list[list[float]] = [[] for _ in runs]
    counts = [run(blocks[0]) for run in runs]
    for number, block in enumerate(blocks[1:]):
        order = range(len(runs)) if number % 2 else reversed(range(len(runs)))
        for method in order:
            begun = process_time()
            counts[method] += runs[method](block)
            times[method].append(process_time() - begun)
    return times, counts


BARS = [Bar("interval index: rates", rates), Bar("interval index: against a scan", against_scan)]
