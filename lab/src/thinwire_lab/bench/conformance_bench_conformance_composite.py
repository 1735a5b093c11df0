"""Composite subscriptions: messages of each way to find out together that a conjunction is true, by dimension."""

from __future__ import annotations

from collections.abc import Iterator

from thinwire_lab.bench.benchmark import Bar, Row, Setting
from thinwire_lab.overlay_sim.filters.conjunction_costs import ConjunctionCosts, composite_costs
from thinwire_lab.overlay_sim.filters.conjunction_costs_schemes import (
    CARRIED,
    CHAINING,
    FANNING,
    HYBRID,
    WATCHED,
    Scheme,
)

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


BARS = [Bar("composite", composite_rows)]
