"""Placement experiments as functions of grid cells: accuracy of models, and placements of random requests. All
simulated.

Accuracy is compared with a ceiling, the mean of repetitions of the same runs. Requests are random topics in classes
from easy to dense. `thinwire sweep thinwire_lab.reproduce.placement.placement_cells:placement --set kind=uni,hot --set
solver=ours --set seed=1,2` runs placements on Spark, as `thinwire reproduce placement` does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from thinwire.analysis.analysis_run import CellRunner
from thinwire.edge.placement_files import read_model
from thinwire.errors import ConfigError
from thinwire.placement import Host, LatencyModel, MonotoneModel, TopicLoad
from thinwire.placement.column_generation import best_bound, dive, relax
from thinwire.placement.feasibility import HostFeasibility
from thinwire.placement.heuristics import Shared, first_fit
from thinwire.placement.load_balance import balanced
from thinwire_lab.placement.calibration import calibrated
from thinwire_lab.placement.latency_model_training import with_margin
from thinwire_lab.placement.model_scores import r_squared, score, simulate_placement
from thinwire_lab.placement.model_training import (
    TrainedModels,
    in_process,
    simulate_runs,
    train_both,
)
from thinwire_lab.placement.published_heuristics import largest_sets
from thinwire_lab.placement.published_model import PublishedModel
from thinwire_lab.placement.queue_simulator import HostRun, logs, random_runs, random_topics, skewed_topics
from thinwire_lab.placement.topic_parts import all_split

TOPICS_ON_HOST = (1, 2, 4)
"""topics on a host of unknown speed"""
FRESH = 100
"""added to the seed of a training set, for runs outside of it"""


def accuracy(
    both: TrainedModels, together: int, fresh: int, reruns: int, seed: int = 1, sweep: CellRunner = in_process
) -> Mapping[str, Any]:
    """Score both models on other runs of `together` topics, with the ceiling."""
    repeats = [simulate_runs(fresh, (together,), seed + FRESH, sweep, repeat)[together] for repeat in range(reruns + 1)]
    ceiling = np.mean([logs(repeat) for repeat in repeats[1:]], axis=0)
    found = {"ours": score(both.ours, repeats[0]), "published": score(both.published, repeats[0])}
    figures = {f"{name} {what}": value for name, s in found.items() for what, value in s._asdict().items()}
    return {**figures, "ceiling": r_squared(logs(repeats[0]), np.asarray(ceiling))}


def unknown_host(
    model: MonotoneModel, host: Host, counts: Sequence[int], fresh: int, seed: int = 1
) -> dict[int, float]:
    """Return R2 on runs of an unknown kind of host by the number of runs used for calibration.

    With 0 runs the host is assumed to have the reference speed.
    """
    some = [run for size in TOPICS_ON_HOST for run in random_runs(max(counts, default=1), size, seed + 7, host=host)]
    later = [
        run
        for size in TOPICS_ON_HOST
        for run in random_runs(fresh // len(TOPICS_ON_HOST), size, seed + FRESH, host=host)
    ]
    found = {}
    for count in counts:
        known = Host(cores=host.cores)
        if count:
            # spread over the numbers of topics
            known = calibrated(model, known, [_reference(run) for run in some[:: max(1, len(some) // count)][:count]])
        predicted = [np.log(model.p90(run.topics, known)) for run in later]
        found[count] = r_squared(logs(later), np.concatenate(predicted))
    return found


def _reference(run: HostRun) -> HostRun:
    """Return the run with a host of the reference speed."""
    return replace(run, host=Host(cores=run.host.cores))


RELEASED = ("skew", "uni")
"""classes of the generators that were released with the publication"""
RANGES: dict[str, tuple[float, float, int]] = {"uni": (0.0, 1.0, 6), "full": (0.0, 0.95, 0), "hot": (0.5, 0.9, 0)}
"""range of the sustained rates from which topics are drawn, and the distance below it"""
CLASSES = sorted([*RANGES, "skew"])


def request(kind: str, n: int, seed: int) -> list[TopicLoad]:
    """Return `n` topics of a class.

    >>> [topic.rate for topic in request("uni", 3, seed=1)] == [topic.rate for topic in request("uni", 3, seed=1)]
    True
    """
    if kind not in CLASSES:
        raise ConfigError("unknown request class", field="kind", value=kind, choose_from=CLASSES)
    rng = np.random.Generator(np.random.PCG64([seed, n]))
    if kind == "skew":
        return skewed_topics(n, rng)
    low, high, spare = RANGES[kind]
    return random_topics(n, rng, low=low, high=high, spare=spare)


Models = Mapping[str, Any]
"""documents of the models: `ours` and `published`"""
Solve = Callable[[HostFeasibility], tuple[list[Shared], int | None]]
REPEATS = 3
"""simulated runs of every host after placement"""


def placement(
    kind: str,
    solver: str,
    seed: int,
    n: int = 70,
    k: int = 6,
    first: int = 3,
    train_runs: int = 400,
    kept: float = 0.9,
    spare: int = 0,
    models: Models | None = None,
) -> Mapping[str, Any]:
    """Place random topics and simulate the result.

    solver: first-fit, largest-sets, hybrid (with `first`), all with the published model; ours, with our own; or
        first-fit-ours and published-balanced, which separate the effects of model and solver
    kept: share of runs that our margin covers
    spare: additional hosts over which `ours` spreads the topics
    models: documents of trained models; by default they are trained with `train_runs` per size. With 0 runs, `ours`
        uses the stored model
    """
    requested = request(kind, n, seed)
    solve, model = _solver(solver, k, first, spare), _model(solver, train_runs, kept, models)
    # the publication does not split topics: one that exceeds its limit alone gets its own host
    topics = all_split(requested, [Host()], model) if isinstance(model, MonotoneModel) else requested
    feasibility = HostFeasibility(model, Host(), topics)
    started = time.process_time()
    try:
        placed, bound = solve(feasibility)
    except ConfigError as problem:
        return {"hosts": None, "gave up": str(problem)}
    figures = {"bound": bound, "solver_seconds": time.process_time() - started, "split": len(topics) - n}
    return {**simulate_placement(placed, topics, Host(), seed, REPEATS)._asdict(), **figures}


@cache
def trained(train_runs: int, seed: int = 1) -> TrainedModels:
    """Return both models, trained once in this process."""
    return train_both(train_runs, seed)


def documents(both: TrainedModels) -> dict[str, Any]:
    """Return trained models as parameters of cells."""
    return {"ours": both.ours.to_document(), "published": both.published.to_document()}


def _solver(name: str, k: int, first: int, spare: int) -> Solve:
    solvers: dict[str, Solve] = {
        "first-fit": lambda feasibility: (first_fit(feasibility, k), None),
        "first-fit-ours": lambda feasibility: (first_fit(feasibility, k), None),
        "largest-sets": lambda feasibility: (largest_sets(feasibility, k), None),
        "hybrid": lambda feasibility: (largest_sets(feasibility, k, first=first), None),
        "published-balanced": lambda feasibility: (balanced(feasibility, first_fit(feasibility, k), k), None),
        "ours": lambda feasibility: _solve(feasibility, k, spare),
    }
    if name not in solvers:
        raise ConfigError("unknown solver", field="solver", value=name, choose_from=sorted(solvers))
    return solvers[name]


def _solve(feasibility: HostFeasibility, k: int, spare: int) -> tuple[list[Shared], int]:
    relaxed = relax(feasibility, k)
    bound = best_bound(feasibility, k, relaxed)
    placed = balanced(feasibility, dive(feasibility, k, relaxed), k, least=bound)
    wider: list[Shared] = [*placed, *[()] * spare]
    return (balanced(feasibility, wider, k, least=len(wider)) if spare else placed), bound


def _model(solver: str, train_runs: int, kept: float, models: Models | None) -> LatencyModel:
    ours = solver.endswith("ours")
    if models:
        return (
            MonotoneModel.from_document(models["ours"]) if ours else PublishedModel.from_document(models["published"])
        )
    if ours:
        return _kept(train_runs, kept) if train_runs else read_model(None)
    if not train_runs:
        raise ConfigError("the published model is not included; train it", field="train_runs", lowest=1)
    return trained(train_runs).published


@cache
def _kept(train_runs: int, kept: float) -> MonotoneModel:
    both = trained(train_runs)
    return both.ours if kept == both.ours.margin.kept else with_margin(both.ours, both.held, kept)


class PlacementScale(NamedTuple):
    """Size of the simulation.

    runs, fresh: runs per size for training and for evaluation; reruns: repetitions of the latter, for the ceiling
    requests: number of placements per row; sizes: their numbers of topics
    """

    runs: int = 1000
    fresh: int = 500
    reruns: int = 8
    requests: int = 5
    sizes: tuple[int, ...] = (10, 20, 30, 40, 50, 60, 70)


QUICK = PlacementScale(runs=40, fresh=20, reruns=2, requests=1, sizes=(10, 20))


class PlacementExperiment:
    """Parameters and shared results of the figures.

    data: folder with measured runs (`edge-runs.json`) or those of the authors; None: only simulated figures
    """

    def __init__(
        self, scale: PlacementScale, out: Path, sweep: CellRunner = in_process, data: Path | None = None
    ) -> None:
        self.scale, self.out, self.sweep, self.data = scale, out, sweep, data

    @cached_property
    def both(self) -> TrainedModels:
        """Both models, trained once."""
        return train_both(self.scale.runs, 1, self.sweep)

    def placements(self, grid: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the results of grid cells with their parameters."""
        place = partial(placement, models=documents(self.both))
        found = self.sweep(place, grid, lambda cell: float(cell["n"] ** 2))
        return [{**cell, **figures} for cell, figures in zip(grid, found, strict=True)]
