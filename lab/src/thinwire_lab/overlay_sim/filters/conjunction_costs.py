"""Many conjunctions under one scheme, for the figures: the same rules as in `schemes`, counted by a kernel.

Only conjunctions: any condition is alternatives of them. Every source is told at every tick. A route may
be long: `hops` says how many messages a request needs from the node of one source to that of another; the reply and
what follows go straight back.

How nodes that each know one quantity find out together whether a condition is true, and what they tell each other.

Each conjunct is stored with the node of one of its quantities, its *owner*. When the owner's value is outside, the
others must be asked: a REQUEST and its reply, two messages.

- chaining: one after the other, strongest first, until one is inside
- fanning: all at once
- hybrid: those with a strength above theta one after the other, then the rest at once
- watched: one after the other; the first that is inside becomes the owner, which costs one message more. A static owner
  outside its radius asks again at every event while another predicate is inside; a watched one does not.
- carried: nobody is asked. The conjunct itself goes on to the next predicate, with what is held and the values found so
  far, and stays with the first that is inside; where none is, the last one delivers. One message a step

A request is answered with the value of the same tick (a versioned read). All are then exact where every quantity is
told at every tick. With events one by one only the watched scheme is: a static owner does not notice what others do.

Filtering strength: how long a predicate is expected to hold back, by its threshold and how its source moves.
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
    """theta: strength above which a predicate is asked on its own
    moves: is the owner always one that is inside? carries: does the conjunct find it by going on?
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
    """What was said.

    requests: to other nodes, each with its reply; merged: those left where a node asks another one once a tick
    moves: of a conjunct to another owner; passes: from one predicate to the next
    told: to other owners of the same subscription, what is held now
    duplicates: values that two conjuncts would have delivered to one subscriber in one tick, suppressed
    """

    requests: int = 0
    merged: int = 0
    moves: int = 0
    passes: int = 0
    told: int = 0
    duplicates: int = 0

    @property
    def messages(self) -> int:
        """Each request for itself, as a subscription alone costs."""
        return 2 * self.requests + self.moves + self.passes + self.told


@dataclass
class _Stored:
    """A conjunct at its owner. order: its predicates, strongest first; chained: how many of them are asked singly"""

    order: Conjunct
    chained: int
    owner: int = 0


@dataclass
class Dissemination:
    """Subscriptions under one scheme, tick by tick, all starting with the values of `start` held.

    rates: how far each quantity moves in a tick, which ranks predicates by strength
    """

    conditions: Sequence[Condition]
    scheme: Scheme
    start: Mapping[Quantity, int]
    rates: Mapping[Quantity, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.traffic = ConjunctionTraffic()
        self._watches = [WatchEvaluator(condition, self.start) for condition in self.conditions]
        self._stored = [[self._store(watch, at) for at in watch.condition.conjuncts] for watch in self._watches]
        self._asked: set[tuple[Quantity, Quantity]] = set()

    def tick(self, values: Mapping[Quantity, int], order: Order) -> list[Delivery | None]:
        """What each subscription is told behind these values."""
        self._asked.clear()
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
            self._ask(watch, stored, round_)
            inside = [at for at in round_ if not watch.is_outside(*stored.order[at])]
            if inside:
                self._move(stored, inside[0])
                return False
        if self.scheme.carries and others:
            stored.owner = others[-1]
        return True

    def _rounds(self, others: list[int], chained: int) -> Iterable[list[int]]:
        """Who is asked together: some singly, the rest at once."""
        yield from ([at] for at in others[:chained])
        if others[chained:]:
            yield others[chained:]

    def _ask(self, watch: WatchEvaluator, stored: _Stored, round_: Iterable[int]) -> None:
        if self.scheme.carries:
            self.traffic.passes += 1
            return
        quantities = watch.condition.quantities
        owner = quantities[stored.order[stored.owner][0]]
        for at in round_:
            pair = owner, quantities[stored.order[at][0]]
            self.traffic.requests += 1
            self.traffic.merged += pair not in self._asked
            self._asked.add(pair)

    def _move(self, stored: _Stored, to: int) -> None:
        if self.scheme.moves:
            stored.owner = to
            self.traffic.moves += not self.scheme.carries

    def _count_shared(self, watch: WatchEvaluator, stored: Sequence[_Stored], true: Sequence[int]) -> None:
        """One subscription holds one value of a quantity, wherever its conjuncts are."""
        spoken = [place for at in true for place, _ in watch.condition.conjuncts[at]]
        self.traffic.duplicates += len(spoken) - len(set(spoken))
        concerned = {at for place in set(spoken) for at in watch.condition.conjuncts_of[place]}
        self.traffic.told += len({stored[at].order[stored[at].owner][0] for at in concerned}) - 1

    def _store(self, watch: WatchEvaluator, conjunct: Conjunct) -> _Stored:
        ranked = sorted(conjunct, key=lambda pair: -self._strength(watch, *pair))
        singly = (self._strength(watch, *pair) > self.scheme.theta for pair in ranked[1:])
        chained = len(ranked) if self.scheme.moves else sum(singly)
        return _Stored(tuple(ranked), chained)

    def _strength(self, watch: WatchEvaluator, place: int, radius: Radius) -> float:
        rate = self.rates.get(watch.condition.quantities[place], 1.0)
        return radius.around(self.start.get(watch.condition.quantities[place], 0)) / rate if rate else math.inf


MEMORY = 64
"""changes over which a rate is averaged"""


class ChangeRate:
    """The mean absolute change from one value to the next, estimated while values pass; recent ones count more.

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
        """A plain mean until the memory is full, then an exponentially weighted one."""
        if self._last is not None:
            self._seen = min(self._seen + 1, self.memory)
            self.rate += (abs(value - self._last) - self.rate) / self._seen
        self._last = value

    def strength(self, threshold: int) -> float:
        """rho = c / Delta; without end for a source that does not move."""
        return threshold / self.rate if self.rate else math.inf


def change_rates(values: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """The mean absolute change of each column; for ranking, never zero."""
    moved = np.abs(np.diff(values, axis=0)).mean(axis=0) if len(values) > 1 else np.zeros(values.shape[1])
    return np.maximum(moved, np.finfo(np.float64).tiny)


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

    fired: deliveries; requests, merged, moves, passes: as in `ConjunctionTraffic`
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
    way = CARRIED_CODE if scheme.carries else WATCHED_CODE if scheme.moves else STATIC
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

    >>> from thinwire_lab.overlay_sim.filters.conjunction_costs import CHAINING, WATCHED
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
