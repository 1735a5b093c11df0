"""Message costs of evaluating conjunctions on nodes that each have one quantity.

Each conjunct is stored at the node of one of its quantities, its *owner*. If the owner's value is outside its radius,
the
other values must be requested: a request and a reply, two messages.

- chaining: one by one, strongest first, until a predicate is inside
- fanning: all at once
- hybrid: predicates with a strength above theta one by one, then the rest at once
- watched: one by one; the first predicate inside becomes the owner, which costs one more message. A static owner
  outside its radius sends requests at every event while another predicate is inside; a watched one does not.
- carried: no requests. The conjunct is forwarded to the next predicate with its reference values and the values found
  so far, and stays with the first that is inside; if there is none, the last one delivers. One message per step

A request returns the value of the same tick (a versioned read). All schemes are then exact if every quantity has a
value at every tick. With single events only the watched scheme is exact: a static owner does not detect changes of
other quantities.

`Dissemination` runs any conditions; `conjunction_costs` counts many conjunctions with a kernel. There, `hops` is the
number of messages of a request between the nodes of two sources; replies and later messages are direct.

The strength of a predicate is the time for which it is expected to suppress deliveries: threshold / rate of change.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from thinwire.errors import ConfigError
from thinwire.filters.composite.condition import Condition, Conjunct, Quantity, Radius
from thinwire.filters.composite.feed_sequencer import Delivery, Order
from thinwire.filters.composite.watch_evaluator import WatchEvaluator
from thinwire_lab.overlay_sim.filters.filter_kernels import CARRIED_CODE, FIELDS, STATIC, WATCHED_CODE, evaluate


@dataclass(frozen=True)
class Scheme:
    """A scheme of evaluation.

    theta: strength above which a predicate is requested individually
    moves: whether ownership moves to a predicate that is inside
    carries: whether the conjunct is forwarded instead of requests
    """

    name: str
    theta: float = 0.0
    moves: bool = False
    carries: bool = False


CHAINING = Scheme("chaining")
FANNING = Scheme("fanning", theta=math.inf)
HYBRID = Scheme("hybrid", theta=1.0)
WATCHED = Scheme("watched", moves=True)
CARRIED = Scheme("carried", moves=True, carries=True)
SCHEMES = {scheme.name: scheme for scheme in (CHAINING, FANNING, HYBRID, WATCHED, CARRIED)}


@dataclass
class ConjunctionTraffic:
    """Message counts.

    requests: to other nodes, each with a reply; merged: those that remain if a node requests a value once per tick
    moves: of a conjunct to another owner; passes: from one predicate to the next
    updates: to other owners of the same subscription, with the new reference values
    duplicates: suppressed values that two conjuncts would have delivered to one subscriber in one tick
    """

    requests: int = 0
    merged: int = 0
    moves: int = 0
    passes: int = 0
    updates: int = 0
    duplicates: int = 0

    @property
    def messages(self) -> int:
        """All messages, without merging requests of different subscriptions."""
        return 2 * self.requests + self.moves + self.passes + self.updates


@dataclass
class _Stored:
    """A conjunct at its owner. order: its predicates, strongest first; chained: number of them requested one by one"""

    order: Conjunct
    chained: int
    owner: int = 0


@dataclass
class Dissemination:
    """Evaluates subscriptions under one scheme. The reference values of all are those of `start`.

    rates: mean change of each quantity per tick, which ranks predicates by strength
    """

    conditions: Sequence[Condition]
    scheme: Scheme
    start: Mapping[Quantity, int]
    rates: Mapping[Quantity, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.traffic = ConjunctionTraffic()
        self._watches = [WatchEvaluator(condition, self.start) for condition in self.conditions]
        self._stored = [[self._store(watch, at) for at in watch.condition.conjuncts] for watch in self._watches]
        self._requested: set[tuple[Quantity, Quantity]] = set()

    def tick(self, values: Mapping[Quantity, int], order: Order) -> list[Delivery | None]:
        """Return the delivery of each subscription for these values."""
        self._requested.clear()
        return [self._evaluate(n, values, order) for n in range(len(self._watches))]

    def _evaluate(self, n: int, values: Mapping[Quantity, int], order: Order) -> Delivery | None:
        watch, stored = self._watches[n], self._stored[n]
        watch.set_latest(values)
        quantities = watch.condition.quantities
        true = [at for at, one in enumerate(stored) if quantities[one.order[one.owner][0]] in values]
        true = [at for at in true if self._is_true(watch, stored[at])]
        if not true:
            return None
        self._count_shared(watch, stored, true)
        return watch.deliver_conjuncts(true, order)

    def _is_true(self, watch: WatchEvaluator, stored: _Stored) -> bool:
        if not watch.is_outside(*stored.order[stored.owner]):
            return False
        others = [at for at in range(len(stored.order)) if at != stored.owner]
        for round_ in self._rounds(others, stored.chained):
            self._request(watch, stored, round_)
            inside = [at for at in round_ if not watch.is_outside(*stored.order[at])]
            if inside:
                self._move(stored, inside[0])
                return False
        if self.scheme.carries and others:
            stored.owner = others[-1]
        return True

    def _rounds(self, others: list[int], chained: int) -> Iterable[list[int]]:
        """Group predicates by request: some one by one, the rest at once."""
        yield from ([at] for at in others[:chained])
        if others[chained:]:
            yield others[chained:]

    def _request(self, watch: WatchEvaluator, stored: _Stored, round_: Iterable[int]) -> None:
        if self.scheme.carries:
            self.traffic.passes += 1
            return
        quantities = watch.condition.quantities
        owner = quantities[stored.order[stored.owner][0]]
        for at in round_:
            pair = owner, quantities[stored.order[at][0]]
            self.traffic.requests += 1
            self.traffic.merged += pair not in self._requested
            self._requested.add(pair)

    def _move(self, stored: _Stored, to: int) -> None:
        if self.scheme.moves:
            stored.owner = to
            self.traffic.moves += not self.scheme.carries

    def _count_shared(self, watch: WatchEvaluator, stored: Sequence[_Stored], true: Sequence[int]) -> None:
        """Count updates and duplicates: a subscription has one reference value per quantity, for all its conjuncts."""
        delivered = [place for at in true for place, _ in watch.condition.conjuncts[at]]
        self.traffic.duplicates += len(delivered) - len(set(delivered))
        concerned = {at for place in set(delivered) for at in watch.condition.conjuncts_of[place]}
        self.traffic.updates += len({stored[at].order[stored[at].owner][0] for at in concerned}) - 1

    def _store(self, watch: WatchEvaluator, conjunct: Conjunct) -> _Stored:
        ranked = sorted(conjunct, key=lambda pair: -self._strength(watch, *pair))
        strong = (self._strength(watch, *pair) > self.scheme.theta for pair in ranked[1:])
        chained = len(ranked) if self.scheme.moves else sum(strong)
        return _Stored(tuple(ranked), chained)

    def _strength(self, watch: WatchEvaluator, place: int, radius: Radius) -> float:
        rate = self.rates.get(watch.condition.quantities[place], 1.0)
        return radius.around(self.start.get(watch.condition.quantities[place], 0)) / rate if rate else math.inf


MEMORY = 64
"""number of changes over which a rate is averaged"""


class ChangeRate:
    """Running mean of the absolute change between values; recent changes count more.

    >>> rate = ChangeRate()
    >>> for value in (10, 13, 10, 13): rate.observe(value)
    >>> rate.rate, rate.strength(6)
    (3.0, 2.0)
    """

    __slots__ = ("_last", "_seen", "memory", "rate")

    def __init__(self, memory: int = MEMORY) -> None:
        self.memory = memory
        self.rate = 0.0
        self._seen = 0
        self._last: int | None = None

    def observe(self, value: int) -> None:
        """Add a value: a plain mean until the memory is full, then an exponentially weighted one."""
        if self._last is not None:
            self._seen = min(self._seen + 1, self.memory)
            self.rate += (abs(value - self._last) - self.rate) / self._seen
        self._last = value

    def strength(self, threshold: int) -> float:
        """Return rho = c / Delta; infinite for a source that does not change."""
        return threshold / self.rate if self.rate else math.inf


def change_rates(values: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return the mean absolute change of each column, never zero."""
    moved = np.abs(np.diff(values, axis=0)).mean(axis=0) if len(values) > 1 else np.zeros(values.shape[1])
    return np.maximum(moved, np.finfo(np.float64).tiny)


