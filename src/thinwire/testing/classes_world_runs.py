"""Many worlds of classes at once, on several processes.

>>> summary = run_seeds(1, 4, processes=1)
>>> summary.seeds, summary.failed
(4, {})
"""

from __future__ import annotations

from dataclasses import dataclass, field

from thinwire.testing.classes_world import Report, World
from thinwire.testing.world_runs import Progress, portions


@dataclass
class Summary:
    """What many worlds came to; the fields of their reports, added up.

    failed: the violations of each seed that has any; `python -m thinwire.testing.classes_world SEED` tells its story
    """

    seeds: int = 0
    events: int = 0
    delivered: int = 0
    missed: int = 0
    stored: int = 0
    successions: int = 0
    stale: int = 0
    refused: int = 0
    failed: dict[int, list[str]] = field(default_factory=dict)

    def add(self, report: Report) -> None:
        """Count one more world."""
        self.seeds += 1
        for name in ("events", "delivered", "missed", "stored", "successions", "stale", "refused"):
            setattr(self, name, getattr(self, name) + getattr(report, name))
        if report.violations:
            self.failed[report.seed] = report.violations


def run_seeds(first: int, count: int, progress: Progress | None = None, processes: int = 2) -> Summary:
    """Run the worlds of seeds `first`, `first + 1`, ...; progress: told how many are done."""
    summary = Summary()
    for reports in portions(first, count, processes, _run):
        for report in reports:
            summary.add(report)
        if progress is not None:
            progress(summary.seeds)
    return summary


def _run(start: int, end: int) -> list[Report]:
    reports = [World(seed).run() for seed in range(start, end)]
    for report in reports:
        report.story.clear()  # it is told again by its seed, and costs more to send than to make
    return reports
