"""Training sets in pieces: every piece a cell of a sweep, on Spark or one after the other in this process.

A cell answers with the p90 of its runs; who gathers them draws the same topics again from the seed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from thinwire.analysis import analysis_cells as analysis
from thinwire.analysis.analysis_cells import Cell
from thinwire.placement import Host, Run
from thinwire.placement.queue_simulator_samples import random_sets, rerun

Sweep = analysis.Run
"""runs a function on cells, given what each one weighs"""
PIECE = 125
"""runs of a cell"""


def here(
    function: Callable[..., Mapping[str, Any]], cells: Sequence[Cell], weight: Callable[[Cell], float]
) -> list[Mapping[str, Any]]:
    """The cells one after the other, in this process."""
    return [function(**cell) for cell in cells]


def gathered(count: int, sizes: Sequence[int], seed: int, sweep: Sweep = here, turn: int = 0) -> dict[int, list[Run]]:
    """Runs as the publication drew them, by how many topics shared the host.

    turn: how often the same topics have run before; every turn has chances of its own
    """
    cells = [
        {
            "together": size,
            "count": count,
            "seed": seed,
            "first": first,
            "last": min(count, first + PIECE),
            "turn": turn,
        }
        for size in sizes
        for first in range(0, count, PIECE)
    ]
    answers = sweep(simulated, cells, lambda cell: float((cell["last"] - cell["first"]) * cell["together"] ** 2))
    found: dict[int, list[Run]] = {size: [] for size in sizes}
    for cell, answer in zip(cells, answers, strict=True):
        sets = random_sets(count, cell["together"], seed)[cell["first"] : cell["last"]]
        runs = [Run(topics, Host(), tuple(p90)) for topics, p90 in zip(sets, answer["p90"], strict=True)]
        found[cell["together"]] += runs
    return found


def simulated(together: int, count: int, seed: int, first: int, last: int, turn: int = 0) -> Mapping[str, Any]:
    """The p90 of every topic of some runs of a training set."""
    sets = random_sets(count, together, seed)
    chances = [(seed, together, n, turn) if turn else (seed, together, n) for n in range(first, last)]
    return {"p90": [rerun(sets[n[2]], Host(), n).p90 for n in chances]}
