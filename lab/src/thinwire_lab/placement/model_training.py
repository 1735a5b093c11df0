"""Training of the stored latency models on simulated runs.

Training sets are simulated in cells of a parameter sweep, on Spark or in this process. A cell returns the p90 of its
runs; its topics are drawn again from the seed. Models are stored with machine, date and error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from thinwire.analysis.analysis_run import Cell, CellRunner
from thinwire.clock import Clock
from thinwire.placement import Host, MonotoneModel, TopicLoad
from thinwire_lab.bench.machine import this_machine
from thinwire_lab.placement.latency_model_training import fit_monotone_model
from thinwire_lab.placement.model_scores import score
from thinwire_lab.placement.published_model import PublishedModel, fit_published
from thinwire_lab.placement.queue_simulator import HostRun, random_sets, rerun
from thinwire_lab.placement.run_files import format_date, write_json

CELL_RUNS = 125
"""runs of a cell"""


def in_process(
    function: Callable[..., Mapping[str, Any]], cells: Sequence[Cell], weight: Callable[[Cell], float]
) -> list[Mapping[str, Any]]:
    """Run the cells sequentially in this process."""
    return [function(**cell) for cell in cells]


def simulate_runs(
    count: int, sizes: Sequence[int], seed: int, sweep: CellRunner = in_process, turn: int = 0
) -> dict[int, list[HostRun]]:
    """Return simulated runs as in the publication, by number of topics on the host.

    turn: index of a repetition with the same topics and other random numbers
    """
    cells = [
        {"together": size, "count": count, "seed": seed, "turn": turn,
         "first": first, "last": min(count, first + CELL_RUNS)}
        for size in sizes
        for first in range(0, count, CELL_RUNS)
    ]  # fmt: skip
    results = sweep(simulated, cells, lambda cell: float((cell["last"] - cell["first"]) * cell["together"] ** 2))
    found: dict[int, list[HostRun]] = {size: [] for size in sizes}
    for cell, result in zip(cells, results, strict=True):
        sets = random_sets(count, cell["together"], seed)[cell["first"] : cell["last"]]
        runs = [HostRun(topics, Host(), tuple(p90)) for topics, p90 in zip(sets, result["p90"], strict=True)]
        found[cell["together"]] += runs
    return found


def simulated(together: int, count: int, seed: int, first: int, last: int, turn: int = 0) -> Mapping[str, Any]:
    """Return the p90 of every topic of some runs of a training set."""
    sets = random_sets(count, together, seed)
    seeds = [(seed, together, n, turn) if turn else (seed, together, n) for n in range(first, last)]
    return {"p90": [rerun(sets[n[2]], Host(), n).p90 for n in seeds]}


SIZES = (1, 2, 3, 4, 5, 6)
"""numbers of topics on one host in the published experiments"""
WIDER = 8
"""runs of a size for each run outside the published range, so that those do not dominate the fit"""
OTHER_HOSTS = (Host(cores=1), Host(cores=2), Host(cores=8))
HOW = "simulated: queues that share the cores of a host, Poisson arrivals, runs of 120 s"


@dataclass(frozen=True)
class TrainedModels:
    """Both models, fitted to the same runs; `held` are the runs for the margin of ours."""

    ours: MonotoneModel
    published: PublishedModel
    held: list[HostRun]


def train_both(count: int, seed: int = 1, sweep: CellRunner = in_process) -> TrainedModels:
    """Return our model and the published one, fitted to the same runs."""
    runs = simulate_runs(count, SIZES, seed, sweep)
    ours, held = _ours(runs, seed, sweep)
    return TrainedModels(ours, fit_published(runs), held)


def wider_runs(count: int, seed: int) -> list[HostRun]:
    """Return runs outside the published range: other hosts and intervals, up to twice as many topics."""
    rng = np.random.Generator(np.random.PCG64([seed, 77]))
    found = []
    for number in range(count):
        host = OTHER_HOSTS[number % len(OTHER_HOSTS)]
        topics = _wide_topics(int(rng.integers(1, 2 * len(SIZES) + 1)), host, rng)
        found.append(rerun(topics, host, (seed, 77, number)))
    return found


def store(path: Path, clock: Clock, count: int = 1000, seed: int = 1, sweep: CellRunner = in_process) -> dict[str, Any]:
    """Train our model, measure its error on other runs, and write it with its origin."""
    model, _ = _ours(simulate_runs(count, SIZES, seed, sweep), seed, sweep)
    return _store(model, path, clock, count, seed, sweep)


def store_published(
    path: Path, clock: Clock, count: int = 1000, seed: int = 1, sweep: CellRunner = in_process
) -> dict[str, Any]:
    """Do the same with the published model."""
    return _store(fit_published(simulate_runs(count, SIZES, seed, sweep)), path, clock, count, seed, sweep)


def _ours(runs: Mapping[int, Sequence[HostRun]], seed: int, sweep: CellRunner) -> tuple[MonotoneModel, list[HostRun]]:
    count = len(runs[1])
    held = simulate_runs(max(10, count // 2), SIZES, seed + 1, sweep)
    training = [run for group in runs.values() for run in group] + wider_runs(count // WIDER, seed)
    held_out = [run for group in held.values() for run in group]
    return fit_monotone_model(training, held_out), held_out


def _store(
    model: MonotoneModel | PublishedModel, path: Path, clock: Clock, count: int, seed: int, sweep: CellRunner
) -> dict[str, Any]:
    fresh = {
        size: score(model, runs) for size, runs in simulate_runs(max(10, count // 4), SIZES, seed + 100, sweep).items()
    }
    origin = {
        "how": HOW,
        "machine": this_machine(),
        "date": format_date(clock),
        "runs": count * len(SIZES),
        "fit on fresh runs (R2 of log p90), by topics on a host": _rounded(fresh, "fit"),
        "late topics accepted, by topics on a host": _rounded(fresh, "missed"),
        "topics in time refused, by topics on a host": _rounded(fresh, "refused"),
    }
    write_json(path, replace(model, origin=origin).to_document())
    return origin


def _rounded(scores: Mapping[int, Any], name: str) -> dict[str, float]:
    return {str(size): round(getattr(found, name), 4) for size, found in scores.items()}


def _wide_topics(count: int, host: Host, rng: np.random.Generator) -> Sequence[TopicLoad]:
    """Return topics with intervals over three orders of magnitude, and a load from idle to 1.5 times the capacity."""
    intervals = np.exp(rng.uniform(np.log(0.001), np.log(0.3), count))
    loads = rng.random(count)
    loads = np.minimum(loads * rng.uniform(0.05, 1.5) * host.cores / loads.sum(), 1.3)
    rates = np.clip(loads / intervals, 0.5, 400.0)
    return [TopicLoad(f"t{n}", float(r), float(i)) for n, (r, i) in enumerate(zip(rates, intervals, strict=True))]
