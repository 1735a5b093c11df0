"""Many watches over the same quantities: an event evaluates only the watches that it affects.

A predicate is true if the value differs from the reference value by more than the radius. A conjunct is false while one
of its predicates is inside its radius. Each conjunct is therefore registered with one such predicate, the *watched*
one. When a value leaves its interval, another predicate that is inside becomes the watched one; if there is none, the
conjunct is true.

`Regions` are the intervals of one quantity in two heaps, of lower and of upper ends. A value that leaves no interval
costs two comparisons. Each interval is around the reference value of its own subscriber, so an index of distinct
thresholds cannot be used.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import count
from operator import index

from thinwire.errors import ConfigError
from thinwire.filters.composite.condition import Condition, Quantity, Radius
from thinwire.filters.composite.feed_sequencer import Delivery, Order
from thinwire.filters.composite.watch_evaluator import WatchEvaluator
from thinwire_lab.overlay_sim.filters.conjunction_costs import ChangeRate

Interval = tuple[int, int]
"""both ends included"""

_SLACK = 64


class Regions:
    """Intervals by key. Intervals that a value leaves are returned in the order of their keys.

    >>> regions = Regions()
    >>> regions.put(7, (1, 9)); regions.put(3, (0, 100)); regions.put(5, (4, 6))
    >>> regions.leave(5), regions.leave(10), regions.leave(-1), len(regions)
    ([], [5, 7], [3], 0)
    """

    __slots__ = ("_highs", "_intervals", "_lows")

    def __init__(self) -> None:
        self._intervals: dict[int, Interval] = {}
        self._lows: list[tuple[int, int]] = []
        self._highs: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self._intervals)

    def put(self, key: int, interval: Interval) -> None:
        """Add an interval, or replace the one with this key."""
        self._intervals[key] = interval
        heappush(self._lows, (-interval[0], key))
        heappush(self._highs, (interval[1], key))
        if len(self._lows) + len(self._highs) > 4 * len(self._intervals) + _SLACK:
            self._tidy()

    def remove(self, key: int) -> None:
        """Remove an interval; its ends stay in the heaps until they reach the top."""
        del self._intervals[key]

    def leave(self, value: int) -> list[int]:
        """Remove the intervals that do not contain a value, and return their keys."""
        passed: list[int] = []
        while self._lows and -self._lows[0][0] > value:
            passed.append(heappop(self._lows)[1])
        while self._highs and self._highs[0][0] < value:
            passed.append(heappop(self._highs)[1])
        return sorted(key for key in set(passed) if self._left(key, value)) if passed else passed

    def _left(self, key: int, value: int) -> bool:
        """Remove an interval if the value is outside. The end may belong to a removed or replaced interval."""
        interval = self._intervals.get(key)
        if interval is None or interval[0] <= value <= interval[1]:
            return False
        del self._intervals[key]
        return True

    def _tidy(self) -> None:
        """Rebuild the heaps when most ends belong to removed intervals."""
        self._lows = [(-low, key) for key, (low, _) in self._intervals.items()]
        self._highs = [(high, key) for key, (_, high) in self._intervals.items()]
        heapify(self._lows)
        heapify(self._highs)


_EMPTY = (1 << 63, -(1 << 63))
"""interval without values, used before there is a reference value"""


@dataclass(slots=True)
class _Registered:
    """A watch of the table. keys: of its conjuncts, in order; watched: the watched predicate of each"""

    name: Hashable
    watch: WatchEvaluator
    slots: tuple[int, ...]
    keys: range
    watched: list[int] = field(default_factory=list)


class WatchTable:
    """Watches by name over one stream of events.

    >>> from thinwire.filters.composite.condition import Predicate
    >>> from thinwire.filters.composite.expression import And
    >>> a, b = Quantity("a", (), "x"), Quantity("b", (), "x")
    >>> table = WatchTable()
    >>> for c in (1, 5): table.add(c, Condition.of(And((Predicate(a, Radius(c)), Predicate(b, Radius(c))))))
    >>> [name for name, delivery in table.offer({a: 0, b: 0}, Order(1))]
    [1, 5]
    >>> [name for name, delivery in table.offer({a: 3, b: 3}, Order(2))]
    [1]
    """

    def __init__(self) -> None:
        self.evaluated = 0
        self._latest: list[int | None] = []
        self._regions: list[Regions] = []
        self._rates: list[ChangeRate] = []
        self._slots: dict[Quantity, int] = {}
        self._watches: dict[Hashable, _Registered] = {}
        self._by_key: dict[int, _Registered] = {}
        self._next_key = count()

    def __len__(self) -> int:
        return len(self._watches)

    def add(self, name: Hashable, condition: Condition, order: Order = Order(0)) -> Delivery | None:  # noqa: B008
        """Register a watch. Return a delivery if the latest values already satisfy the condition."""
        if name in self._watches:
            raise ConfigError("a watch with this name exists; remove it first, or choose another name", name=name)
        slots = tuple(self._slot(quantity) for quantity in condition.quantities)
        keys = [next(self._next_key) for _ in condition.conjuncts]
        found = _Registered(name, WatchEvaluator(condition), slots, range(keys[0], keys[-1] + 1), [-1] * len(keys))
        found.watch.share(self._latest, slots)
        self._watches[name] = found
        self._by_key.update(dict.fromkeys(found.keys, found))
        return self._watch_conjuncts(found, range(len(keys)), order)

    def remove(self, name: Hashable) -> None:
        """Remove a watch."""
        found = self._watches.pop(name)
        for at, key in enumerate(found.keys):
            del self._by_key[key]
            self._regions[found.slots[found.watched[at]]].remove(key)

    def held(self, name: Hashable) -> dict[Quantity, int]:
        """Return the reference values of a watch."""
        return self._watches[name].watch.held

    def offer(self, values: Mapping[Quantity, int], order: Order) -> list[tuple[Hashable, Delivery]]:
        """Process one or all events of one time. Return the deliveries in the order in which watches were added."""
        left: dict[int, list[int]] = {}
        for key in self._left(values):
            found = self._by_key[key]
            left.setdefault(found.keys[0], []).append(key - found.keys[0])
        deliveries = []
        for first in sorted(left):
            found = self._by_key[first]
            delivery = self._watch_conjuncts(found, left[first], order)
            if delivery is not None:
                deliveries.append((found.name, delivery))
        return deliveries

    def _left(self, values: Mapping[Quantity, int]) -> list[int]:
        """Return the conjuncts whose watched predicate is outside its radius."""
        left: list[int] = []
        for quantity, value in values.items():
            slot = self._slots.get(quantity)
            if slot is not None:
                self._latest[slot] = index(value)
                self._rates[slot].observe(value)
                left += self._regions[slot].leave(value)
        self.evaluated += len(left)
        return left

    def _watch_conjuncts(self, found: _Registered, left: Iterable[int], order: Order) -> Delivery | None:
        """Select a watched predicate for each of these conjuncts; those without one are true."""
        inside = {at: self._strongest(found, at) for at in left}
        true = [at for at, place in inside.items() if place is None]
        for at, place in inside.items():
            if place is not None:
                found.watched[at] = place
            elif found.watched[at] < 0:
                found.watched[at] = found.watch.condition.conjuncts[at][0][0]
        delivery = found.watch.deliver_conjuncts(true, order) if true else None
        for at in sorted({*inside, *self._recentred(found, true)}):
            self._register(found, at)
        return delivery

    def _strongest(self, found: _Registered, at: int) -> int | None:
        """Return the predicate inside its radius that is expected to stay there longest."""
        watch = found.watch
        inside = [
            (place, radius) for place, radius in watch.condition.conjuncts[at] if not watch.is_outside(place, radius)
        ]
        if not inside:
            return None
        return max(inside, key=lambda pair: self._strength(found, *pair))[0]

    def _strength(self, found: _Registered, place: int, radius: Radius) -> float:
        interval = found.watch.interval(place, radius)
        width = 0 if interval is None else interval[1] - interval[0]
        return self._rates[found.slots[place]].strength(width)

    def _recentred(self, found: _Registered, true: Sequence[int]) -> set[int]:
        """Return the conjuncts that watch a quantity with a new reference value."""
        condition = found.watch.condition
        places = {place for at in true for place, _ in condition.conjuncts[at]}
        return {at for place in places for at in condition.conjuncts_of[place] if found.watched[at] == place}

    def _register(self, found: _Registered, at: int) -> None:
        place = found.watched[at]
        radius = dict(found.watch.condition.conjuncts[at])[place]
        interval = found.watch.interval(place, radius) or _EMPTY
        self._regions[found.slots[place]].put(found.keys[at], interval)

    def _slot(self, quantity: Quantity) -> int:
        if quantity not in self._slots:
            self._slots[quantity] = len(self._latest)
            self._latest.append(None)
            self._regions.append(Regions())
            self._rates.append(ChangeRate())
        return self._slots[quantity]
