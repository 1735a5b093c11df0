"""Many worlds of dictionaries at once, on several processes.

>>> summary = run_seeds(1, 4, processes=1)
>>> summary.seeds, summary.failed
(4, {})
"""

from __future__ import annotations

from dataclasses import dataclass

from thinwire.testing.worlds.dictionary_world import Report, World
from thinwire.testing.worlds.stream_world_world_runs import Progress, Sums, portions, summed


@dataclass
class Summary(Sums):
    """What many worlds came to; `python -m thinwire.testing.worlds.dictionary_world SEED` tells the story of a seed."""

    notes: int = 0
    packed: int = 0
    spread: int = 0
    delivered: int = 0
    missed: int = 0
    refused: int = 0


def run_seeds(first: int, count: int, progress: Progress | None = None, processes: int = 2) -> Summary:
    """Run the worlds of seeds `first`, `first + 1`, ...; progress: told how many are done."""
    return summed(Summary(), portions(first, count, processes, _run), progress)


def _run(start: int, end: int) -> list[Report]:
    reports = [World(seed).run() for seed in range(start, end)]
    for report in reports:
        report.story.clear()  # it is told again by its seed, and costs more to send than to make
    return reports
