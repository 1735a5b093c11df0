"""Benchmarks of thresholds: dissemination on Chord, composite subscriptions, and many subscriptions on a live source.

The live benchmark is biased in our favour: all events are of one source, so decoding is cheap compared to encoding.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

import numpy as np

from thinwire_lab.bench.benchmark import Benchmark, Row, Setting, unmeasured
from thinwire_lab.live.tolerance_groups import ToleranceGroupsResult, run_tolerance_groups
from thinwire_lab.overlay_sim.dissemination.cost_model import SchemeCosts
from thinwire_lab.overlay_sim.dissemination.overlay_simulation import simulate
from thinwire_lab.overlay_sim.filters.conjunction_costs import (
    CARRIED,
    CHAINING,
    FANNING,
    HYBRID,
    WATCHED,
    ConjunctionCosts,
    Scheme,
    composite_costs,
)
from thinwire_lab.streams.threshold_streams import SIGMA, Ticks, recorded_bars, sample_bars, scaled

MIN_EVENTS_PER_SECOND = 2_000.0
MAX_MEGABYTES = 1_000.0
RATE = 2_500
"""events per second that are published"""


def live(setting: Setting) -> Iterator[Row]:
    """Measure throughput, processor time and memory of a translator in one run."""
    sizes = (setting.size(100_000, 300), setting.size(50, 5), setting.size(60_000, 1_500), RATE)
    found = asyncio.run(run_tolerance_groups(*sizes, setting.progress))
    how = _describe_run(found)
    invalid = f"not delivered as by `greedy`: tolerances {list(found.wrong)} ticks" if found.wrong else ""
    through, per_core = found.events / found.seconds, found.events / found.cpu if found.cpu else None
    for name, rate, details in (
        ("live: through one translator", through, f"{RATE:,} a second published, until the last was delivered"),
        ("live: on one core of the translator", per_core, f"by its processor time, {found.cpu:.1f} s"),
    ):
        yield Row(name, "events/s", rate, MIN_EVENTS_PER_SECOND, how=f"{how}; {details}", invalid=invalid)
    name, memory = "live: resident memory of the translator", found.memory / 1e6
    how = f"{how}; the registry needs {found.registry_memory / 1e6:.0f} MB"
    yield Row(name, "MB", memory, high=MAX_MEGABYTES, how=how)


def _describe_run(found: ToleranceGroupsResult) -> str:
    return (
        f"{found.subscriptions:,} subscriptions in {found.classes:,} classes, registered in "
        f"{found.register_seconds:.0f} s and served {found.serve_seconds:.0f} s later; {found.events:,} events of "
        f"one source, {found.delivered:,} delivered to the audited"
    )


LIVE_BENCHMARKS = [Benchmark("live", live)]


DIMENSIONS = (2, 3, 4, 5)
MIN_RATIOS = {2: 1.7, 5: 4.0}
"""dimension -> required ratio of the messages of chaining to those of the watched predicate"""


def composite_rows(setting: Setting) -> Iterator[Row]:
    """Compare the watched predicate with chaining and the other schemes, which must deliver the same."""
    for number, dimension in enumerate(DIMENSIONS):
        yield from _composite_rows(dimension, setting)
        setting.progress((number + 1) / len(DIMENSIONS))


def _composite_rows(dimension: int, setting: Setting) -> list[Row]:
    schemes = (CHAINING, FANNING, HYBRID, WATCHED, CARRIED)
    found = {scheme: _measure_scheme(dimension, scheme, setting) for scheme in schemes}
    differ = len({cost.fired for cost in found.values()}) > 1
    invalid = "schemes deliver different events" if differ else ""
    named = ", ".join(f"{scheme.name} {cost.per_subscription:.3f}" for scheme, cost in found.items())
    how = f"messages of a subscription and tick: {named}; {_describe_setting(found[WATCHED])}"
    return [
        Row(
            f"composite, dimension {dimension}: {scheme.name} against chaining",
            "times",
            found[CHAINING].messages / max(1, found[scheme].messages),
            low=MIN_RATIOS.get(dimension) if scheme is WATCHED else None,
            how=how if scheme is WATCHED else f"{found[scheme].per_subscription:.3f} messages a subscription and tick",
            invalid=invalid,
        )
        for scheme in (WATCHED, CARRIED)
    ]


def _measure_scheme(dimension: int, scheme: Scheme, setting: Setting) -> ConjunctionCosts:
    subscriptions, ticks = setting.size(6_000, 300), setting.size(2_000, 600)
    return composite_costs(dimension, scheme, subscriptions=subscriptions, ticks=ticks)


def _describe_setting(cost: ConjunctionCosts) -> str:
    walks = "30 random walks of volatilities 1 to 10, thresholds 1 to 63"
    return f"{walks}, {cost.subscriptions:,} subscriptions, {cost.ticks:,} ticks, each alone: no merged requests"


COMPOSITE_BENCHMARKS = [Benchmark("composite", composite_rows)]


NODES, SUBSCRIBERS = 400, 600
MAX_SECONDS = 60.0
"""CPU time of a simulated trading day"""
COMPARED = ("SF", "MFD", "MCF", "SRT", "SRI")
MAX_PARTS = {"SF": 1 / 10, "MFD": 1 / 5}
"""scheme -> required part of its messages that SRI needs"""
_HOW = f"minute bars, sigma {SIGMA:g}, {NODES} nodes, {SUBSCRIBERS} subscribers, a ring a symbol and day"


def bar_costs(streams: Mapping[str, Ticks]) -> dict[str, list[SchemeCosts]]:
    """Simulate each stream on a ring of its own. Return the costs of each scheme by stream."""
    ticks = {name: scaled(values, SIGMA) for name, values in streams.items()}
    runs = [simulate(NODES, {name: of}, SUBSCRIBERS, COMPARED, seed) for seed, (name, of) in enumerate(ticks.items())]
    return {scheme: [run[scheme] for run in runs] for scheme in COMPARED}


def _messages(setting: Setting) -> Iterable[Row]:
    if setting.data is None:
        return unmeasured(_message_rows(dict.fromkeys(COMPARED, 1.0), dict.fromkeys(COMPARED, 1.0)))
    found = bar_costs(dict(islice(recorded_bars(setting.data).items(), setting.size(24, 3))))
    maintenance = {name: float(np.mean([costs.maintenance for costs in of])) for name, of in found.items()}
    totals = {name: float(np.mean([costs.total for costs in of])) for name, of in found.items()}
    return _message_rows(maintenance, totals)


def _message_rows(maintenance: Mapping[str, float], totals: Mapping[str, float]) -> Iterator[Row]:
    for name, high in MAX_PARTS.items():
        part = maintenance["SRI"] / maintenance[name]
        yield Row(f"maintenance: SRI to {name}, recorded bars", "part", part, high=high, how=_HOW)
    for name, messages in maintenance.items():
        yield Row(f"maintenance: {name}, recorded bars", "messages", messages, how=_HOW)
    for name, messages in totals.items():
        yield Row(f"maintenance and delivery: {name}, recorded bars", "messages", messages, how=_HOW)


def _simulator(setting: Setting) -> Iterable[Row]:
    nodes, subscriptions, sources = setting.size(1_600, 200), setting.size(6_000, 600), setting.size(30, 3)
    streams = {name: scaled(cents, SIGMA) for name, cents in sample_bars(sources).items()}
    simulate(100, {name: of[:3] for name, of in list(streams.items())[:1]}, 100)  # compiles
    started = time.process_time()
    found = simulate(nodes, streams, subscriptions)
    spent = time.process_time() - started
    how = f"{nodes:,} nodes, {subscriptions:,} subscriptions, a day of {sources} sources, five schemes, CPU time"
    yield Row("simulator: a trading day", "s", spent, high=MAX_SECONDS, how=how)
    for name in ("SF", "SRI"):
        costs = found[name]
        yield Row(f"busiest node: {name}, messages", "messages", costs.messages_max, how=f"an event of a source; {how}")
        yield Row(f"99th of 100 nodes: {name}, messages", "messages", costs.messages_p99, how=f"an event; {how}")


def _large_ring(setting: Setting) -> Iterable[Row]:
    nodes, subscriptions = setting.size(100_000, 2_000), setting.size(100_000, 2_000)
    streams = {name: scaled(cents, SIGMA) for name, cents in sample_bars(setting.size(30, 2)).items()}
    started = time.process_time()
    found = simulate(nodes, streams, subscriptions)
    how = f"{nodes:,} nodes, {subscriptions:,} subscriptions, a day of {len(streams)} sources, market sample"
    yield Row(
        "a large ring: SRI to SF, maintenance", "part", found["SRI"].maintenance / found["SF"].maintenance, how=how
    )
    yield Row("a large ring: successive messages to a subscriber, SRI", "messages", found["SRI"].latency, how=how)
    yield Row("a large ring: simulator", "s", time.process_time() - started, how=f"{how}, five schemes, CPU time")


OVERLAY_BENCHMARKS = [
    Benchmark("messages on Chord, recorded bars", _messages),
    Benchmark("simulator", _simulator),
    Benchmark("a large ring", _large_ring),
]
