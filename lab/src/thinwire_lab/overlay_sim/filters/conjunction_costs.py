"""Many conjunctions under one scheme, for the figures: the same rules as in `schemes`, counted by a kernel.

Only conjunctions: any condition is alternatives of them. Every source is told at every tick. A route may
be long: `hops` says how many messages a request needs from the node of one source to that of another; the reply and
what follows go straight back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from thinwire.errors import ConfigError
from thinwire_lab.overlay_sim.filters.conjunction_costs_schemes import HYBRID, Scheme
from thinwire_lab.overlay_sim.filters.conjunction_costs_strength import change_rates
from thinwire_lab.overlay_sim.filters.filter_kernels import CARRIED, FIELDS, STATIC, WATCHED, evaluate

Ticks = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Conjunctions:
    """Subscriptions of one dimension; each row its sources and thresholds, strongest first, so column 0 is the owner.

    strengths: rho = c / Delta of each
    """

    sources: Ticks
    thresholds: Ticks
    strengths: npt.NDArray[np.float64]

    @property
    def dimension(self) -> int:
        return int(self.sources.shape[1])

    def __len__(self) -> int:
        return len(self.sources)


@dataclass(frozen=True)
class ConjunctionCosts:
    """What a scheme costs.

    fired: deliveries; requests, merged, moves, passes: as in `Traffic`
    route, merged_route: messages that requests and passes took on their way, without replies
    waited: hops from the owner's value to the decision, summed over deliveries; rounds: of questions, likewise
    """

    scheme: str
    subscriptions: int
    ticks: int
    fired: int
    requests: int
    merged: int
    moves: int
    passes: int
    route: int
    merged_route: int
    waited: int
    rounds: int

    @property
    def messages(self) -> int:
        """Each request and its reply, and each move: what subscriptions alone would cost, summed."""
        return self.route + self.requests + self.moves

    @property
    def merged_messages(self) -> int:
        """The same where a node asks another one once in a tick, whatever for; moves are not merged."""
        return self.merged_route + self.merged + self.moves

    @property
    def per_subscription(self) -> float:
        """Messages of one subscription in one tick."""
        return self.messages / max(1, self.subscriptions * self.ticks)

    @property
    def latency(self) -> float:
        """Mean hops from a value to the decision to deliver it."""
        return self.waited / self.fired if self.fired else 0.0


def draw(rates: npt.NDArray[np.float64], dimension: int, count: int, seed: int, most: int = 63) -> Conjunctions:
    """Conjunctions over distinct sources drawn evenly, thresholds drawn evenly from 1 to `most`."""
    if not 1 <= dimension <= len(rates):
        raise ConfigError("a conjunction has 1 to as many sources as there are", dimension=dimension, most=len(rates))
    dice = np.random.default_rng([seed, dimension])
    sources = dice.random((count, len(rates))).argsort(axis=1)[:, :dimension].astype(np.int64)
    thresholds = dice.integers(1, most + 1, size=(count, dimension), dtype=np.int64)
    return ranked(sources, thresholds, rates)


def ranked(sources: Ticks, thresholds: Ticks, rates: npt.NDArray[np.float64]) -> Conjunctions:
    """Strongest predicates first."""
    strengths = thresholds / rates[sources]
    order = np.argsort(-strengths, axis=1, kind="stable")
    pick: Any = lambda column: np.ascontiguousarray(np.take_along_axis(column, order, axis=1))  # noqa: E731
    return Conjunctions(pick(sources), pick(thresholds), pick(strengths))


def conjunction_costs(
    values: Ticks,
    subscribed: Conjunctions,
    scheme: Scheme = HYBRID,
    hops: Ticks | None = None,
    nodes: int = 1,
) -> ConjunctionCosts:
    """What a scheme costs on these values: a row a tick, a column a source; the first row is held by everybody.

    hops: from source to source, 1 where not given; nodes: over which the subscriptions of a source are spread
    """
    count = values.shape[1]
    routes = np.ones((count, count), dtype=np.int64) if hops is None else np.ascontiguousarray(hops, dtype=np.int64)
    if routes.shape != (count, count):
        raise ConfigError("hops has a row and a column for each source", shape=routes.shape, sources=count)
    singly = (subscribed.strengths[:, 1:] > scheme.theta).sum(axis=1).astype(np.int64)
    chained = np.full(len(subscribed), subscribed.dimension, dtype=np.int64) if scheme.moves else singly
    held = values[0][subscribed.sources]
    found = np.zeros(len(FIELDS), dtype=np.int64)
    steps = np.ascontiguousarray(values, dtype=np.int64)
    way = CARRIED if scheme.carries else WATCHED if scheme.moves else STATIC
    evaluate(steps, subscribed.sources, subscribed.thresholds, held, chained, way, routes, max(1, nodes), found)
    counts = {name: int(number) for name, number in zip(FIELDS, found, strict=True)}
    return ConjunctionCosts(scheme.name, len(subscribed), len(values) - 1, **counts)


def walks(volatilities: npt.NDArray[np.float64], ticks: int, seed: int) -> Ticks:
    """Random walks in whole ticks, one for each volatility (the standard deviation of a step)."""
    dice = np.random.default_rng(seed)
    steps = dice.normal(0.0, 1.0, size=(ticks, len(volatilities))) * volatilities
    steps[0] = 0
    return np.rint(np.cumsum(steps, axis=0)).astype(np.int64)


def composite_costs(
    dimension: int,
    scheme: Scheme,
    *,
    values: Ticks | None = None,
    subscriptions: int = 6_000,
    ticks: int = 2_000,
    seed: int = 1,
    hops: Ticks | None = None,
    nodes: int = 1,
) -> ConjunctionCosts:
    """One point of figures 5.8 to 5.11: conjunctions of one dimension under one scheme.

    values: real ticks, a column a source; without them walks of ten volatilities, three sources each
    The strength of predicates is taken from the first tenth of the values, and costs are counted on the rest.

    >>> from thinwire_lab.overlay_sim.filters.conjunction_costs_schemes import CHAINING, WATCHED
    >>> chain, watched = (composite_costs(2, way, subscriptions=50, ticks=400) for way in (CHAINING, WATCHED))
    >>> chain.fired == watched.fired, chain.messages > watched.messages
    (True, True)
    """
    stream = walks(np.repeat(VOLATILITIES, 3), ticks, seed) if values is None else values
    before = max(2, math.ceil(len(stream) / 10))
    rates = change_rates(stream[:before])
    subscribed = draw(rates, dimension, subscriptions, seed)
    return conjunction_costs(stream[before:], subscribed, scheme, hops, nodes)


VOLATILITIES = np.arange(1, 11).astype(np.float64)
"""of the ten groups of sources, in ticks"""
