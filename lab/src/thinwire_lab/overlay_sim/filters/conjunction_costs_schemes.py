"""How nodes that each know one quantity find out together whether a condition is true, and what they tell each other.

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
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from thinwire.filters.composite.condition import Condition, Conjunct
from thinwire.filters.composite.condition_predicates import Quantity, Radius
from thinwire.filters.composite.feed_sequencer_order import Delivery, Order
from thinwire.filters.composite.watch_evaluator_watch import Watch


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
class Traffic:
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
        self.traffic = Traffic()
        self._watches = [Watch(condition, self.start) for condition in self.conditions]
        self._stored = [[self._store(watch, at) for at in watch.condition.conjuncts] for watch in self._watches]
        self._asked: set[tuple[Quantity, Quantity]] = set()

    def tick(self, values: Mapping[Quantity, int], order: Order) -> list[Delivery | None]:
        """What each subscription is told behind these values."""
        self._asked.clear()
        return [self._evaluate(n, values, order) for n in range(len(self._watches))]

    def _evaluate(self, n: int, values: Mapping[Quantity, int], order: Order) -> Delivery | None:
        watch, stored = self._watches[n], self._stored[n]
        watch.note(values)
        quantities = watch.condition.quantities
        true = [at for at, one in enumerate(stored) if quantities[one.order[one.owner][0]] in values]
        true = [at for at in true if self._is_true(watch, stored[at])]
        if not true:
            return None
        self._count_shared(watch, stored, true)
        return watch.tell(true, order)

    def _is_true(self, watch: Watch, stored: _Stored) -> bool:
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

    def _ask(self, watch: Watch, stored: _Stored, round_: Iterable[int]) -> None:
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

    def _count_shared(self, watch: Watch, stored: Sequence[_Stored], true: Sequence[int]) -> None:
        """One subscription holds one value of a quantity, wherever its conjuncts are."""
        spoken = [place for at in true for place, _ in watch.condition.conjuncts[at]]
        self.traffic.duplicates += len(spoken) - len(set(spoken))
        concerned = {at for place in set(spoken) for at in watch.condition.touching[place]}
        self.traffic.told += len({stored[at].order[stored[at].owner][0] for at in concerned}) - 1

    def _store(self, watch: Watch, conjunct: Conjunct) -> _Stored:
        ranked = sorted(conjunct, key=lambda pair: -self._strength(watch, *pair))
        singly = (self._strength(watch, *pair) > self.scheme.theta for pair in ranked[1:])
        chained = len(ranked) if self.scheme.moves else sum(singly)
        return _Stored(tuple(ranked), chained)

    def _strength(self, watch: Watch, place: int, radius: Radius) -> float:
        rate = self.rates.get(watch.condition.quantities[place], 1.0)
        return radius.around(self.start.get(watch.condition.quantities[place], 0)) / rate if rate else math.inf
