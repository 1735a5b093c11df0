"""Placement: how well latency is told, how many promises a placement keeps, how far it is from its bound. Simulated.

The edge live on one machine: a topic's rate triples, a host is killed; promises are kept again, nothing is lost.
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
from thinwire_lab.bench.benchmark import Bar, Row, Setting
from thinwire_lab.live.edge.edge_failover import (
    CORES,
    HOSTS,
    INTERVAL,
    PROMISE,
    RATE,
    SHORTER,
    TOPICS,
    WINDOW,
    EdgeRecovery,
    killed,
    tripled,
)
from thinwire_lab.placement.calibration import calibrate
from thinwire_lab.placement.run_files import RUNS, read_runs
from thinwire_lab.placement.topic_parts import all_split
from thinwire_lab.reproduce.placement.placement_cells import RELEASED, accuracy, request, trained, unknown_host
from thinwire_lab.reproduce.placement.placement_cells import placement as placed

SIMULATED = "simulated hosts, 120 s a run"
MARGINS = (0.9, 0.95, 0.99, 0.995)
SPARE = (1, 2, 3)
"""shares of the runs that a margin covers, and then hosts to spare, tried on dense requests until promises hold"""
UNKNOWN = Host(cores=2, speed=1.7, contention=0.1)
"""a kind of host that no model was trained on"""


def models(setting: Setting) -> Iterator[Row]:
    """Fit on fresh runs against the mean of reruns, for one to six topics on a host."""
    runs, fresh, reruns = _runs(setting), setting.size(1000, 8), setting.size(8, 1)
    both = trained(runs)
    for k in range(1, 7):
        found = accuracy(both, k, fresh, reruns)
        setting.progress(k / 7)
        how = f"{SIMULATED}, {runs} runs a size to train, {fresh} fresh: R2 {found['ours fit']:.4f}, "
        how += f"mean of {reruns} reruns {found['ceiling']:.4f}, published model {found['published fit']:.4f}"
        below = found["ceiling"] - found["ours fit"]
        yield Row(f"model, {k} topics on a host: R2(log) below the ceiling", "R2", below, high=0.003, how=how)
        if k == 6:
            yield from _mistakes(found, how)


def _mistakes(figures: Mapping[str, Any], how: str) -> Iterator[Row]:
    for name, what, high in (("missed", "late topics accepted", 0.02), ("refused", "topics in time refused", 0.05)):
        told = f"{figures['ours late']} late; published model {100 * figures[f'published {name}']:.1f} %; {how}"
        yield Row(f"model, 6 topics on a host: {what}", "share", figures[f"ours {name}"], high=high, how=told)


def hosts_unknown(setting: Setting) -> Iterator[Row]:
    """A kind of host the model was not trained on: its fit after few runs there."""
    counts = (0, 1, 3, 10, 30)[: setting.size(5, 3)]
    found = unknown_host(trained(_runs(setting)).ours, UNKNOWN, counts, setting.size(300, 20))
    how = f"{SIMULATED}; {UNKNOWN.cores} cores, {UNKNOWN.speed:g} times as fast; 1, 2 and 4 topics; 0: taken for known"
    for count, fit in found.items():
        yield Row(f"model, unknown kind of host, {count} runs there: R2(log)", "R2", fit, how=how)


def simulator(setting: Setting) -> Iterator[Row]:
    """The simulated host, fitted to some measured runs, on the others."""
    row = Row("simulator, p90 of measured runs it was not fitted to: off by", "share")
    path = setting.data / RUNS if setting.data else None
    found = calibrate(read_runs(path)) if path is not None and path.exists() else None
    if found is None or found.fresh is None:
        yield replace(row, note=f"not measured: needs {RUNS} in --data, which `thinwire bench edge` writes")
        return
    host, fresh = found.host, found.fresh
    how = f"measured; {found.seen.runs} runs to fit, {fresh.runs} others: R2 {fresh.fit:.3f}, worst off "
    how += f"{100 * fresh.worst:.0f} %; speed {host.speed:.2f}, contention {host.contention:.3f}, "
    yield replace(row, value=fresh.off, how=how + f"{1000 * host.overhead:.1f} ms on the way")


def promises(setting: Setting) -> Iterator[Row]:
    """Seventy topics, six on a host: how many miss their promise on the hosts they got."""
    seeds = range(1, setting.size(5, 1) + 1)
    for kind in RELEASED:
        theirs, ours = (_placed(setting, kind, solver, seeds) for solver in ("first-fit", "ours"))
        over, hosts, bound, more = _means(ours, "over", "hosts", "bound", "split")
        their_over, their_hosts = _means(theirs, "over", "hosts")
        how = f"{SIMULATED}, 70 topics and {more:.1f} more by splitting, {len(seeds)} requests: {hosts:.1f} hosts, "
        how += f"bound {bound:.1f}; "
        how += f"first fit with the published model {their_hosts:.1f} hosts, {100 * their_over:.1f} % over"
        what = f"placement, requests as released ({kind})"
        yield Row(f"{what}: topics over their promise", "share", over, high=0.01, how=how)
        yield Row(f"{what}: hosts more than first fit", "hosts", hosts - their_hosts, high=0.0, how=how)
        yield from _solved(kind, ours, how)


def dense(setting: Setting) -> Iterator[Row]:
    """Dense requests: the fewest hosts at which one topic in a hundred at most misses its promise."""
    seeds = range(1, setting.size(3, 1) + 1)
    for kind in ("full", "hot"):
        how = ""
        found: list[Mapping[str, Any]] = []
        fewest = found
        for kept, spare in _cautions(setting):
            found = _placed(setting, kind, "ours", seeds, kept=kept, spare=spare)
            fewest = found if not spare else fewest
            how = f"{SIMULATED}, {len(seeds)} requests of 70 topics, a margin that covers {kept:g}, {spare} to spare"
            if _means(found, "over")[0] <= 0.01:
                break
        over, hosts, bound, more = _means(found, "over", "hosts", "bound", "split")
        how += f": {hosts:.1f} hosts, bound {bound:.1f}; {more:.1f} more topics by splitting"
        yield Row(f"placement, dense requests ({kind}): topics over their promise", "share", over, high=0.01, how=how)
        yield Row(f"placement, dense requests ({kind}): hosts at which that holds", "hosts", hosts, how=how)
        yield from _solved(kind, fewest, f"{SIMULATED}, {len(seeds)} requests of 70 topics, none to spare")


def _cautions(setting: Setting) -> list[tuple[float, int]]:
    """Margins and hosts to spare, the least cautious first."""
    if setting.quick:
        return [(MARGINS[0], 0)]
    return [*((kept, 0) for kept in MARGINS), *((MARGINS[-1], spare) for spare in SPARE)]


def many(setting: Setting) -> Iterator[Row]:
    """Ten thousand topics."""
    n, model = setting.size(10_000, 200), read_model(None)
    for kind in ("uni", "full"):
        topics = request(kind, n, 1)
        started = time.process_time()
        parts = all_split(topics, [Host()], model)
        plan = propose(parts, [Host()], model, 6)
        seconds = time.process_time() - started
        hosts = len(plan.assignments)
        how = f"{len(parts) - n} more by splitting: {hosts} hosts, bound {plan.lower_bound}, gap {plan.gap}"
        yield Row(f"solver, {n:,} topics ({kind}): processor time", "s", seconds, high=60, how=how)


def _solved(kind: str, found: Sequence[Mapping[str, Any]], how: str) -> Iterator[Row]:
    seconds = max(one["solver_seconds"] for one in found)
    gap = max(one["hosts"] - one["bound"] for one in found)
    yield Row(f"solver, requests of 70 ({kind}): hosts above the bound, at most", "hosts", gap, high=1, how=how)
    yield Row(f"solver, requests of 70 ({kind}): processor time, at most", "s", seconds, high=10, how=how)


def _placed(
    setting: Setting, kind: str, solver: str, seeds: Sequence[int], kept: float = 0.9, spare: int = 0
) -> list[Mapping[str, Any]]:
    n = setting.size(70, 24)
    return [placed(kind, solver, seed, n=n, train_runs=_runs(setting), kept=kept, spare=spare) for seed in seeds]


def _means(found: Sequence[Mapping[str, Any]], *names: str) -> list[float]:
    return [float(np.mean([one[name] for one in found])) for name in names]


def _runs(setting: Setting) -> int:
    return setting.size(1000, 10)


MODEL_REQUIREMENTS = [
    Bar("placement models", models),
    Bar("placement unknown hosts", hosts_unknown),
    Bar("placement simulator", simulator),
    Bar("placement promises", promises),
    Bar("placement dense", dense),
    Bar("placement many topics", many),
]


SEEDS = (21, 22, 23, 24)
"""of the schedules; the controller was made with others"""
TRIES = 3
"""runs with a seed until one is not disturbed from outside"""
STAGE = (
    f"live, time-scaled, cores by timer: {TOPICS} topics of {RATE:g} messages/s and {1000 * INTERVAL:g} ms, "
    f"{HOSTS} hosts of {CORES} cores as processes, promise p90 {PROMISE:g} s, judged over {WINDOW:g} s"
)

Scene = Callable[..., Coroutine[Any, Any, EdgeRecovery]]


def rate(setting: Setting) -> Iterator[Row]:
    """The rate of one topic triples in mid-run."""
    for seed, found, note in _calm(tripled, setting):
        how = f"{STAGE}; {found.messages:,} messages, {found.moved} topics moved; judged over {SHORTER:g} s: "
        how += f"{_after(found.shorter)}; the topic alone on a host from the first moment on: {_after(found.alone)}"
        what = f"edge, rate of one topic tripled, seed {seed}"
        broken = "" if found.broken else "no promise was broken"
        told = note or ("" if _sound(found) else "never within the run") or broken
        name = f"{what}: every promise kept again after"
        yield Row(name, "s", found.restored, high=30, how=how, note=told, sound=_sound(found))
        yield Row(f"{what}: messages lost or with two results", "messages", _wrong(found), high=0, how=how)


def kill(setting: Setting) -> Iterator[Row]:
    """A host dies."""
    for seed, found, note in _calm(killed, setting):
        how = f"{STAGE}; {found.messages:,} messages, {found.moved} topics moved; kill -9 of the first topic's host"
        what = f"edge, host killed, seed {seed}"
        yield Row(f"{what}: its topics processed elsewhere after", "s", found.taken, high=10, how=how, note=note,
                  sound=found.taken is not None)  # fmt: skip
        told = note or ("" if _sound(found) else "never within the run")
        yield Row(f"{what}: every promise kept again after", "s", found.restored, how=how, note=told)
        yield Row(f"{what}: messages lost or with two results", "messages", _wrong(found), high=0, how=how)


def _calm(scene: Scene, setting: Setting) -> Iterator[tuple[int, EdgeRecovery, str]]:
    """For every seed a run that was not disturbed; the last one, and that it was, where there is none."""
    before, after = setting.size(20, 8), setting.size(60, 30)
    for seed in SEEDS[: setting.size(len(SEEDS), 1)]:
        note = ""
        for _ in range(TRIES):
            found = asyncio.run(scene(before, after, seed, setting.progress))
            note = f"disturbed: messages were sent up to {found.lateness:.2f} s late (p99)" if found.disturbed else ""
            if not note:
                break
        yield seed, found, note


def _sound(found: EdgeRecovery) -> bool:
    return found.restored is not None


def _after(seconds: float | None) -> str:
    return "never" if seconds is None else f"{seconds:g} s"


def _wrong(found: EdgeRecovery) -> int:
    return found.lost + found.repeated


EDGE_REQUIREMENTS = [Bar("edge rate tripled", rate), Bar("edge host killed", kill)]
