"""What was measured, apart from what is simulated: runs of a load harness, and the file the authors released."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from thinwire.analysis.placement_files import RUNS, read_runs
from thinwire.placement.calibration_calibrating import Calibration, Closeness, calibrate
from thinwire.placement.measured_runs import MeasuredRun
from thinwire_lab.reproduce.dictionaries.thesis_sheet_dictionaries_sheet import Sheet
from thinwire_lab.reproduce.placement.placement_cells_placement_occasion import Occasion

RELEASED = Path("edgent", "pubsub_p90_by_publishers_subscribers.csv")
MOST_ROWS = 100_000
RUN_COLUMNS = ("topics", "messages/s", "ms a message", "publishers", "subscribers", "p90 ms", "lowest", "highest",
               "runs", "disturbed")  # fmt: skip
ENOUGH = 4
"""configurations that calibration needs at least, so that some can be held back"""


def measured(occasion: Occasion) -> Iterator[Sheet]:
    """Sheets of whatever the folder has; nothing where there is none."""
    folder = occasion.data
    if folder is None:
        return
    if (folder / RELEASED).exists():
        yield _subscribers(folder / RELEASED)
    if (folder / RUNS).exists():
        runs = read_runs(folder / RUNS)
        yield _runs(runs)
        if len({run.configuration for run in runs if not run.disturbed}) >= ENOUGH:
            yield _calibration(calibrate(runs))


def _subscribers(path: Path) -> Sheet:
    """Figure 1a as far as the authors released it: one topic without processing, by subscribers."""
    found: dict[int, list[float]] = defaultdict(list)
    with path.open(newline="", encoding="utf-8") as file:
        for number, row in enumerate(csv.reader(file)):
            if number and number < MOST_ROWS and row[0].strip() == "1":
                found[int(row[1])].append(float(row[2]))
    rows: list[tuple[Any, ...]] = [(n, round(median(found[n]), 1), len(found[n])) for n in sorted(found)]
    title = "figure 1a, measured by the authors: one publisher, no processing"
    return Sheet(title, ("subscribers", "p90 ms", "runs"), rows, ("released without the machine it was measured on",))


def _runs(runs: list[MeasuredRun]) -> Sheet:
    title = "figure 1, measured here: the first topic of every configuration"
    return Sheet(title, RUN_COLUMNS, run_rows(runs))


def run_rows(runs: Sequence[MeasuredRun]) -> list[tuple[Any, ...]]:
    """One row a configuration: the middle of its calm runs, and their spread."""
    alike: dict[tuple[Any, ...], list[MeasuredRun]] = defaultdict(list)
    for run in runs:
        first = run.met[0]
        alike[(*run.configuration, first.subscribers, first.publishers)].append(run)
    return [_row(some) for some in alike.values()]


def _row(runs: list[MeasuredRun]) -> tuple[Any, ...]:
    first, calm = runs[0].met[0], [run for run in runs if not run.disturbed]
    p90 = [1000 * run.met[0].p90 for run in calm]
    told = (median(p90), min(p90), max(p90)) if p90 else (None, None, None)
    about = (len(runs[0].met), first.topic.rate, 1000 * first.topic.interval, first.publishers, first.subscribers)
    return (*about, *told, len(calm), len(runs) - len(calm))


def _calibration(found: Calibration) -> Sheet:
    host = found.host
    fitted = f"speed {host.speed:.3g}, contention {host.contention:.3g}, {1000 * host.overhead:.3g} ms on the way"
    both = (("fitted to", found.seen), ("held back", found.fresh))
    rows = [_close(name, close) for name, close in both if close is not None]
    columns = ("runs", "how many", "topics", "R2(log)", "mean off %", "worst off %")
    return Sheet(f"the simulator fitted to measured runs: {fitted}", columns, rows)


def _close(name: str, close: Closeness) -> tuple[Any, ...]:
    return name, close.runs, close.topics, close.fit, 100 * close.off, 100 * close.worst
