"""The published figures on placement again, on simulated hosts, theirs beside ours; what was measured stands apart.

The published training set is not public: what is compared is the published method and ours, both trained and tested on
the same simulated runs.

Figures 3 and 4: placements by the published heuristics and by ours, six measures. Simulated.

What was measured, apart from what is simulated: runs of a load harness, and the file the authors released.

Table I and figure 2: how well models tell the p90, and how that grows with the training set. Simulated.

Figure 1, simulated: what moves the p90 of a topic, alone and in company.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from thinwire.errors import ConfigError
from thinwire.placement import Host, LatencyModel, TopicLoad
from thinwire.placement.hosts import columns
from thinwire_lab.placement.calibration import Calibration, Closeness, calibrate
from thinwire_lab.placement.latency_model_training import fit_monotone_model
from thinwire_lab.placement.measured_runs import MeasuredRun
from thinwire_lab.placement.model_scores import fitted, score
from thinwire_lab.placement.model_training import SIZES, simulate_runs
from thinwire_lab.placement.published_model import fit_polynomial, fit_published_network, inputs_of
from thinwire_lab.placement.queue_simulator import INTERVALS, LABELS, SUSTAINED, HostRun, logs, random_topics, simulate
from thinwire_lab.placement.run_files import RUNS, read_runs
from thinwire_lab.reproduce.dictionaries.thesis_sheet import Sheet, lines
from thinwire_lab.reproduce.placement.placement_cells import FRESH, Occasion, accuracy

SOLVERS = ("first-fit", "hybrid", "largest-sets", "ours")
MEASURES = {
    "hosts": ("hosts", 1),
    "solver_seconds": ("solver s", 1),
    "busy": ("cores busy %", 100),
    "p90": ("mean p90 ms", 1000),
    "late": ("messages late %", 100),
    "over": ("topics over %", 100),
}
"""a figure of a cell -> what it is called, and its unit"""
SHOWN = (*(name for name, _ in MEASURES.values()), "bound")
NOTES = {
    3: "published, in words: up to 9 % of the messages late, up to 13 % of the topics over their promise, 13 machines",
    4: "published, in words: up to 6 % of the messages late, up to 12 % of the topics over; fewer hosts as k' grows",
}
SIMULATED = "simulated; three runs of every host after placement; times are processor time"


def heuristics(occasion: Occasion) -> Iterator[Sheet]:
    """Figure 3: placements of a growing number of topics; requests of both released generators."""
    for kind in ("uni", "skew"):
        grid = [
            {"kind": kind, "solver": solver, "seed": seed, "n": n}
            for n in occasion.scale.sizes
            for solver in SOLVERS
            for seed in _seeds(occasion)
        ]
        found = occasion.placements(grid)
        rows = [(n, solver, *_mean(found, n=n, solver=solver)) for n in occasion.scale.sizes for solver in SOLVERS]
        title = f"figure 3, requests as released ({kind}), k = 6, mean of {occasion.scale.requests}"
        drawn = _drawn(occasion, f"figure-3-{kind}", title, rows, "topics")
        yield Sheet(title, ("topics", "solver", *SHOWN), rows, (NOTES[3], SIMULATED), drawn)


def hybrids(occasion: Occasion) -> Iterator[Sheet]:
    """Figure 4: the hybrid from first fit to largest sets, 50 topics."""
    n = min(50, max(occasion.scale.sizes))
    grid = [
        {"kind": "uni", "solver": "hybrid", "seed": seed, "n": n, "first": first}
        for first in range(1, 7)
        for seed in _seeds(occasion)
    ]
    found = occasion.placements(grid)
    rows = [(first, *_mean(found, first=first)) for first in range(1, 7)]
    title = f"figure 4, the hybrid, {n} topics, mean of {occasion.scale.requests}"
    drawn = _drawn(occasion, "figure-4", title, [(row[0], "hybrid", *row[1:]) for row in rows], "k'")
    yield Sheet(title, ("k'", *SHOWN), rows, (NOTES[4], SIMULATED), drawn)


def _seeds(occasion: Occasion) -> range:
    return range(1, occasion.scale.requests + 1)


def _mean(found: Sequence[Mapping[str, Any]], **wanted: Any) -> tuple[Any, ...]:
    """The measures of the cells with these parameters; those that gave up are left out."""
    kept = [one for one in found if one["hosts"] is not None and all(one[k] == v for k, v in wanted.items())]
    if not kept:
        return (None,) * len(SHOWN)
    means = tuple(float(np.mean([unit * one[name] for one in kept])) for name, (_, unit) in MEASURES.items())
    bounds = [one["bound"] for one in kept if one["bound"] is not None]
    return (*means, float(np.mean(bounds)) if bounds else None)


def _drawn(occasion: Occasion, stem: str, title: str, rows: list[tuple[Any, ...]], axis: str) -> list[Any]:
    """A picture a measure, a line a solver."""
    pictures = []
    for place, (name, _) in enumerate(MEASURES.values()):
        series = {}
        for solver in dict.fromkeys(row[1] for row in rows):
            points = [(row[0], row[2 + place]) for row in rows if row[1] == solver and row[2 + place] is not None]
            series[solver] = ([at for at, _ in points], [value for _, value in points])
        file = occasion.out / f"{stem}-{name.split()[0]}"
        pictures += lines(file, f"{title}: {name}", series, (axis, name))
    return pictures


RELEASED = Path("edgent", "pubsub_p90_by_publishers_subscribers.csv")
MOST_ROWS = 100_000
RUN_COLUMNS = ("topics", "messages/s", "ms a message", "publishers", "subscribers", "p90 ms", "lowest", "highest",
               "runs", "disturbed")  # fmt: skip
ENOUGH = 4
"""configurations that calibration needs at least, so that some can be held back"""


def measured(occasion: Occasion) -> Iterator[Sheet]:
    """Sheets of whatever the folder has; nothing where there is none."""
    folder = occasion.data
    if folder is None:
        return
    if (folder / RELEASED).exists():
        yield _subscribers(folder / RELEASED)
    if (folder / RUNS).exists():
        runs = read_runs(folder / RUNS)
        yield _runs(runs)
        if len({run.configuration for run in runs if not run.disturbed}) >= ENOUGH:
            yield _calibration(calibrate(runs))


def _subscribers(path: Path) -> Sheet:
    """Figure 1a as far as the authors released it: one topic without processing, by subscribers."""
    found: dict[int, list[float]] = defaultdict(list)
    with path.open(newline="", encoding="utf-8") as file:
        for number, row in enumerate(csv.reader(file)):
            if number and number < MOST_ROWS and row[0].strip() == "1":
                found[int(row[1])].append(float(row[2]))
    rows: list[tuple[Any, ...]] = [(n, round(median(found[n]), 1), len(found[n])) for n in sorted(found)]
    title = "figure 1a, measured by the authors: one publisher, no processing"
    return Sheet(title, ("subscribers", "p90 ms", "runs"), rows, ("released without the machine it was measured on",))


def _runs(runs: list[MeasuredRun]) -> Sheet:
    title = "figure 1, measured here: the first topic of every configuration"
    return Sheet(title, RUN_COLUMNS, run_rows(runs))


def run_rows(runs: Sequence[MeasuredRun]) -> list[tuple[Any, ...]]:
    """One row a configuration: the middle of its calm runs, and their spread."""
    alike: dict[tuple[Any, ...], list[MeasuredRun]] = defaultdict(list)
    for run in runs:
        first = run.results[0]
        alike[(*run.configuration, first.subscribers, first.publishers)].append(run)
    return [_row(some) for some in alike.values()]


def _row(runs: list[MeasuredRun]) -> tuple[Any, ...]:
    first, calm = runs[0].results[0], [run for run in runs if not run.disturbed]
    p90 = [1000 * run.results[0].p90 for run in calm]
    told = (median(p90), min(p90), max(p90)) if p90 else (None, None, None)
    about = (len(runs[0].results), first.topic.rate, 1000 * first.topic.interval, first.publishers, first.subscribers)
    return (*about, *told, len(calm), len(runs) - len(calm))


def _calibration(found: Calibration) -> Sheet:
    host = found.host
    fitted = f"speed {host.speed:.3g}, contention {host.contention:.3g}, {1000 * host.overhead:.3g} ms on the way"
    both = (("fitted to", found.seen), ("held back", found.fresh))
    rows = [_close(name, close) for name, close in both if close is not None]
    columns = ("runs", "how many", "topics", "R2(log)", "mean off %", "worst off %")
    return Sheet(f"the simulator fitted to measured runs: {fitted}", columns, rows)


def _close(name: str, close: Closeness) -> tuple[Any, ...]:
    return name, close.runs, close.topics, close.fit, 100 * close.off, 100 * close.worst


ACCURACY = {1: 0.97, 2: 0.972, 3: 0.976, 4: 0.984, 5: 0.951, 6: 0.968}
"""table I, on the validation set, by topics on a host; for one topic, the test set of the text"""
MODEL_FIGURES = ("published fit", "ours fit", "ceiling", "published missed", "ours missed", "published refused",
           "ours refused")  # fmt: skip
POINTS = 180
"""runs behind the published polynomial: 60 in 100 of them to train"""
TRAINING_SHARES = (0.1, 0.25, 0.5, 1.0)


def table_1(occasion: Occasion) -> Iterator[Sheet]:
    """Both models on fresh runs, beside the mean of reruns."""
    scale, rows = occasion.scale, []
    for k in SIZES:
        found = accuracy(occasion.both, k, scale.fresh, scale.reruns, sweep=occasion.sweep)
        rows.append((k, ACCURACY[k], *(round(found[name], 4) for name in MODEL_FIGURES)))
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
    runs = simulate_runs(min(POINTS, occasion.scale.runs), (1,), 11, occasion.sweep)[1]
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
        runs = simulate_runs(min(100, occasion.scale.fresh), (k,), 1 + FRESH, occasion.sweep)[k]
        models: dict[str, LatencyModel] = {"published": occasion.both.published, "ours": occasion.both.ours}
        seen = 1000 * np.exp(logs(runs))
        series = {
            name: (seen.tolist(), (1000 * np.exp(_predict_latencies(model, runs))).tolist())
            for name, model in models.items()
        }
        file, title = occasion.out / f"figure-2-{k}-topics", f"figure 2, simulated: {k} topics on a host"
        drawn += lines(file, title, series, ("seen p90 ms", "predicted p90 ms"), log=True, dots=True)
        rows += [(k, name, *(round(figure, 4) for figure in score(m, runs)[:3])) for name, m in models.items()]
    names = ("topics", "model", "R2(log)", "late ones accepted", "good ones refused")
    return Sheet("figure 2 b to d, simulated: predicted and seen", names, rows, (), drawn)


def _curve(occasion: Occasion, letter: str, k: int) -> Sheet:
    scale, rows = occasion.scale, []
    fresh = simulate_runs(scale.fresh, (k,), 900, occasion.sweep)[k]
    every = simulate_runs(scale.runs, (k,), 5, occasion.sweep)[k]
    for share in TRAINING_SHARES:
        runs = every[: max(10, int(share * scale.runs))]
        network, ours = fit_published_network(runs, k), fit_monotone_model(runs, fresh)
        told = [fitted(logs(some), network.predict(inputs_of(some))) for some in (runs, fresh)]
        told += [score(ours, some).fit for some in (runs, fresh)]
        rows.append((len(runs), *(round(figure, 4) for figure in told)))
    names = ("runs", "their network in training", "fresh", "ours in training", "fresh ")
    title = f"figure 2{letter}, simulated: learning curves, {k} topics, R2(log)"
    series = {name: ([row[0] for row in rows], [row[at] for row in rows]) for at, name in enumerate(names) if at}
    drawn = lines(occasion.out / f"figure-2{letter}", title, series, ("runs", "R2(log)"))
    return Sheet(title, names, rows, (), drawn)


def _predict_latencies(model: LatencyModel, runs: Sequence[HostRun]) -> Any:
    host = runs[0].host
    return model.logs(*columns([run.topics for run in runs], host), host).ravel()


def _distinct(names: Sequence[str]) -> tuple[str, ...]:
    """Names of columns as keys: a blank tells those apart that are written alike."""
    return tuple(name + " " * names[:place].count(name) for place, name in enumerate(names))


LOAD_SHARES = (0.25, 0.5, 0.75, 0.9, 1.0, 1.1)
"""of the rate that a topic sustains alone"""
COMPANY = {0: 38, 7: 15, 11: 8}
"""figure 1d: topics in the background -> the rate that a topic of 20 ms sustained beside them, as published"""
BUSY = 0.05
"""seconds a message of the topics of figure 1b"""


def sensitivity(occasion: Occasion) -> Iterator[Sheet]:
    """Figure 1 b, c and d; the cost of many subscribers is not simulated, so a is only measured."""
    yield _background(occasion)
    yield _alone(occasion)
    yield _company(occasion)


def _background(occasion: Occasion) -> Sheet:
    rows = []
    for n in range(9):
        others = [TopicLoad(f"b{number}", 10, BUSY) for number in range(n)]
        rows.append((n, {0: 72, 8: 180}.get(n), _whole(_p90([TopicLoad("t", 1, BUSY), *others], occasion))))
    note = "published: 72 to 180 ms with 200 subscribers; simulated without the time that many subscribers take"
    columns = ("background topics", "published p90 ms", "simulated p90 ms")
    return Sheet("figure 1b, simulated: 1 message/s of 50 ms beside topics of 10 messages/s", columns, rows, (note,))


def _alone(occasion: Occasion) -> Sheet:
    rows, series = [], {}
    for label, interval, most in zip(LABELS, INTERVALS, SUSTAINED, strict=True):
        p90 = [1000 * _p90([TopicLoad("t", share * most, interval)], occasion) for share in LOAD_SHARES]
        rows.append((1000 * label, most, _sustained(interval, [], occasion), *map(round, p90)))
        series[f"{1000 * label:g} ms"] = ([share * most for share in LOAD_SHARES], p90)
    title = "figure 1c, simulated: p90 over the rate, alone"
    drawn = lines(occasion.out / "figure-1c", title, series, ("messages/s", "p90 ms"))
    shown = tuple(f"p90 ms at {share:g} of it" for share in LOAD_SHARES)
    note = "the seconds of a message were chosen so that the sustained rates match: no independent check"
    return Sheet(title, ("ms a message", "published rate sustained", "simulated", *shown), rows, (note,), drawn)


def _company(occasion: Occasion) -> Sheet:
    company = random_topics(11, np.random.Generator(np.random.PCG64(7)))
    rows: list[tuple[Any, ...]] = [
        (n, COMPANY.get(n), _sustained(INTERVALS[1], company[:n], occasion)) for n in (0, 3, 7, 11)
    ]
    title = "figure 1d, simulated: a topic of 20 ms in company (their background is not known)"
    return Sheet(title, ("background topics", "published rate sustained", "simulated"), rows)


def _p90(topics: list[TopicLoad], occasion: Occasion) -> float:
    turns = range(occasion.scale.reruns)
    return float(np.median([simulate(topics, Host(), [3, turn])[0].p90 for turn in turns]))


def _sustained(interval: float, company: list[TopicLoad], occasion: Occasion) -> int:
    """The largest whole rate at which the p90 stays below a second, by halving."""
    low, high = 0, int(1.2 / interval)
    while high - low > 1:
        middle = (low + high) // 2
        held = _p90([TopicLoad("t", middle, interval), *company], occasion) <= 1.0
        low, high = (middle, high) if held else (low, middle)
    return low


def _whole(seconds: float) -> int:
    return round(1000 * seconds)


Maker = Callable[[Occasion], Iterator[Sheet]]

TABLES: dict[str, tuple[Maker, ...]] = {"I": (table_1,)}
FIGURES: dict[str, tuple[Maker, ...]] = {
    "1": (sensitivity, measured),
    "2": (table_1, curves),
    "3": (heuristics,),
    "4": (hybrids,),
}


def chosen(table: str | None = None, figure: str | None = None) -> dict[str, tuple[Maker, ...]]:
    """What is to be made, by name; every figure where nothing is named, and table I is part of the second.

    >>> list(chosen(table="I")), list(chosen(figure="3")), len(chosen())
    (['table I'], ['figure 3'], 4)
    """
    if table is None and figure is None:
        return {f"figure {number}": makers for number, makers in FIGURES.items()}
    asked = (("table", table, TABLES), ("figure", figure, FIGURES))
    return {f"{kind} {number}": _found(kind, number, known) for kind, number, known in asked if number is not None}


def _found(kind: str, number: str, known: dict[str, tuple[Maker, ...]]) -> tuple[Maker, ...]:
    if number not in known:
        raise ConfigError(f"no such {kind}", **{kind: number}, choose_from=sorted(known))
    return known[number]
