"""The bars of dissemination on Chord: messages an event on recorded bars, and how fast the simulator is."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from thinwire_lab.bench.benchmark import Bar, Row, Setting, unmeasured
from thinwire_lab.overlay_sim.dissemination import Costs, simulate
from thinwire_lab.streams.threshold_streams import SIGMA, Ticks, recorded_bars, sample_bars, scaled

NODES, SUBSCRIBERS = 400, 600
COMPARED = ("SF", "MFD", "MCF", "SRT", "SRI")
_HOW = f"minute bars, sigma {SIGMA:g}, {NODES} nodes, {SUBSCRIBERS} subscribers, a ring a symbol and day"


def overlay_rows(setting: Setting) -> list[Row]:
    """All rows of this module."""
    return [row for bar in BARS for row in bar.measure(setting)]


def bar_costs(streams: Mapping[str, Ticks], sigma: float | None = SIGMA) -> dict[str, list[Costs]]:
    """Every stream on a ring of its own: the costs of each scheme, stream by stream."""
    ticks = {name: values if sigma is None else scaled(values, sigma) for name, values in streams.items()}
    runs = [simulate(NODES, {name: of}, SUBSCRIBERS, COMPARED, seed) for seed, (name, of) in enumerate(ticks.items())]
    return {scheme: [run[scheme] for run in runs] for scheme in COMPARED}


def _messages(setting: Setting) -> Iterable[Row]:
    rows = [
        Row("maintenance: SRI to SF, recorded bars", "part", high=1 / 10, how=_HOW),
        Row("maintenance: SRI to MFD, recorded bars", "part", high=1 / 5, how=_HOW),
        *(Row(f"maintenance: {name}, recorded bars", "messages", how=_HOW) for name in COMPARED),
        *(Row(f"maintenance and delivery: {name}, recorded bars", "messages", how=_HOW) for name in COMPARED),
    ]
    if setting.data is None:
        return unmeasured(rows)
    return _filled(rows, setting.data, setting.size(24, 3))


def _filled(rows: list[Row], data: Path, streams: int) -> Iterable[Row]:
    found = bar_costs(dict(list(recorded_bars(data).items())[:streams]))
    kept = {name: float(np.mean([costs.maintenance for costs in of])) for name, of in found.items()}
    whole = {name: float(np.mean([costs.total for costs in of])) for name, of in found.items()}
    values = [kept["SRI"] / kept["SF"], kept["SRI"] / kept["MFD"], *kept.values(), *whole.values()]
    return [Row(r.name, r.unit, value, r.low, r.high, r.how) for r, value in zip(rows, values, strict=True)]


def _simulator(setting: Setting) -> Iterable[Row]:
    nodes, subscriptions, sources = setting.size(1_600, 200), setting.size(6_000, 600), setting.size(30, 3)
    streams = {name: scaled(cents, SIGMA) for name, cents in sample_bars(sources).items()}
    simulate(100, {name: of[:3] for name, of in list(streams.items())[:1]}, 100)  # compiles
    begun = time.process_time()
    found = simulate(nodes, streams, subscriptions)
    spent = time.process_time() - begun
    how = f"{nodes:,} nodes, {subscriptions:,} subscriptions, a day of {sources} sources, five schemes, CPU time"
    yield Row("simulator: a trading day", "s", spent, high=60.0, how=how)
    for name in ("SF", "SRI"):
        costs = found[name]
        yield Row(f"busiest node: {name}, messages", "messages", costs.messages_max, how=f"an event of a source; {how}")
        yield Row(f"99th of 100 nodes: {name}, messages", "messages", costs.messages_p99, how=f"an event; {how}")


def _beyond(setting: Setting) -> Iterable[Row]:
    nodes, subscriptions = setting.size(100_000, 2_000), setting.size(100_000, 2_000)
    streams = {name: scaled(cents, SIGMA) for name, cents in sample_bars(setting.size(30, 2)).items()}
    begun = time.process_time()
    found = simulate(nodes, streams, subscriptions)
    how = f"{nodes:,} nodes, {subscriptions:,} subscriptions, a day of {len(streams)} sources, market sample"
    yield Row(
        "a large ring: SRI to SF, maintenance", "part", found["SRI"].maintenance / found["SF"].maintenance, how=how
    )
    yield Row("a large ring: messages in a row to a subscriber, SRI", "messages", found["SRI"].latency, how=how)
    yield Row("a large ring: simulator", "s", time.process_time() - begun, how=f"{how}, five schemes, CPU time")


BARS = [
    Bar("messages on Chord, recorded bars", _messages),
    Bar("simulator", _simulator),
    Bar("a large ring", _beyond),
]
"""for the area `conformance`"""
