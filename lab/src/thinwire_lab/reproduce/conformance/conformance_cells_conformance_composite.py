"""Conjunctions on Chord: who stores them, who asks whom over how many hops, and how long a subscriber waits.

A source's values go to its segment of the ring, as one multicast a minute; a conjunction is stored with a node of its
strongest source's segment. A question goes over the ring to a node of the other segment and is answered straight; nodes
ask each other once a minute, whatever for. What fires goes from there to the subscriber, the values of all sources in
one message.

>>> point = composite(nodes=100, subscriptions=60, dimension=3, sources=6)
>>> point["watched questions"] < point["chaining questions"] < point["fanning questions"]
True
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from thinwire_lab.overlay_sim.chord import Ring, hops, key_of, routes
from thinwire_lab.overlay_sim.dissemination import PINNED
from thinwire_lab.overlay_sim.filters.conjunction_costs import VOLATILITIES, Conjunctions, conjunction_costs, draw
from thinwire_lab.overlay_sim.filters.conjunction_costs_schemes import SCHEMES
from thinwire_lab.overlay_sim.filters.conjunction_costs_strength import change_rates
from thinwire_lab.reproduce.conformance.conformance_cells_conformance_figure import SOURCES
from thinwire_lab.streams.threshold_streams import Ticks, bars, scaled

TRAINING = 0.1
"""share of the values that the strength of predicates is taken from"""


class _Ground(NamedTuple):
    """Segments on a ring: a row of nodes for each source, its publisher, and what a value costs that goes to all."""

    ring: Ring
    segments: Ticks
    publishers: Ticks
    multicast: int


def composite(
    nodes: int,
    subscriptions: int,
    dimension: int,
    data: str | None = None,
    sources: int = SOURCES,
    seed: int = 1,
) -> dict[str, float]:
    """What conjunctions of so many sources cost, a subscription and minute, under every scheme."""
    values = _values(data, sources, seed)
    before = max(2, int(TRAINING * len(values)))
    wanted = draw(change_rates(values[:before]), dimension, subscriptions, seed, PINNED.largest)
    ground, rng = _ground(nodes, values.shape[1], seed), np.random.default_rng([seed, nodes, dimension])
    width = ground.segments.shape[1]
    homes = rng.integers(0, nodes, subscriptions)
    stored = ground.segments[wanted.sources[:, 0], np.arange(subscriptions) % width]
    onward = float(hops(ground.ring, stored, homes).mean())
    found = {"any subscription": float(hops(ground.ring, homes, stored).mean())}
    inward = float(hops(ground.ring, ground.publishers[:, None], ground.segments).mean())
    between = _between(ground, rng)
    for name in SCHEMES:
        costs = _costs(values[before:], wanted, name, between, width, ground.multicast)
        delivery = costs["fired"] * onward
        found |= {f"{name} {measure}": costs[measure] for measure in ("questions", "maintenance")}
        found |= {f"{name} delivery": delivery, f"{name} total": costs["maintenance"] + delivery}
        found[f"{name} latency"] = inward + costs["waited"] + onward
    return found


def _costs(
    values: Ticks, wanted: Conjunctions, name: str, between: Ticks, width: int, multicast: int
) -> dict[str, float]:
    costs = conjunction_costs(values, wanted, SCHEMES[name], between, width)
    share = 1 / (costs.subscriptions * costs.ticks)
    questions = costs.merged_messages * share
    return {
        "questions": questions,
        "maintenance": questions + multicast / costs.subscriptions,
        "fired": costs.fired * share,
        "waited": costs.latency,
    }


@lru_cache(maxsize=4)
def _values(data: str | None, sources: int, seed: int) -> Ticks:
    """A column a source, a row a minute; sources of ten volatilities, each in its turn."""
    cents = list(bars(data, sources, seed).values())
    length = min(map(len, cents))
    columns = [scaled(of[:length], float(VOLATILITIES[k % len(VOLATILITIES)])) for k, of in enumerate(cents)]
    return np.stack(columns, axis=1)


def _ground(nodes: int, sources: int, seed: int) -> _Ground:
    ring = Ring.random(nodes, seed, PINNED.bits)
    firsts = np.array([ring.successor(key_of(f"source {k}", ring.bits)) for k in range(sources)])
    segments = (firsts[:, None] + np.arange(min(PINNED.processors, nodes))) % nodes
    publishers = np.random.default_rng([seed, nodes]).integers(0, nodes, sources)
    pairs = zip(publishers.tolist(), segments.tolist(), strict=True)
    multicast = sum(len(np.unique(routes(ring, [start], segment).nodes)) for start, segment in pairs)
    return _Ground(ring, segments, publishers, multicast)


def _between(ground: _Ground, rng: np.random.Generator) -> Ticks:
    """Hops from a node of each segment to a node of each other one."""
    count, width = ground.segments.shape
    senders = ground.segments[np.arange(count)[:, None], rng.integers(0, width, (count, count))]
    receivers = ground.segments[np.arange(count)[None, :], rng.integers(0, width, (count, count))]
    return np.maximum(hops(ground.ring, senders, receivers), 1)
