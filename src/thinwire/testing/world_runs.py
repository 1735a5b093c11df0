"""Many seeds at once, on several processes.

>>> summary = run_seeds(1, 4, processes=1)
>>> summary.seeds, summary.failed
(4, {})
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from typing import TypeVar

from thinwire.testing.world import Report, World

PORTION = 50
"""seeds a process takes at a time"""

Progress = Callable[[int], None]

R = TypeVar("R")


@dataclass
class Summary:
    """What many worlds came to.

    failed: the violations of each seed that has any; `python -m thinwire.testing.world SEED` tells its story
    """

    seeds: int = 0
    events: int = 0
    frames: int = 0
    delivered: int = 0
    restarts: int = 0
    resyncs: int = 0
    let_through: int = 0
    failed: dict[int, list[str]] = field(default_factory=dict)

    def add(self, report: Report) -> None:
        """Count one more world."""
        self.seeds += 1
        for name in ("events", "frames", "delivered", "restarts", "resyncs", "let_through"):
            setattr(self, name, getattr(self, name) + getattr(report, name))
        if report.violations:
            self.failed[report.seed] = report.violations


def run_seeds(
    first: int, count: int, progress: Progress | None = None, processes: int = 2, compiled: bool | None = None
) -> Summary:
    """Run the worlds of seeds `first`, `first + 1`, ...

    progress: told how many are done; compiled: force the kernels on or off, otherwise each seed decides
    """
    summary = Summary()
    for reports in portions(first, count, processes, partial(_run, compiled)):
        for report in reports:
            summary.add(report)
        if progress is not None:
            progress(summary.seeds)
    return summary


def portions(first: int, count: int, processes: int, run: Callable[[int, int], list[R]]) -> Iterator[list[R]]:
    """What `run` gives of the seeds from one to before another, portion by portion, as they are done."""
    ends = [(start, min(start + PORTION, first + count)) for start in range(first, first + count, PORTION)]
    if processes == 1:
        yield from (run(start, end) for start, end in ends)
        return
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(run, start, end) for start, end in ends]):
            yield done.result()


def _run(compiled: bool | None, start: int, end: int) -> list[Report]:
    reports = [World(seed, compiled=compiled).run() for seed in range(start, end)]
    for report in reports:
        report.story.clear()  # it is told again by its seed, and costs more to send than to make
    return reports
