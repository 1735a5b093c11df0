"""A hundred thousand subscriptions of a thousand tolerances, live: through one translator, on one core, exactly.

Biased in our favour in one way: all walk on one source, so that decoding is cheap beside telling.

Composite subscriptions: messages of each way to find out together that a conjunction is true, by dimension.

The bars of dissemination on Chord: messages an event on recorded bars, and how fast the simulator is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from thinwire_lab.bench.benchmark import Bar, Row, Setting, unmeasured
from thinwire_lab.live.tolerance_groups import Walked, walked
from thinwire_lab.overlay_sim.dissemination import SchemeCosts, simulate
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

EVENTS_PER_SECOND = 2_000.0
MEGABYTES = 1_000.0
RATE = 2_500
"""events a second that are published"""


def live(setting: Setting) -> Iterator[Row]:
    """One run gives all rows."""
    sizes = (setting.size(100_000, 300), setting.size(50, 5), setting.size(60_000, 1_500), RATE)
    found = asyncio.run(walked(*sizes, setting.progress))
    how = _how(found)
    sound = not found.wrong
    note = f"told otherwise than `greedy`: tolerances {found.wrong} ticks" if found.wrong else ""
    through, on_core = found.events / found.seconds, found.events / found.cpu if found.cpu else None
    yield Row(
        "live: through one translator",
        "events/s",
        through,
        low=EVENTS_PER_SECOND,
        how=f"{how}; {RATE:,} a second published, until the last was told",
        note=note,
        sound=sound,
    )
    yield Row(
        "live: on one core of the translator",
        "events/s",
        on_core,
        low=EVENTS_PER_SECOND,
        how=f"{how}; by its processor time, {found.cpu:.1f} s",
        note=note,
        sound=sound,
    )
    yield Row(
        "live: resident memory of the translator",
        "MB",
        found.memory / 1e6,
        high=MEGABYTES,
        how=f"{how}; the registry needs {found.registry / 1e6:.0f} MB",
    )


def _how(found: Walked) -> str:
    return (
        f"{found.subscriptions:,} subscriptions in {found.classes:,} classes, registered in {found.registering:.0f} s "
        f"and served {found.serving:.0f} s later; {found.events:,} events of one source, {found.told:,} told to the "
        "audited"
    )


LIVE_THRESHOLD_REQUIREMENTS = [Bar("live", live)]


DIMENSIONS = (2, 3, 4, 5)
FEWER = {2: 1.7, 5: 4.0}
"""dimension -> how many times fewer messages the watched predicate must need than chaining"""


def composite_rows(setting: Setting) -> Iterator[Row]:
    """The watched predicate against chaining; beside it what else there is, and whether all deliver alike."""
    for number, dimension in enumerate(DIMENSIONS):
        yield from _rows(dimension, setting)
        setting.progress((number + 1) / len(DIMENSIONS))


def _rows(dimension: int, setting: Setting) -> list[Row]:
    schemes = (CHAINING, FANNING, HYBRID, WATCHED, CARRIED)
    found = {scheme: _measured(dimension, scheme, setting) for scheme in schemes}
    sound = len({cost.fired for cost in found.values()}) == 1
    note = "" if sound else "schemes differ in what they deliver"
    named = ", ".join(f"{scheme.name} {cost.per_subscription:.3f}" for scheme, cost in found.items())
    how = f"messages of a subscription and tick: {named}; {_setting(found[WATCHED])}"
    return [
        Row(
            f"composite, dimension {dimension}: {scheme.name} against chaining",
            "times",
            found[CHAINING].messages / max(1, found[scheme].messages),
            low=FEWER.get(dimension) if scheme is WATCHED else None,
            how=how if scheme is WATCHED else f"{found[scheme].per_subscription:.3f} messages a subscription and tick",
            note=note,
            sound=sound,
        )
        for scheme in (WATCHED, CARRIED)
    ]


def _measured(dimension: int, scheme: Scheme, setting: Setting) -> ConjunctionCosts:
    subscriptions, ticks = setting.size(6_000, 300), setting.size(2_000, 600)
    return composite_costs(dimension, scheme, subscriptions=subscriptions, ticks=ticks)


def _setting(cost: ConjunctionCosts) -> str:
    walks = "30 random walks of volatilities 1 to 10, thresholds 1 to 63"
    return f"{walks}, {cost.subscriptions:,} subscriptions, {cost.ticks:,} ticks, each alone: no merged requests"


COMPOSITE_REQUIREMENTS = [Bar("composite", composite_rows)]


NODES, SUBSCRIBERS = 400, 600
COMPARED = ("SF", "MFD", "MCF", "SRT", "SRI")
_HOW = f"minute bars, sigma {SIGMA:g}, {NODES} nodes, {SUBSCRIBERS} subscribers, a ring a symbol and day"


def overlay_rows(setting: Setting) -> list[Row]:
    """All rows of this module."""
    return [row for bar in OVERLAY_REQUIREMENTS for row in bar.measure(setting)]


def bar_costs(streams: Mapping[str, Ticks], sigma: float | None = SIGMA) -> dict[str, list[SchemeCosts]]:
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


OVERLAY_REQUIREMENTS = [
    Bar("messages on Chord, recorded bars", _messages),
    Bar("simulator", _simulator),
    Bar("a large ring", _beyond),
]
"""for the area `conformance`"""
