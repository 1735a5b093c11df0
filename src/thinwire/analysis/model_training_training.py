"""The stored models: learned from simulated hosts of several sizes, saved with machine, date and error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from thinwire.analysis.machine import this_machine
from thinwire.analysis.model_training import Sweep, gathered, here
from thinwire.analysis.placement_files import day, write_json
from thinwire.clock import Clock
from thinwire.placement import Host, LatencyModel, Rising, Run, Topic, fit_rising
from thinwire.placement.model_scores import score
from thinwire.placement.published_model import Published, fit_published
from thinwire.placement.queue_simulator_samples import rerun

SIZES = (1, 2, 3, 4, 5, 6)
"""topics on one host, in the published experiments"""
WIDER = 8
"""one run beyond the published ones to so many of a size: they must not draw the model away from where it is used"""
OTHER_HOSTS = (Host(cores=1), Host(cores=2), Host(cores=8))
HOW = "simulated: queues that share the cores of a host, Poisson arrivals, runs of 120 s"


@dataclass(frozen=True)
class Trained:
    """Both models from the same runs; `held` were kept back for the margin of ours."""

    ours: Rising
    published: Published
    held: list[Run]


def train(count: int, seed: int = 1, sweep: Sweep = here) -> tuple[Rising, list[Run]]:
    """Our model from so many runs a size, and the runs held back for its margin."""
    return _ours(gathered(count, SIZES, seed, sweep), seed, sweep)


def train_both(count: int, seed: int = 1, sweep: Sweep = here) -> Trained:
    """Our model and the published one, from the same runs."""
    runs = gathered(count, SIZES, seed, sweep)
    ours, held = _ours(runs, seed, sweep)
    return Trained(ours, fit_published(runs), held)


def wider_runs(count: int, seed: int) -> list[Run]:
    """Runs beyond the published ones: other hosts, other intervals, up to twice as many topics."""
    dice = np.random.Generator(np.random.PCG64([seed, 77]))
    found = []
    for number in range(count):
        host = OTHER_HOSTS[number % len(OTHER_HOSTS)]
        topics = _any_topics(int(dice.integers(1, 2 * len(SIZES) + 1)), host, dice)
        found.append(rerun(topics, host, (seed, 77, number)))
    return found


def store(path: Path, clock: Clock, count: int = 1000, seed: int = 1, sweep: Sweep = here) -> dict[str, Any]:
    """Train ours, measure its error on fresh runs, and write it with how it came to be."""
    model, _ = train(count, seed, sweep)
    origin = _origin(model, clock, count, seed, sweep)
    write_json(path, replace(model, origin=origin).to_document())
    return origin


def store_published(path: Path, clock: Clock, count: int = 1000, seed: int = 1, sweep: Sweep = here) -> dict[str, Any]:
    """The same with the published model."""
    model = fit_published(gathered(count, SIZES, seed, sweep))
    origin = _origin(model, clock, count, seed, sweep)
    write_json(path, replace(model, origin=origin).to_document())
    return origin


def _ours(runs: Mapping[int, Sequence[Run]], seed: int, sweep: Sweep) -> tuple[Rising, list[Run]]:
    count = len(runs[1])
    held = gathered(max(10, count // 2), SIZES, seed + 1, sweep)
    every = [run for some in runs.values() for run in some] + wider_runs(count // WIDER, seed)
    back = [run for some in held.values() for run in some]
    return fit_rising(every, back), back


def _origin(model: LatencyModel, clock: Clock, count: int, seed: int, sweep: Sweep) -> dict[str, Any]:
    fresh = {size: score(model, runs) for size, runs in gathered(max(10, count // 4), SIZES, seed + 100, sweep).items()}
    return {
        "how": HOW,
        "machine": this_machine(),
        "date": day(clock),
        "runs": count * len(SIZES),
        "fit on fresh runs (R2 of log p90), by topics on a host": _rounded(fresh, "fit"),
        "late topics accepted, by topics on a host": _rounded(fresh, "missed"),
        "topics in time refused, by topics on a host": _rounded(fresh, "refused"),
    }


def _rounded(scores: Mapping[int, Any], name: str) -> dict[str, float]:
    return {str(size): round(getattr(found, name), 4) for size, found in scores.items()}


def _any_topics(count: int, host: Host, dice: np.random.Generator) -> Sequence[Topic]:
    """Intervals over three orders of magnitude; load from idle to one and a half times what the host can do."""
    intervals = np.exp(dice.uniform(np.log(0.001), np.log(0.3), count))
    loads = dice.random(count)
    loads = np.minimum(loads * dice.uniform(0.05, 1.5) * host.cores / loads.sum(), 1.3)
    rates = np.clip(loads / intervals, 0.5, 400.0)
    return [Topic(f"t{n}", float(r), float(i)) for n, (r, i) in enumerate(zip(rates, intervals, strict=True))]
