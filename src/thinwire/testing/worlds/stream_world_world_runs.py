"""Many seeds at once, on several processes.

>>> summary = run_seeds(1, 4, processes=1)
>>> summary.seeds, summary.failed
(4, {})
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, fields
from functools import partial
from multiprocessing import get_context
from typing import Protocol, TypeVar

from thinwire.testing.worlds.stream_world import Report, World

PORTION = 50
"""seeds a process takes at a time"""

Progress = Callable[[int], None]

R = TypeVar("R")
S = TypeVar("S", bound="Sums")


class Outcome(Protocol):
    """What a world of a seed came to."""

    seed: int
    violations: list[str]


@dataclass
class Sums:
    """What many worlds came to: whatever a kind of world adds is a count that its reports have too.

    failed: the violations of each seed that has any
    """

    seeds: int = 0
    failed: dict[int, list[str]] = field(default_factory=dict)

    def add(self, report: Outcome) -> None:
        """Count one more world."""
        self.seeds += 1
        for name in (f.name for f in fields(self) if f.name not in ("seeds", "failed")):
            setattr(self, name, getattr(self, name) + getattr(report, name))
        if report.violations:
            self.failed[report.seed] = report.violations


@dataclass
class Summary(Sums):
    """The same of worlds of links; `python -m thinwire.testing.worlds.stream_world SEED` tells the story of a seed."""

    events: int = 0
    frames: int = 0
    delivered: int = 0
    restarts: int = 0
    resyncs: int = 0
    let_through: int = 0


def run_seeds(
    first: int, count: int, progress: Progress | None = None, processes: int = 2, compiled: bool | None = None
) -> Summary:
    """Run the worlds of seeds `first`, `first + 1`, ...

    progress: told how many are done; compiled: force the kernels on or off, otherwise each seed decides
    """
    return summed(Summary(), portions(first, count, processes, partial(_run, compiled)), progress)


def summed(summary: S, reports: Iterable[Sequence[Outcome]], progress: Progress | None) -> S:
    """The summary with all reports added, portion by portion."""
    for portion in reports:
        for report in portion:
            summary.add(report)
        if progress is not None:
            progress(summary.seeds)
    return summary


def portions(first: int, count: int, processes: int, run: Callable[[int, int], Sequence[R]]) -> Iterator[Sequence[R]]:
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
