"""Benchmarks of placement: errors of latency models, and placements compared with latency limits and lower bounds.

These are simulated. The edge benchmarks are live: they triple the rate of a topic or kill a host, and measure the time
until all latency limits are met again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from thinwire.edge.placement_files import read_model
from thinwire.placement import Host, propose
from thinwire_lab.bench.benchmark import Benchmark, Row, Setting
from thinwire_lab.live.edge.edge_failover import (
    CORES,
    HOSTS,
    INTERVAL,
    MAX_P90,
    RATE,
    SHORT_WINDOW,
    TOPICS,
    WINDOW,
    EdgeRecovery,
    kill_host,
    triple_rate,
)
from thinwire_lab.placement.calibration import calibrate
from thinwire_lab.placement.run_files import RUNS, read_runs
from thinwire_lab.placement.topic_parts import all_split
from thinwire_lab.reproduce.placement.placement_cells import RELEASED, accuracy, request, trained, unknown_host
from thinwire_lab.reproduce.placement.placement_cells import placement as run_placement

SIMULATED = "simulated hosts, 120 s a run"
MARGINS = (0.9, 0.95, 0.99, 0.995)
"""shares of the runs that a margin covers, tried in this order on dense requests"""
SPARE_HOSTS = (1, 2, 3)
"""tried with the largest margin, if no margin alone meets the latency limits"""
UNKNOWN = Host(cores=2, speed=1.7, contention=0.1)
"""a kind of host without training runs"""
MAX_BELOW_CEILING = 0.003
"""difference in R2 from the ceiling, the R2 of the mean of reruns"""
MAX_MISTAKES = {"missed": 0.02, "refused": 0.05}
"""share of late topics that a model accepts, and of topics in time that it refuses"""
MAX_OVER = 0.01
"""share of topics over their latency limit"""
MAX_HOSTS_ABOVE_BOUND, MAX_SOLVER_SECONDS, MAX_LARGE_SECONDS = 1, 10, 60


def models(setting: Setting) -> Iterator[Row]:
    """Compare the R2 of the models on test runs with that of the mean of reruns, for one to six topics on a host."""
    runs, test_runs, reruns = _runs(setting), setting.size(1000, 8), setting.size(8, 1)
    both_models = trained(runs)
    for k in range(1, 7):
        found = accuracy(both_models, k, test_runs, reruns)
        setting.progress(k / 7)
        how = f"{SIMULATED}, {runs} runs a size to train, {test_runs} fresh: R2 {found['ours fit']:.4f}, "
        how += f"mean of {reruns} reruns {found['ceiling']:.4f}, published model {found['published fit']:.4f}"
        below = found["ceiling"] - found["ours fit"]
        yield Row(
            f"model, {k} topics on a host: R2(log) below the ceiling", "R2", below, high=MAX_BELOW_CEILING, how=how
        )
        if k == 6:
            yield from _mistakes(found, how)


def _mistakes(figures: Mapping[str, Any], how: str) -> Iterator[Row]:
    for name, what in (("missed", "late topics accepted"), ("refused", "topics in time refused")):
        details = f"{figures['ours late']} late; published model {100 * figures[f'published {name}']:.1f} %; {how}"
        yield Row(
            f"model, 6 topics on a host: {what}", "share", figures[f"ours {name}"], high=MAX_MISTAKES[name], how=details
        )


def hosts_unknown(setting: Setting) -> Iterator[Row]:
    """Measure the R2 for an unknown kind of host after few runs there."""
    counts = (0, 1, 3, 10, 30)[: setting.size(5, 3)]
    found = unknown_host(trained(_runs(setting)).ours, UNKNOWN, counts, setting.size(300, 20))
    how = f"{SIMULATED}; {UNKNOWN.cores} cores, {UNKNOWN.speed:g} times as fast; 1, 2 and 4 topics; 0: without runs"
    for count, fit in found.items():
        yield Row(f"model, unknown kind of host, {count} runs there: R2(log)", "R2", fit, how=how)


def simulator(setting: Setting) -> Iterator[Row]:
    """Measure the error of a simulated host on measured runs other than those that it was fitted to."""
    row = Row("simulator, p90 of measured runs it was not fitted to: off by", "share")
    path = setting.data / RUNS if setting.data else None
    found = calibrate(read_runs(path)) if path is not None and path.exists() else None
    if found is None or found.test_error is None:
        yield replace(row, note=f"not measured: needs {RUNS} in --data, which `thinwire bench edge` writes")
        return
    host, error = found.host, found.test_error
    how = f"measured; {found.train_error.runs} runs to fit, {error.runs} others: R2 {error.fit:.3f}, worst off "
    how += f"{100 * error.worst:.0f} %; speed {host.speed:.2f}, contention {host.contention:.3f}, "
    yield replace(row, value=error.off, how=how + f"{1000 * host.overhead:.1f} ms overhead")


def latency_limits(setting: Setting) -> Iterator[Row]:
    """Place seventy topics, six on a host, and measure how many miss their latency limit."""
    seeds = range(1, setting.size(5, 1) + 1)
    for kind in RELEASED:
        theirs, ours = (_place(setting, kind, solver, seeds) for solver in ("first-fit", "ours"))
        over, hosts, bound, added = _means(ours, "over", "hosts", "bound", "split")
        their_over, their_hosts = _means(theirs, "over", "hosts")
        how = f"{SIMULATED}, 70 topics and {added:.1f} more by splitting, {len(seeds)} requests: {hosts:.1f} hosts, "
        how += f"bound {bound:.1f}; "
        how += f"first fit with the published model {their_hosts:.1f} hosts, {100 * their_over:.1f} % over"
        what = f"placement, requests as released ({kind})"
        yield Row(f"{what}: topics over their latency limit", "share", over, high=MAX_OVER, how=how)
        yield Row(f"{what}: hosts more than first fit", "hosts", hosts - their_hosts, high=0.0, how=how)
        yield from _solver_rows(kind, ours, how)


def dense_requests(setting: Setting) -> Iterator[Row]:
    """Find the fewest hosts for dense requests at which at most one topic in a hundred misses its latency limit."""
    seeds = range(1, setting.size(3, 1) + 1)
    for kind in ("full", "hot"):
        how = ""
        found: list[Mapping[str, Any]] = []
        without_spare = found
        for covered, spare in _margins(setting):
            found = _place(setting, kind, "ours", seeds, covered, spare)
            without_spare = found if not spare else without_spare
            how = f"{SIMULATED}, {len(seeds)} requests of 70 topics, a margin that covers {covered:g}"
            how += f", {spare} spare hosts"
            if _means(found, "over")[0] <= MAX_OVER:
                break
        over, hosts, bound, added = _means(found, "over", "hosts", "bound", "split")
        how += f": {hosts:.1f} hosts, bound {bound:.1f}; {added:.1f} more topics by splitting"
        yield Row(
            f"placement, dense requests ({kind}): topics over their latency limit",
            "share",
            over,
            high=MAX_OVER,
            how=how,
        )
        yield Row(f"placement, dense requests ({kind}): hosts at which that holds", "hosts", hosts, how=how)
        yield from _solver_rows(kind, without_spare, f"{SIMULATED}, {len(seeds)} requests of 70 topics, no spare hosts")


def _margins(setting: Setting) -> list[tuple[float, int]]:
    """Return margins and spare hosts, the smallest first."""
    if setting.quick:
        return [(MARGINS[0], 0)]
    return [*((covered, 0) for covered in MARGINS), *((MARGINS[-1], spare) for spare in SPARE_HOSTS)]


def many_topics(setting: Setting) -> Iterator[Row]:
    """Time the solver with ten thousand topics."""
    n, model = setting.size(10_000, 200), read_model(None)
    for kind in ("uni", "full"):
        topics = request(kind, n, 1)
        started = time.process_time()
        parts = all_split(topics, [Host()], model)
        plan = propose(parts, [Host()], model, 6)
        seconds = time.process_time() - started
        hosts = len(plan.assignments)
        how = f"{len(parts) - n} more by splitting: {hosts} hosts, bound {plan.lower_bound}, gap {plan.gap}"
        yield Row(f"solver, {n:,} topics ({kind}): processor time", "s", seconds, high=MAX_LARGE_SECONDS, how=how)


def _solver_rows(kind: str, found: Sequence[Mapping[str, Any]], how: str) -> Iterator[Row]:
    seconds = max(result["solver_seconds"] for result in found)
    gap = max(result["hosts"] - result["bound"] for result in found)
    yield Row(
        f"solver, requests of 70 ({kind}): hosts above the bound, at most",
        "hosts",
        gap,
        high=MAX_HOSTS_ABOVE_BOUND,
        how=how,
    )
    yield Row(
        f"solver, requests of 70 ({kind}): processor time, at most", "s", seconds, high=MAX_SOLVER_SECONDS, how=how
    )


def _place(
    setting: Setting, kind: str, solver: str, seeds: Sequence[int], covered: float = 0.9, spare: int = 0
) -> list[Mapping[str, Any]]:
    n = setting.size(70, 24)
    return [
        run_placement(kind, solver, seed, n=n, train_runs=_runs(setting), kept=covered, spare=spare) for seed in seeds
    ]


def _means(found: Sequence[Mapping[str, Any]], *names: str) -> list[float]:
    return [float(np.mean([result[name] for result in found])) for name in names]


def _runs(setting: Setting) -> int:
    return setting.size(1000, 10)


MODEL_BENCHMARKS = [
    Benchmark("placement models", models),
    Benchmark("placement unknown hosts", hosts_unknown),
    Benchmark("placement simulator", simulator),
    Benchmark("placement latency limits", latency_limits, tags=("placement promises",)),
    Benchmark("placement dense", dense_requests),
    Benchmark("placement many topics", many_topics),
]


SEEDS = (21, 22, 23, 24)
"""seeds of the schedules, none of which was used to develop the controller"""
TRIES = 3
"""runs with a seed until one is not disturbed by other load"""
MAX_RESTORED, MAX_TAKEOVER = 30, 10
"""seconds"""
SYSTEM = (
    f"live, stretched time, emulated cores: {TOPICS} topics of {RATE:g} messages/s and {1000 * INTERVAL:g} ms, "
    f"{HOSTS} hosts of {CORES} cores as processes, p90 limit {MAX_P90:g} s over {WINDOW:g} s"
)
RESTORED = "every latency limit kept again after"

Scenario = Callable[..., Coroutine[Any, Any, EdgeRecovery]]


def edge_rate(setting: Setting) -> Iterator[Row]:
    """Triple the rate of one topic."""
    for seed, found, note in _undisturbed(triple_rate, setting):
        how = f"{SYSTEM}; {found.messages:,} messages, {found.moved} topics moved; over {SHORT_WINDOW:g} s: "
        how += f"{_format_seconds(found.restored_short)}; with the topic alone on a host from the start: "
        how += _format_seconds(found.alone)
        remark = note or ("" if found.broken else "no limit was broken")
        invalid = _describe_failure(found)
        name = f"edge, rate of one topic tripled, seed {seed}"
        yield Row(f"{name}: {RESTORED}", "s", found.restored, None, MAX_RESTORED, how, remark, invalid)
        yield _loss_row(name, found, how)


def edge_kill(setting: Setting) -> Iterator[Row]:
    """Kill a host."""
    for seed, found, note in _undisturbed(kill_host, setting):
        how = f"{SYSTEM}; {found.messages:,} messages, {found.moved} topics moved; kill -9 of the first topic's host"
        name = f"edge, host killed, seed {seed}"
        takeover = f"{name}: its topics processed elsewhere after"
        invalid = "never within the run" if found.taken_over is None else ""
        yield Row(takeover, "s", found.taken_over, None, MAX_TAKEOVER, how, note, invalid)
        yield Row(f"{name}: {RESTORED}", "s", found.restored, how=how, note=note or _describe_failure(found))
        yield _loss_row(name, found, how)


def _loss_row(name: str, found: EdgeRecovery, how: str) -> Row:
    return Row(f"{name}: messages lost or with two results", "messages", found.lost + found.repeated, high=0, how=how)


def _undisturbed(scenario: Scenario, setting: Setting) -> Iterator[tuple[int, EdgeRecovery, str]]:
    """Yield an undisturbed run for every seed, or the last run with a note."""
    before, after = setting.size(20, 8), setting.size(60, 30)
    for seed in SEEDS[: setting.size(len(SEEDS), 1)]:
        note = ""
        for _ in range(TRIES):
            found = asyncio.run(scenario(before, after, seed, setting.progress))
            note = f"disturbed: messages were sent up to {found.lateness:.2f} s late (p99)" if found.disturbed else ""
            if not note:
                break
        yield seed, found, note


def _describe_failure(found: EdgeRecovery) -> str:
    return "" if found.restored is not None else "never within the run"


def _format_seconds(seconds: float | None) -> str:
    return "never" if seconds is None else f"{seconds:g} s"


EDGE_BENCHMARKS = [Benchmark("edge rate tripled", edge_rate), Benchmark("edge host killed", edge_kill)]