Ticks = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Conjunctions:
    """Subscriptions of one dimension. Each row has sources and thresholds, strongest first; column 0 is the owner.

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
    """Costs of a scheme.

    fired: deliveries; requests, merged, moves, passes: as in `ConjunctionTraffic`
    route, merged_route: messages of requests and passes, without replies
    waited: hops from the owner's value to the decision, summed over deliveries; rounds: rounds of requests, likewise
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
        """All requests, replies and moves, without merging requests of different subscriptions."""
        return self.route + self.requests + self.moves

    @property
    def merged_messages(self) -> int:
        """The same if a node requests each value at most once per tick; moves are not merged."""
        return self.merged_route + self.merged + self.moves

    @property
    def per_subscription(self) -> float:
        """Messages per subscription and tick."""
        return self.messages / max(1, self.subscriptions * self.ticks)

    @property
    def latency(self) -> float:
        """Mean hops from a value to its delivery decision."""
        return self.waited / self.fired if self.fired else 0.0


def draw(rates: npt.NDArray[np.float64], dimension: int, count: int, seed: int, most: int = 63) -> Conjunctions:
    """Draw conjunctions over distinct sources with thresholds from 1 to `most`, both uniformly."""
    if not 1 <= dimension <= len(rates):
        raise ConfigError("a conjunction has 1 to as many sources as there are", dimension=dimension, most=len(rates))
    dice = np.random.default_rng([seed, dimension])
    sources = dice.random((count, len(rates))).argsort(axis=1)[:, :dimension].astype(np.int64)
    thresholds = dice.integers(1, most + 1, size=(count, dimension), dtype=np.int64)
    return ranked(sources, thresholds, rates)


