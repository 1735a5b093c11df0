"""What a watch waits for, in ticks: quantities, how far each must move, and which must move together.

A condition is kept as its alternatives: *conjuncts* of predicates, each true when its quantity is outside the radius
around the value delivered last. They are canonical: expressions that mean the same are the same condition.

>>> from thinwire.filters.composite.expression import And
>>> a, b = Quantity("rooms", ("a",), "t"), Quantity("rooms", ("b",), "t")
>>> near = Condition.of(And((Predicate(a, Radius(1)), Predicate(b, Radius(2)))))
>>> near == Condition.of(And((Predicate(b, Radius(2)), Predicate(a, Radius(1)))))
True
>>> [[(near.quantities[at].source, radius.ticks) for at, radius in conjunct] for conjunct in near.conjuncts]
[[(('a',), 1), (('b',), 2)]]
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

from thinwire.filters.composite.condition_normal_form import Terms, alternatives
from thinwire.filters.composite.condition_predicates import Predicate, Quantity, Radius
from thinwire.filters.composite.expression import Formula

Conjunct = tuple[tuple[int, Radius], ...]
"""places of quantities and their radii, in order: true when every one is outside"""


@dataclass(frozen=True)
class Condition:
    """quantities: those that matter, in a fixed order; conjuncts: the alternatives, by places of quantities"""

    quantities: tuple[Quantity, ...]
    conjuncts: tuple[Conjunct, ...]

    @classmethod
    def of(cls, formula: Formula[Predicate]) -> Condition:
        """The condition that a formula says; refused where it has more alternatives than can be kept."""
        found = alternatives(formula)
        quantities = tuple(sorted({quantity for terms in found for quantity in terms}, key=_rank))
        places = {quantity: place for place, quantity in enumerate(quantities)}
        conjuncts = (_conjunct(terms, places) for terms in found)
        return cls(quantities, tuple(sorted(conjuncts, key=_order)))

    @cached_property
    def places(self) -> dict[Quantity, int]:
        """Where each quantity stands."""
        return {quantity: place for place, quantity in enumerate(self.quantities)}

    @cached_property
    def touching(self) -> tuple[tuple[int, ...], ...]:
        """The conjuncts that speak of each quantity."""
        found: list[list[int]] = [[] for _ in self.quantities]
        for at, conjunct in enumerate(self.conjuncts):
            for place, _ in conjunct:
                found[place].append(at)
        return tuple(map(tuple, found))

    @cached_property
    def fingerprint(self) -> str:
        """16 hexadecimal digits that name the condition in state and messages."""
        told = [tuple(map(str, (q.topic, *map(repr, q.source), q.property))) for q in self.quantities]
        ways = [_order(conjunct) for conjunct in self.conjuncts]
        return blake2b(repr((told, ways)).encode(), digest_size=8).hexdigest()


def _conjunct(terms: Terms, places: dict[Quantity, int]) -> Conjunct:
    return tuple(sorted(((places[quantity], radius) for quantity, radius in terms.items()), key=lambda pair: pair[0]))


def _rank(quantity: Quantity) -> tuple[str, ...]:
    """Dimension values of several types have no order of their own."""
    return (quantity.topic, quantity.property, *map(repr, quantity.source))


def _order(conjunct: Conjunct) -> tuple[tuple[int, int, int, int], ...]:
    return tuple((place, r.ticks, r.share.numerator, r.share.denominator) for place, r in conjunct)
