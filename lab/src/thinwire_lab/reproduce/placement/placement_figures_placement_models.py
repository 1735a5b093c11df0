"""Table I and figure 2: how well models tell the p90, and how that grows with the training set. Simulated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from thinwire.analysis.model_training import gathered
from thinwire.analysis.model_training_training import SIZES
from thinwire.placement import LatencyModel, Run, fit_rising
from thinwire.placement.hosts_topics import columns
from thinwire.placement.model_scores import fitted, score
from thinwire.placement.published_model import fit_network, fit_polynomial, inputs_of
from thinwire.placement.queue_simulator_samples import logs
from thinwire_lab.reproduce.dictionaries.thesis_sheet_dictionaries_plots import lines
from thinwire_lab.reproduce.dictionaries.thesis_sheet_dictionaries_sheet import Sheet
from thinwire_lab.reproduce.placement.placement_cells import FRESH, accuracy
from thinwire_lab.reproduce.placement.placement_cells_placement_occasion import Occasion

ACCURACY = {1: 0.97, 2: 0.972, 3: 0.976, 4: 0.984, 5: 0.951, 6: 0.968}
"""table I, on the validation set, by topics on a host; for one topic, the test set of the text"""
FIGURES = ("published fit", "ours fit", "ceiling", "published missed", "ours missed", "published refused",
           "ours refused")  # fmt: skip
POINTS = 180
"""runs behind the published polynomial: 60 in 100 of them to train"""
SHARES = (0.1, 0.25, 0.5, 1.0)


def table_1(occasion: Occasion) -> Iterator[Sheet]:
    """Both models on fresh runs, beside the mean of reruns."""
    scale, rows = occasion.scale, []
    for k in SIZES:
        found = accuracy(occasion.both, k, scale.fresh, scale.reruns, sweep=occasion.sweep)
        rows.append((k, ACCURACY[k], *(round(found[name], 4) for name in FIGURES)))
    names = ("topics", "published accuracy", "their method, R2(log)", "ours", "mean of reruns",
             "they accept late ones", "ours", "they refuse good ones", "ours")  # fmt: skip
    notes = (
        "their accuracy is not defined and their runs are not public: the first column is not to be compared",
        f"{scale.runs} runs a size to train, {scale.fresh} fresh ones, {scale.reruns} reruns of each for the ceiling",
    )
    yield Sheet("table I, simulated", _distinct(names), rows, notes)


def curves(occasion: Occasion) -> Iterator[Sheet]:
    """Figure 2: the polynomial, predictions beside runs, and learning curves."""
    yield _polynomial(occasion)
    yield _scatter(occasion)
    for letter, k in (("e", 4), ("f", 6)):
        yield _curve(occasion, letter, k)


def _polynomial(occasion: Occasion) -> Sheet:
    runs = gathered(min(POINTS, occasion.scale.runs), (1,), 11, occasion.sweep)[1]
    cut = 6 * len(runs) // 10
    model = fit_polynomial(runs[:cut])
    told = [round(fitted(logs(some), model.predict(inputs_of(some)[:, :2])), 4) for some in (runs[:cut], runs[cut:])]
    rows = [(len(runs), 0.975, told[0], 0.97, told[1])]
    names = ("runs", "published in training", "simulated", "published in test", "simulated ")
    return Sheet("figure 2a, simulated: the polynomial for a topic alone", names, rows)


def _scatter(occasion: Occasion) -> Sheet:
    """Figures 2 b to d as a picture: what was predicted over what was seen."""
    rows: list[tuple[Any, ...]] = []
    drawn = []
    for k in (2, 6):
        runs = gathered(min(100, occasion.scale.fresh), (k,), 1 + FRESH, occasion.sweep)[k]
        models: dict[str, LatencyModel] = {"published": occasion.both.published, "ours": occasion.both.ours}
        seen = 1000 * np.exp(logs(runs))
        series = {name: (seen.tolist(), (1000 * np.exp(_told(model, runs))).tolist()) for name, model in models.items()}
        file, title = occasion.out / f"figure-2-{k}-topics", f"figure 2, simulated: {k} topics on a host"
        drawn += lines(file, title, series, ("seen p90 ms", "predicted p90 ms"), log=True, dots=True)
        rows += [(k, name, *(round(figure, 4) for figure in score(m, runs)[:3])) for name, m in models.items()]
    names = ("topics", "model", "R2(log)", "late ones accepted", "good ones refused")
    return Sheet("figure 2 b to d, simulated: predicted and seen", names, rows, (), drawn)


def _curve(occasion: Occasion, letter: str, k: int) -> Sheet:
    scale, rows = occasion.scale, []
    fresh = gathered(scale.fresh, (k,), 900, occasion.sweep)[k]
    every = gathered(scale.runs, (k,), 5, occasion.sweep)[k]
    for share in SHARES:
        runs = every[: max(10, int(share * scale.runs))]
        network, ours = fit_network(runs, k), fit_rising(runs, fresh)
        told = [fitted(logs(some), network.predict(inputs_of(some))) for some in (runs, fresh)]
        told += [score(ours, some).fit for some in (runs, fresh)]
        rows.append((len(runs), *(round(figure, 4) for figure in told)))
    names = ("runs", "their network in training", "fresh", "ours in training", "fresh ")
    title = f"figure 2{letter}, simulated: learning curves, {k} topics, R2(log)"
    series = {name: ([row[0] for row in rows], [row[at] for row in rows]) for at, name in enumerate(names) if at}
    drawn = lines(occasion.out / f"figure-2{letter}", title, series, ("runs", "R2(log)"))
    return Sheet(title, names, rows, (), drawn)


def _told(model: LatencyModel, runs: Sequence[Run]) -> Any:
    host = runs[0].host
    return model.logs(*columns([run.topics for run in runs], host), host).ravel()


def _distinct(names: Sequence[str]) -> tuple[str, ...]:
    """Names of columns as keys: a blank tells those apart that are written alike."""
    return tuple(name + " " * names[:place].count(name) for place, name in enumerate(names))