def ranked(sources: Ticks, thresholds: Ticks, rates: npt.NDArray[np.float64]) -> Conjunctions:
    """Return conjunctions with the strongest predicates first."""
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
    """Return the costs of a scheme on values with one row per tick and one column per source.

    The first row contains the reference values of all subscriptions.

    hops: between sources, 1 by default; nodes: number of nodes over which the subscriptions of a source are distributed
    """
    count = values.shape[1]
    routes = np.ones((count, count), dtype=np.int64) if hops is None else np.ascontiguousarray(hops, dtype=np.int64)
    if routes.shape != (count, count):
        raise ConfigError("hops has a row and a column for each source", shape=routes.shape, sources=count)
    strong = (subscribed.strengths[:, 1:] > scheme.theta).sum(axis=1).astype(np.int64)
    chained = np.full(len(subscribed), subscribed.dimension, dtype=np.int64) if scheme.moves else strong
    held = values[0][subscribed.sources]
    found = np.zeros(len(FIELDS), dtype=np.int64)
    steps = np.ascontiguousarray(values, dtype=np.int64)
    mode = CARRIED_CODE if scheme.carries else WATCHED_CODE if scheme.moves else STATIC
    evaluate(steps, subscribed.sources, subscribed.thresholds, held, chained, mode, routes, max(1, nodes), found)
    counts = {name: int(number) for name, number in zip(FIELDS, found, strict=True)}
    return ConjunctionCosts(scheme.name, len(subscribed), len(values) - 1, **counts)


def walks(volatilities: npt.NDArray[np.float64], ticks: int, seed: int) -> Ticks:
    """Return random walks in ticks, one for each volatility (the standard deviation of a step)."""
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
    """Return one point of figures 5.8 to 5.11: conjunctions of one dimension under one scheme.

    The strength of predicates is computed from the first tenth of the values, and costs are counted on the rest.

    values: ticks with one column per source; by default walks of ten volatilities, three sources each

    >>> from thinwire_lab.overlay_sim.filters.conjunction_costs import CHAINING, WATCHED
    >>> chain, watched = (composite_costs(2, scheme, subscriptions=50, ticks=400) for scheme in (CHAINING, WATCHED))
    >>> chain.fired == watched.fired, chain.messages > watched.messages
    (True, True)
    """
    stream = walks(np.repeat(VOLATILITIES, 3), ticks, seed) if values is None else values
    before = max(2, math.ceil(len(stream) / 10))
    rates = change_rates(stream[:before])
    subscribed = draw(rates, dimension, subscriptions, seed)
    return conjunction_costs(stream[before:], subscribed, scheme, hops, nodes)


VOLATILITIES = np.arange(1, 11).astype(np.float64)
"""volatilities of the ten groups of sources, in ticks"""
