"""Runs the simulated worlds of many seeds, or prints what happens in the world of one seed.

    python tests/worlds/run_seeds.py services 7                  print the world of seed 7
    python tests/worlds/run_seeds.py services 1 10000            run 10,000 seeds
    python tests/worlds/run_seeds.py fuzz 1 1000000              try 1,000,000 altered inputs

`--json` prints the result as one line of JSON. The exit status is 1 if a seed fails.

>>> totals = run_seeds("streams", 1, 4)
>>> totals.seeds, totals.failed
(4, {})
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, fields
from hashlib import blake2b
from multiprocessing import get_context
from typing import Any

from fuzz import run_fuzz
from service_world import ServiceWorld
from stream_world import StreamWorld

PORTION = 50
"""number of seeds that a process takes at a time"""

WORLDS: dict[str, Callable[[int], Any]] = {
    "streams": StreamWorld,
    "services": ServiceWorld,
    "dictionaries": lambda seed: ServiceWorld(seed, dictionaries=True),
}

Progress = Callable[[int], None]
"""receives the number of seeds that are done"""


@dataclass
class Totals:
    """What the worlds of many seeds did.

    counts: sums of the counters of their reports, by name; failed: the violations by seed
    """

    seeds: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    failed: dict[int, list[str]] = field(default_factory=dict)

    def add(self, report: Any) -> None:
        """Add the report of one world."""
        self.seeds += 1
        names = [f.name for f in fields(report) if f.name not in ("seed", "violations", "trace")]
        self.counts.update({name: getattr(report, name) for name in names})
        if report.violations:
            self.failed[report.seed] = report.violations


def run_seeds(kind: str, first: int, count: int, progress: Progress | None = None, processes: int = 1) -> Totals:
    """Run the worlds of the seeds `first`, `first + 1`, ..."""
    totals = Totals()
    for reports in _run_portions(kind, first, count, processes):
        for report in reports:
            totals.add(report)
        if progress is not None:
            progress(totals.seeds)
    return totals


def _run_portions(kind: str, first: int, count: int, processes: int) -> Iterator[Sequence[Any]]:
    ends = [(start, min(start + PORTION, first + count)) for start in range(first, first + count, PORTION)]
    if processes == 1:
        yield from (_run_portion(kind, start, end) for start, end in ends)
        return
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(_run_portion, kind, start, end) for start, end in ends]):
            yield done.result()


def _run_portion(kind: str, start: int, end: int) -> list[Any]:
    logging.disable(logging.CRITICAL)
    try:
        reports = [WORLDS[kind](seed).run() for seed in range(start, end)]
    finally:
        logging.disable(logging.NOTSET)
    for report in reports:
        report.trace.clear()  # long; the seed repeats it
    return reports


def describe(kind: str, seed: int) -> tuple[str, bool]:
    """Return what happened in the world of a seed as text, and whether nothing was violated."""
    report = WORLDS[kind](seed).run()
    digest = blake2b("\n".join(report.trace).encode(), digest_size=8).hexdigest()
    counts = ", ".join(f"{name} {value}" for name, value in vars(report).items() if isinstance(value, int))
    violations = [f"VIOLATION {violation}" for violation in report.violations] or ["no violations"]
    return "\n".join([*report.trace, f"trace {digest}: {counts}", *violations]), not report.violations


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Run the simulated worlds of many seeds, or print one of them.")
    parser.add_argument("kind", choices=[*WORLDS, "fuzz"])
    parser.add_argument("first", type=int, metavar="SEED", help="the first seed")
    parser.add_argument("count", type=int, nargs="?", help="number of seeds, or of inputs to try")
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    options = parser.parse_args(arguments)
    if options.kind == "fuzz":
        result = vars(run_fuzz(options.count or 20_000, options.first, _print_progress))
        failed = result["failures"]
    elif options.count is None:
        text, is_good = describe(options.kind, options.first)
        sys.stdout.write(text + "\n")
        return 0 if is_good else 1
    else:
        totals = run_seeds(options.kind, options.first, options.count, _print_progress, os.cpu_count() or 1)
        result, failed = vars(totals), totals.failed
    indent = None if options.json else 2
    sys.stdout.write(json.dumps(result, indent=indent) + "\n")
    return 1 if failed else 0


def _print_progress(done: int) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{done:,} done")


if __name__ == "__main__":
    sys.exit(main())
