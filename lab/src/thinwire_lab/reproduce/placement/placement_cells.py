"""How well models tell runs they have not seen, beside what nothing surpasses: the mean of reruns of the same runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from thinwire.analysis.model_training import Sweep, gathered, here
from thinwire.analysis.model_training_training import Trained
from thinwire.placement import Host, Rising, Run, random_runs
from thinwire.placement.calibration import calibrated
from thinwire.placement.model_scores import fitted, score
from thinwire.placement.queue_simulator_samples import logs

COMPANY = (1, 2, 4)
"""topics on a host that is not known yet"""
FRESH = 100
"""added to the seed of a training set, for runs that are not in it"""


def accuracy(
    both: Trained, together: int, fresh: int, reruns: int, seed: int = 1, sweep: Sweep = here
) -> Mapping[str, Any]:
    """Both models on fresh runs of so many topics, and the ceiling."""
    turns = [gathered(fresh, (together,), seed + FRESH, sweep, turn)[together] for turn in range(reruns + 1)]
    ceiling = np.mean([logs(turn) for turn in turns[1:]], axis=0)
    found = {"ours": score(both.ours, turns[0]), "published": score(both.published, turns[0])}
    figures = {f"{name} {what}": value for name, s in found.items() for what, value in s._asdict().items()}
    return {**figures, "ceiling": fitted(logs(turns[0]), np.asarray(ceiling))}


def unknown_host(model: Rising, host: Host, counts: Sequence[int], fresh: int, seed: int = 1) -> dict[int, float]:
    """R2 on fresh runs of a kind of host the model does not know, after calibration with so many runs of it.

    With 0 runs the host is taken for one of the reference speed.
    """
    some = [run for size in COMPANY for run in random_runs(max(counts, default=1), size, seed + 7, host=host)]
    later = [run for size in COMPANY for run in random_runs(fresh // len(COMPANY), size, seed + FRESH, host=host)]
    found = {}
    for count in counts:
        known = Host(cores=host.cores)
        if count:
            # every other number of topics, so that few runs still show company
            known = calibrated(model, known, [_reference(run) for run in some[:: max(1, len(some) // count)][:count]])
        told = [np.log(model.p90(run.topics, known)) for run in later]
        found[count] = fitted(logs(later), np.concatenate(told))
    return found


def _reference(run: Run) -> Run:
    """The run as whoever does not know the host sees it."""
    return replace(run, host=Host(cores=run.host.cores))
