"""Message costs of evaluating conjunctions on nodes that each have one source.

A conjunction has a predicate for each of several sources: the value differs from the reference value, which is the one
delivered last, by more than a threshold; the predicate is then *outside*. If all predicates are outside, the values are
delivered and become the reference values. A conjunction is stored at the node of one of its sources, its *owner*. If
the owner's predicate is outside, the other values must be requested: a request and a reply, two messages.

The schemes chaining, fanning and hybrid are those of L. Chen's dissertation (2011); watched and carried are ours.

- chaining: requests one after the other, strongest predicate first, until a predicate is inside
- fanning: all requests concurrently
- hybrid: predicates with a strength above theta one after the other, then the rest concurrently
- watched: one after the other; the first predicate inside becomes the owner, which costs one more message. A static
  owner outside its threshold sends requests at every tick while another predicate is inside; a watched one does not.
- carried: no requests. The conjunction is forwarded to the next predicate with its reference values and the values
  found so far, and stays with the first that is inside; if there is none, the last one delivers. One message per step

A request returns the value of the same tick. All schemes are then exact if every source has a value at every tick.

The strength of a predicate is the expected number of ticks for which it stays inside: rho = threshold / mean change.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from thinwire.errors import ConfigError
from thinwire_lab.overlay_sim.filters.filter_kernels import (
    CARRIED_CONJUNCT,
    COUNTERS,
    MOVING_OWNER,
    STATIC_OWNER,
    evaluate,
)

Ticks = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Scheme:
    """A scheme of evaluation.

    theta: strength above which a value is requested individually
    mode: one of the modes of `filter_kernels`; theta is only used with a static owner
    """

    name: str
    theta: float = 0.0
    mode: int = STATIC_OWNER


CHAINING = Scheme("chaining")
FANNING = Scheme("fanning", theta=math.inf)
HYBRID = Scheme("hybrid", theta=1.0)
WATCHED = Scheme("watched", mode=MOVING_OWNER)
CARRIED = Scheme("carried", mode=CARRIED_CONJUNCT)
SCHEMES = {scheme.name: scheme for scheme in (CHAINING, FANNING, HYBRID, WATCHED, CARRIED)}


def change_rates(values: Ticks) -> Floats:
    """Return the mean absolute change of each column, never zero."""
    changes = np.abs(np.diff(values, axis=0)).mean(axis=0) if len(values) > 1 else np.zeros(values.shape[1])
    return np.maximum(changes, np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class Conjunctions:
    """Subscriptions with the same number of predicates: one row each, strongest predicate first.

    Column 0 is the first owner. strengths: rho of each predicate
    """

    sources: Ticks
    thresholds: Ticks
    strengths: Floats

    @property
    def dimension(self) -> int:
        """Number of predicates of each subscription."""
        return int(self.sources.shape[1])

    def __len__(self) -> int:
        return len(self.sources)


@dataclass(frozen=True)
class ConjunctionCosts:
    """Costs of a scheme, in total over all subscriptions and ticks.

    fired: deliveries
    requests: requests to other nodes, each with a reply
    distinct_requests: requests that remain if a node requests each value once per tick for all subscriptions
    moves: transfers of a conjunction to another owner; passes: forwardings of a carried conjunction
    request_hops, distinct_request_hops: messages of requests, or distinct requests, and passes, without replies
    decision_hops: hops from the owner's value to the decision, summed over deliveries
    rounds: rounds of requests or passes, summed over deliveries
    """

    scheme: str
    subscriptions: int
    ticks: int
    fired: int
    requests: int
    distinct_requests: int
    moves: int
    passes: int
    request_hops: int
    distinct_request_hops: int
    decision_hops: int
    rounds: int

    @property
    def messages(self) -> int:
        """All requests, replies, passes and moves."""
        return self.request_hops + self.requests + self.moves

    @property
    def distinct_messages(self) -> int:
        """All distinct requests with their replies, passes and moves."""
        return self.distinct_request_hops + self.distinct_requests + self.moves

    @property
    def per_subscription(self) -> float:
        """Messages per subscription and tick."""
        return self.messages / max(1, self.subscriptions * self.ticks)

    @property
    def latency(self) -> float:
        """Mean hops from a value to its delivery decision."""
        return self.decision_hops / self.fired if self.fired else 0.0


def draw(rates: Floats, dimension: int, count: int, seed: int, largest: int = 63) -> Conjunctions:
    """Return `count` random conjunctions of `dimension` distinct sources, with thresholds from 1 to `largest`.

    rates: mean change of each source per tick, which determines the strengths
    """
    if not 1 <= dimension <= len(rates):
        raise ConfigError(
            "a conjunction needs 1 predicate or more and no more than there are sources",
            field="dimension",
            value=dimension,
            highest=len(rates),
        )
    rng = np.random.default_rng([seed, dimension])
    sources = rng.random((count, len(rates))).argsort(axis=1)[:, :dimension].astype(np.int64)
    thresholds = rng.integers(1, largest + 1, size=(count, dimension), dtype=np.int64)
    return rank_predicates(sources, thresholds, rates)


def rank_predicates(sources: Ticks, thresholds: Ticks, rates: Floats) -> Conjunctions:
    """Return conjunctions with the strongest predicates first."""
    strengths = thresholds / rates[sources]
    order = np.argsort(-strengths, axis=1, kind="stable")
    sources, thresholds = (np.ascontiguousarray(np.take_along_axis(c, order, axis=1)) for c in (sources, thresholds))
    return Conjunctions(sources, thresholds, np.take_along_axis(strengths, order, axis=1))


def conjunction_costs(
    values: Ticks,
    subscribed: Conjunctions,
    scheme: Scheme = HYBRID,
    hops: Ticks | None = None,
    nodes: int = 1,
) -> ConjunctionCosts:
    """Return the costs of a scheme on values with one row per tick and one column per source.

    The first row contains the reference values of all subscriptions.

    hops: messages of a request between the nodes of two sources, 1 by default; replies and moves are one message
    nodes: number of nodes over which the subscriptions of a source are distributed
    """
    count = values.shape[1]
    routes = np.ones((count, count), dtype=np.int64) if hops is None else np.ascontiguousarray(hops, dtype=np.int64)
    if routes.shape != (count, count):
        raise ConfigError("hops needs a row and a column for each source", shape=routes.shape, sources=count)
    strong = (subscribed.strengths[:, 1:] > scheme.theta).sum(axis=1).astype(np.int64)
    is_static = scheme.mode == STATIC_OWNER
    sequential = strong if is_static else np.full(len(subscribed), subscribed.dimension, dtype=np.int64)
    references = values[0][subscribed.sources]
    counters = np.zeros(len(COUNTERS), dtype=np.int64)
    rows = np.ascontiguousarray(values, dtype=np.int64)
    predicates = subscribed.sources, subscribed.thresholds, references
    evaluate(rows, *predicates, sequential, scheme.mode, routes, max(1, nodes), counters)
    counts = dict(zip(COUNTERS, counters.tolist(), strict=True))
    return ConjunctionCosts(scheme.name, len(subscribed), len(values) - 1, **counts)


def walks(volatilities: Floats, ticks: int, seed: int) -> Ticks:
    """Return random walks in ticks, one for each volatility (the standard deviation of a step)."""
    rng = np.random.default_rng(seed)
    steps = rng.normal(0.0, 1.0, size=(ticks, len(volatilities))) * volatilities
    steps[0] = 0
    return np.rint(np.cumsum(steps, axis=0)).astype(np.int64)


def composite_costs(
    dimension: int, scheme: Scheme, *, subscriptions: int = 6_000, ticks: int = 2_000, seed: int = 1
) -> ConjunctionCosts:
    """Return the costs of conjunctions over 30 random walks: ten volatilities, three sources each.

    The strength of predicates is computed from the first tenth of the values, and costs are counted on the rest.

    >>> chain, watched = (composite_costs(2, scheme, subscriptions=50, ticks=400) for scheme in (CHAINING, WATCHED))
    >>> chain.fired == watched.fired, chain.messages > watched.messages
    (True, True)
    """
    values = walks(np.repeat(VOLATILITIES, 3), ticks, seed)
    training = max(2, math.ceil(len(values) / 10))
    subscribed = draw(change_rates(values[:training]), dimension, subscriptions, seed)
    return conjunction_costs(values[training:], subscribed, scheme)


VOLATILITIES = np.arange(1, 11).astype(np.float64)
"""volatilities of the ten groups of sources, in ticks"""
