"""Figures of the placement paper on simulated hosts, with the published values, and figures from measured runs.

The published training set is not public. The published method and ours are both trained and tested on the same
simulated runs.

Figure 1: sensitivity of the p90 of a topic, alone and with other topics. Table I and figure 2: accuracy of models, and
learning curves. Figures 3 and 4: placements by the published heuristics and by ours, six measures. Measured figures use
runs of the load harness and the file that the authors released.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from thinwire.placement import Host, LatencyModel, TopicLoad
from thinwire.placement.hosts import columns
from thinwire_lab.placement.calibration import Calibration, calibrate
from thinwire_lab.placement.latency_model_training import fit_monotone_model
from thinwire_lab.placement.measured_runs import MeasuredRun
from thinwire_lab.placement.model_scores import r_squared, score
from thinwire_lab.placement.model_training import SIZES, simulate_runs
from thinwire_lab.placement.published_model import fit_polynomial, fit_published_network, inputs_of
from thinwire_lab.placement.queue_simulator import INTERVALS, LABELS, SUSTAINED, HostRun, logs, random_topics, simulate
from thinwire_lab.placement.run_files import RUNS, read_runs
from thinwire_lab.reproduce.dictionaries.thesis_sheet import Sheet, lines
from thinwire_lab.reproduce.experiment import select
from thinwire_lab.reproduce.placement.placement_cells import FRESH, PlacementExperiment, accuracy

SOLVERS = ("first-fit", "hybrid", "largest-sets", "ours")
MEASURES = {
    "hosts": ("hosts", 1),
    "solver_seconds": ("solver s", 1),
    "busy": ("cores busy %", 100),
    "p90": ("mean p90 ms", 1000),
    "late": ("messages late %", 100),
    "over": ("topics over %", 100),
}
"""label and factor of each result of a cell"""
COLUMNS = (*(name for name, _ in MEASURES.values()), "bound")
NOTES = {
    3: "published (text): up to 9 % of the messages late, up to 13 % of the topics over their limit, 13 hosts",
    4: "published (text): up to 6 % of the messages late, up to 12 % of the topics over; fewer hosts as k' grows",
}
SIMULATED = "simulated; three runs of every host; times are processor time"


def heuristics(experiment: PlacementExperiment) -> Iterator[Sheet]:
    """Yield figure 3: placements by number of topics, for requests of both released generators."""
    for kind in ("uni", "skew"):
        grid = [
            {"kind": kind, "solver": solver, "seed": seed, "n": n}
            for n in experiment.scale.sizes
            for solver in SOLVERS
            for seed in _seeds(experiment)
        ]
        found = experiment.placements(grid)
        rows = [(n, solver, *_mean(found, n=n, solver=solver)) for n in experiment.scale.sizes for solver in SOLVERS]
        title = f"figure 3, requests as released ({kind}), k = 6, mean of {experiment.scale.requests}"
        drawn = _drawn(experiment, f"figure-3-{kind}", title, rows, "topics")
        yield Sheet(title, ("topics", "solver", *COLUMNS), rows, (NOTES[3], SIMULATED), drawn)


def hybrids(experiment: PlacementExperiment) -> Iterator[Sheet]:
    """Yield figure 4: the hybrid from first fit to largest sets, 50 topics."""
    n = min(50, max(experiment.scale.sizes))
    grid = [
        {"kind": "uni", "solver": "hybrid", "seed": seed, "n": n, "first": first}
        for first in range(1, 7)
        for seed in _seeds(experiment)
    ]
    found = experiment.placements(grid)
    rows = [(first, *_mean(found, first=first)) for first in range(1, 7)]
    title = f"figure 4, the hybrid, {n} topics, mean of {experiment.scale.requests}"
    drawn = _drawn(experiment, "figure-4", title, [(row[0], "hybrid", *row[1:]) for row in rows], "k'")
    yield Sheet(title, ("k'", *COLUMNS), rows, (NOTES[4], SIMULATED), drawn)


def _seeds(experiment: PlacementExperiment) -> range:
    return range(1, experiment.scale.requests + 1)


def _mean(found: Sequence[Mapping[str, Any]], **wanted: Any) -> tuple[Any, ...]:
    """Return mean results of the cells with these parameters, without those that found no placement."""
    cells = [one for one in found if one["hosts"] is not None and all(one[k] == v for k, v in wanted.items())]
    if not cells:
        return (None,) * len(COLUMNS)
    means = tuple(float(np.mean([unit * one[name] for one in cells])) for name, (_, unit) in MEASURES.items())
    bounds = [one["bound"] for one in cells if one["bound"] is not None]
    return (*means, float(np.mean(bounds)) if bounds else None)


def _drawn(experiment: PlacementExperiment, stem: str, title: str, rows: list[tuple[Any, ...]], axis: str) -> list[Any]:
    """Plot one picture per measure, with one line per solver."""
    pictures = []
    for index, (name, _) in enumerate(MEASURES.values()):
        series = {}
        for solver in dict.fromkeys(row[1] for row in rows):
            points = [(row[0], row[2 + index]) for row in rows if row[1] == solver and row[2 + index] is not None]
            series[solver] = ([at for at, _ in points], [value for _, value in points])
        file = experiment.out / f"{stem}-{name.split()[0]}"
        pictures += lines(file, f"{title}: {name}", series, (axis, name))
    return pictures


RELEASED_RUNS = Path("edgent", "pubsub_p90_by_publishers_subscribers.csv")
MOST_ROWS = 100_000
RUN_COLUMNS = ("topics", "messages/s", "ms per message", "publishers", "subscribers", "p90 ms", "lowest", "highest",
               "runs", "disturbed")  # fmt: skip
MIN_CONFIGURATIONS = 4
"""configurations that calibration needs, so that some can be held out"""


def measured(experiment: PlacementExperiment) -> Iterator[Sheet]:
    """Yield sheets of the measured runs in the data folder."""
    folder = experiment.data
    if folder is None:
        return
    if (folder / RELEASED_RUNS).exists():
        yield _subscribers(folder / RELEASED_RUNS)
    if (folder / RUNS).exists():
        runs = read_runs(folder / RUNS)
        yield Sheet("figure 1, measured here: the first topic of every configuration", RUN_COLUMNS, run_rows(runs))
        if len({run.configuration for run in runs if not run.disturbed}) >= MIN_CONFIGURATIONS:
            yield _calibration(calibrate(runs))


def _subscribers(path: Path) -> Sheet:
    """Return figure 1a from the released file: one topic without processing, by subscribers."""
    found: dict[int, list[float]] = defaultdict(list)
    with path.open(newline="", encoding="utf-8") as file:
        for number, row in enumerate(csv.reader(file)):
            if number and number < MOST_ROWS and row[0].strip() == "1":
                found[int(row[1])].append(float(row[2]))
    rows: list[tuple[Any, ...]] = [(n, round(median(found[n]), 1), len(found[n])) for n in sorted(found)]
    title = "figure 1a, measured by the authors: one publisher, no processing"
    return Sheet(title, ("subscribers", "p90 ms", "runs"), rows, ("released without a description of the machine",))


def run_rows(runs: Sequence[MeasuredRun]) -> list[tuple[Any, ...]]:
    """Return one row per configuration: median and range of its undisturbed runs."""
    groups: dict[tuple[Any, ...], list[MeasuredRun]] = defaultdict(list)
    for run in runs:
        first = run.results[0]
        groups[(*run.configuration, first.subscribers, first.publishers)].append(run)
    return [_row(group) for group in groups.values()]


def _row(runs: list[MeasuredRun]) -> tuple[Any, ...]:
    first, undisturbed = runs[0].results[0], [run for run in runs if not run.disturbed]
    p90 = [1000 * run.results[0].p90 for run in undisturbed]
    quantiles = (median(p90), min(p90), max(p90)) if p90 else (None, None, None)
    about = (len(runs[0].results), first.topic.rate, 1000 * first.topic.interval, first.publishers, first.subscribers)
    return (*about, *quantiles, len(undisturbed), len(runs) - len(undisturbed))


def _calibration(found: Calibration) -> Sheet:
    host = found.host
    fitted = f"speed {host.speed:.3g}, contention {host.contention:.3g}, {1000 * host.overhead:.3g} ms overhead"
    rows = [
        (name, close.runs, close.topics, close.fit, 100 * close.off, 100 * close.worst)
        for name, close in (("fitted to", found.train_error), ("held out", found.test_error))
        if close is not None
    ]
    columns = ("runs", "count", "topics", "R2(log)", "mean error %", "largest error %")
    return Sheet(f"the simulator fitted to measured runs: {fitted}", columns, rows)


ACCURACY = {1: 0.97, 2: 0.972, 3: 0.976, 4: 0.984, 5: 0.951, 6: 0.968}
"""table I, on the validation set, by topics on a host; for one topic, the test set of the text"""
MODEL_FIGURES = ("published fit", "ours fit", "ceiling", "published missed", "ours missed", "published refused",
           "ours refused")  # fmt: skip
POINTS = 180
"""runs of the published polynomial, 60 % of them for training"""
TRAINING_SHARES = (0.1, 0.25, 0.5, 1.0)


def table_1(experiment: PlacementExperiment) -> Iterator[Sheet]:
    """Yield table I: both models on other runs, with the ceiling."""
    scale, rows = experiment.scale, []
    for k in SIZES:
        found = accuracy(experiment.both, k, scale.fresh, scale.reruns, sweep=experiment.sweep)
        rows.append((k, ACCURACY[k], *(round(found[name], 4) for name in MODEL_FIGURES)))
    names = ("topics", "published accuracy", "their method, R2(log)", "ours, R2(log)", "mean of reruns",
             "published: late accepted", "ours: late accepted", "published: timely rejected",
             "ours: timely rejected")  # fmt: skip
    notes = (
        "the published accuracy is not defined and the runs are not public: the first column cannot be compared",
        f"{scale.runs} runs per size for training, {scale.fresh} for the test, {scale.reruns} repetitions",
    )
    yield Sheet("table I, simulated", names, rows, notes)


def curves(experiment: PlacementExperiment) -> Iterator[Sheet]:
    """Yield figure 2: the polynomial, predictions over runs, and learning curves."""
    yield _polynomial(experiment)
    yield _scatter(experiment)
    for letter, k in (("e", 4), ("f", 6)):
        yield _curve(experiment, letter, k)


def _polynomial(experiment: PlacementExperiment) -> Sheet:
    runs = simulate_runs(min(POINTS, experiment.scale.runs), (1,), 11, experiment.sweep)[1]
    cut = 6 * len(runs) // 10
    model = fit_polynomial(runs[:cut])
    fits = [round(r_squared(logs(part), model.predict(inputs_of(part)[:, :2])), 4) for part in (runs[:cut], runs[cut:])]
    rows = [(len(runs), 0.975, fits[0], 0.97, fits[1])]
    names = ("runs", "published in training", "simulated in training", "published in test", "simulated in test")
    return Sheet("figure 2a, simulated: the polynomial for a single topic", names, rows)


def _scatter(experiment: PlacementExperiment) -> Sheet:
    """Return figures 2 b to d: predicted over simulated latencies."""
    rows: list[tuple[Any, ...]] = []
    drawn = []
    for k in (2, 6):
        runs = simulate_runs(min(100, experiment.scale.fresh), (k,), 1 + FRESH, experiment.sweep)[k]
        models: dict[str, LatencyModel] = {"published": experiment.both.published, "ours": experiment.both.ours}
        seen = 1000 * np.exp(logs(runs))
        series = {
            name: (seen.tolist(), (1000 * np.exp(_predict_latencies(model, runs))).tolist())
            for name, model in models.items()
        }
        file, title = experiment.out / f"figure-2-{k}-topics", f"figure 2, simulated: {k} topics on a host"
        drawn += lines(file, title, series, ("simulated p90 ms", "predicted p90 ms"), log=True, dots=True)
        rows += [(k, name, *(round(figure, 4) for figure in score(m, runs)[:3])) for name, m in models.items()]
    names = ("topics", "model", "R2(log)", "late accepted", "timely rejected")
    return Sheet("figure 2 b to d, simulated: predicted and simulated p90", names, rows, (), drawn)


def _curve(experiment: PlacementExperiment, letter: str, k: int) -> Sheet:
    scale, rows = experiment.scale, []
    fresh = simulate_runs(scale.fresh, (k,), 900, experiment.sweep)[k]
    training = simulate_runs(scale.runs, (k,), 5, experiment.sweep)[k]
    for share in TRAINING_SHARES:
        runs = training[: max(10, int(share * scale.runs))]
        network, ours = fit_published_network(runs, k), fit_monotone_model(runs, fresh)
        fits = [r_squared(logs(part), network.predict(inputs_of(part))) for part in (runs, fresh)]
        fits += [score(ours, part).fit for part in (runs, fresh)]
        rows.append((len(runs), *(round(fit, 4) for fit in fits)))
    names = ("runs", "published, training", "published, test", "ours, training", "ours, test")
    title = f"figure 2{letter}, simulated: learning curves, {k} topics, R2(log)"
    series = {name: ([row[0] for row in rows], [row[at] for row in rows]) for at, name in enumerate(names) if at}
    drawn = lines(experiment.out / f"figure-2{letter}", title, series, ("runs", "R2(log)"))
    return Sheet(title, names, rows, (), drawn)


def _predict_latencies(model: LatencyModel, runs: Sequence[HostRun]) -> Any:
    host = runs[0].host
    return model.logs(*columns([run.topics for run in runs], host), host).ravel()


LOAD_SHARES = (0.25, 0.5, 0.75, 0.9, 1.0, 1.1)
"""shares of the rate that a single topic sustains"""
PUBLISHED_RATES = {0: 38, 7: 15, 11: 8}
"""figure 1d: published rate that a topic of 20 ms sustains, by number of background topics"""
BUSY = 0.05
"""seconds per message of the topics of figure 1b"""


def sensitivity(experiment: PlacementExperiment) -> Iterator[Sheet]:
    """Yield figures 1 b, c and d. The cost of many subscribers is not simulated, so figure 1a is only measured."""
    yield _background(experiment)
    yield _alone(experiment)
    yield _with_background(experiment)


def _background(experiment: PlacementExperiment) -> Sheet:
    rows = []
    for n in range(9):
        others = [TopicLoad(f"b{number}", 10, BUSY) for number in range(n)]
        rows.append((n, {0: 72, 8: 180}.get(n), round(1000 * _p90([TopicLoad("t", 1, BUSY), *others], experiment))))
    note = "published: 72 to 180 ms with 200 subscribers; simulated without the cost of subscribers"
    columns = ("background topics", "published p90 ms", "simulated p90 ms")
    return Sheet("figure 1b, simulated: 1 message/s of 50 ms with topics of 10 messages/s", columns, rows, (note,))


def _alone(experiment: PlacementExperiment) -> Sheet:
    rows, series = [], {}
    for label, interval, most in zip(LABELS, INTERVALS, SUSTAINED, strict=True):
        p90 = [1000 * _p90([TopicLoad("t", share * most, interval)], experiment) for share in LOAD_SHARES]
        rows.append((1000 * label, most, _sustained(interval, [], experiment), *map(round, p90)))
        series[f"{1000 * label:g} ms"] = ([share * most for share in LOAD_SHARES], p90)
    title = "figure 1c, simulated: p90 over the rate, single topic"
    drawn = lines(experiment.out / "figure-1c", title, series, ("messages/s", "p90 ms"))
    shown = tuple(f"p90 ms at {share:g} of it" for share in LOAD_SHARES)
    note = "true by construction: the seconds per message are derived from the sustained rates"
    return Sheet(title, ("ms per message", "published rate sustained", "simulated", *shown), rows, (note,), drawn)


def _with_background(experiment: PlacementExperiment) -> Sheet:
    background = random_topics(11, np.random.Generator(np.random.PCG64(7)))
    rows: list[tuple[Any, ...]] = [
        (n, PUBLISHED_RATES.get(n), _sustained(INTERVALS[1], background[:n], experiment)) for n in (0, 3, 7, 11)
    ]
    title = "figure 1d, simulated: a topic of 20 ms with background topics (the published ones are unknown)"
    return Sheet(title, ("background topics", "published rate sustained", "simulated"), rows)


def _p90(topics: list[TopicLoad], experiment: PlacementExperiment) -> float:
    repeats = range(experiment.scale.reruns)
    return float(np.median([simulate(topics, Host(), [3, repeat])[0].p90 for repeat in repeats]))


def _sustained(interval: float, background: list[TopicLoad], experiment: PlacementExperiment) -> int:
    """Return the largest integer rate with a p90 below one second, by bisection."""
    low, high = 0, int(1.2 / interval)
    while high - low > 1:
        middle = (low + high) // 2
        sustained = _p90([TopicLoad("t", middle, interval), *background], experiment) <= 1.0
        low, high = (middle, high) if sustained else (low, middle)
    return low


Maker = Callable[[PlacementExperiment], Iterator[Sheet]]

TABLES: dict[str, tuple[Maker, ...]] = {"I": (table_1,)}
FIGURES: dict[str, tuple[Maker, ...]] = {
    "1": (sensitivity, measured),
    "2": (table_1, curves),
    "3": (heuristics,),
    "4": (hybrids,),
}


def select_items(table: str | None = None, figure: str | None = None) -> dict[str, tuple[Maker, ...]]:
    """Return the selected items by name; all figures without a selection. Table I is part of figure 2.

    >>> list(select_items(table="I")), list(select_items(figure="3")), len(select_items())
    (['table I'], ['figure 3'], 4)
    """
    return select(TABLES if table is not None else {}, FIGURES, table, figure)
