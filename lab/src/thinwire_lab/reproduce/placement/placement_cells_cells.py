"""Experiments on placement as functions of a grid cell: seeds and sizes in, figures by name out. All simulated.

`thinwire sweep thinwire_lab.reproduce.placement.placement_cells_cells:placement --set kind=uni,hot --set solver=ours
--set seed=1,2` runs them on Spark; reproduce does so too, bench calls them one by one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from thinwire.analysis.model_training_training import Trained, train_both
from thinwire.analysis.placement_files import read_model
from thinwire.errors import ConfigError
from thinwire.placement import Host, LatencyModel, Rising
from thinwire.placement.column_generation import dive, proved, relax
from thinwire.placement.feasibility_judge import Judge
from thinwire.placement.heuristics_greedy import Shared, first_fit, largest_sets
from thinwire.placement.latency_model_models import with_kept
from thinwire.placement.load_balance import balanced
from thinwire.placement.model_scores import outcome
from thinwire.placement.planner_splitting import all_split
from thinwire.placement.published_model import Published
from thinwire_lab.reproduce.placement.placement_cells_requests import request

Models = Mapping[str, Any]
"""documents of the models: `ours` and `published`"""
Solve = Callable[[Judge], tuple[list[Shared], int | None]]
TURNS = 3
"""runs of every host after placement"""


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
    """One placement of random topics, and what it came to in the simulator.

    solver: first-fit, largest-sets, hybrid (with `first`), all with the published model; or ours, with our own;
        or first-fit-ours and published-balanced, which show whether model or solver makes the difference
    kept: the share of runs that our margin covers
    spare: hosts that ours takes beyond those it needs, and spreads the topics over
    models: what was trained before; else they are trained here, from so many runs a size; with 0 ours is the stored one
    """
    asked = request(kind, n, seed)
    solve, model = _solver(solver, k, first, spare), _model(solver, train_runs, kept, models)
    # the publication has no splitting: a topic that cannot keep its promise alone gets a host to itself
    topics = all_split(asked, [Host()], model) if isinstance(model, Rising) else asked
    judge = Judge(model, Host(), topics)
    started = time.process_time()
    try:
        placed, bound = solve(judge)
    except ConfigError as problem:
        return {"hosts": None, "gave up": str(problem)}
    figures = {"bound": bound, "solver_seconds": time.process_time() - started, "split": len(topics) - n}
    return {**outcome(placed, topics, Host(), seed, TURNS)._asdict(), **figures}


@cache
def trained(train_runs: int, seed: int = 1) -> Trained:
    """Both models, trained once in this process."""
    return train_both(train_runs, seed)


def documents(both: Trained) -> dict[str, Any]:
    """Trained models as cells take them."""
    return {"ours": both.ours.to_document(), "published": both.published.to_document()}


def _solver(name: str, k: int, first: int, spare: int) -> Solve:
    solvers: dict[str, Solve] = {
        "first-fit": lambda judge: (first_fit(judge, k), None),
        "first-fit-ours": lambda judge: (first_fit(judge, k), None),
        "largest-sets": lambda judge: (largest_sets(judge, k), None),
        "hybrid": lambda judge: (largest_sets(judge, k, first=first), None),
        "published-balanced": lambda judge: (balanced(judge, first_fit(judge, k), k), None),
        "ours": lambda judge: _solve(judge, k, spare),
    }
    if name not in solvers:
        raise ConfigError("no such solver", field="solver", value=name, choose_from=sorted(solvers))
    return solvers[name]


def _solve(judge: Judge, k: int, spare: int) -> tuple[list[Shared], int]:
    relaxed = relax(judge, k)
    bound = proved(judge, k, relaxed)
    placed = balanced(judge, dive(judge, k, relaxed), k, least=bound)
    wider: list[Shared] = [*placed, *[()] * spare]
    return (balanced(judge, wider, k, least=len(wider)) if spare else placed), bound


def _model(solver: str, train_runs: int, kept: float, models: Models | None) -> LatencyModel:
    ours = solver.endswith("ours")
    if models:
        return Rising.from_document(models["ours"]) if ours else Published.from_document(models["published"])
    if ours:
        return _kept(train_runs, kept) if train_runs else read_model(None)
    if not train_runs:
        raise ConfigError("the published model does not come along: train it", field="train_runs", lowest=1)
    return trained(train_runs).published


@cache
def _kept(train_runs: int, kept: float) -> Rising:
    both = trained(train_runs)
    return both.ours if kept == both.ours.margin.kept else with_kept(both.ours, both.held, kept)
