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

The smallest thing a watch can wait for: that one quantity has moved.

Any formula as alternatives: which predicates must be true together.

Of one quantity there is one value delivered last, so what is outside the larger of two radii is outside the smaller:
within an alternative the larger rules. An alternative that says more than another one is left out, since whenever it is
true the other is; what remains is the same for all formulas that mean the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from hashlib import blake2b
from math import prod
from typing import Any

from thinwire.errors import BadThreshold, ExpressionTooLarge
from thinwire.filters.composite.expression import And, Formula, Or, fold


@dataclass(frozen=True, slots=True)
class Quantity:
    """One property of one source of a topic."""

    topic: str
    source: tuple[Any, ...]
    property: str

    def __str__(self) -> str:
        return f"{self.topic}[{', '.join(map(str, self.source))}].{self.property}"


@dataclass(frozen=True, slots=True)
class Radius:
    """How far from the value delivered last is still near: so many ticks, and no less than this share of it.

    A share is rounded down to whole ticks, so that around zero every change is news.

    >>> Radius(5).around(1000), Radius(5, Fraction(1, 100)).around(-1099), Radius(0, Fraction(1, 100)).around(0)
    (5, 10, 0)
    """

    ticks: int
    share: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if self.ticks < 0 or self.share < 0:
            raise BadThreshold("a radius is zero or more", ticks=self.ticks, share=str(self.share))

    def around(self, value: int) -> int:
        """The radius in ticks around a value."""
        if not self.share:
            return self.ticks
        return max(self.ticks, abs(value) * self.share.numerator // self.share.denominator)

    def within(self, other: Radius) -> bool:
        """Is whatever is outside of the other outside of this one too, around any value?"""
        return self.ticks <= other.ticks and self.share <= other.share

    def widened(self, other: Radius) -> Radius:
        """Outside of it is outside of both."""
        return Radius(max(self.ticks, other.ticks), max(self.share, other.share))


@dataclass(frozen=True, slots=True)
class Predicate:
    """True while a quantity is outside its radius around the value delivered last."""

    quantity: Quantity
    radius: Radius


Terms = dict[Quantity, Radius]
"""an alternative: how far each of its quantities must have moved"""

MAX_CONJUNCTS = 1_024


def alternatives(formula: Formula[Predicate]) -> list[Terms]:
    """The alternatives of a formula; their number is known, and refused, before one is made."""
    count = _count(formula)
    if count > MAX_CONJUNCTS:
        raise ExpressionTooLarge("too many alternatives", alternatives=count, limit=MAX_CONJUNCTS)
    return fold(formula, _single, _together, _either)


def _count(formula: Formula[Predicate]) -> int:
    """How many alternatives there are at most: one for each way to choose."""
    if isinstance(formula, And):
        return prod(_count(part) for part in formula.parts)
    return sum(_count(part) for part in formula.parts) if isinstance(formula, Or) else 1


def _single(leaf: Predicate) -> list[Terms]:
    return [{leaf.quantity: leaf.radius}]


def _either(parts: Sequence[list[Terms]]) -> list[Terms]:
    return _shortest(terms for part in parts for terms in part)


def _together(parts: Sequence[list[Terms]]) -> list[Terms]:
    found: list[Terms] = [{}]
    for part in parts:
        found = _shortest(_joined(some, more) for some in found for more in part)
    return found


def _joined(some: Terms, more: Terms) -> Terms:
    joined = dict(some)
    for quantity, radius in more.items():
        joined[quantity] = joined[quantity].widened(radius) if quantity in joined else radius
    return joined


def _shortest(found: Iterable[Terms]) -> list[Terms]:
    """Without those that say more than another one; those with fewer terms are the ones that can rule others out."""
    kept: list[Terms] = []
    for terms in sorted(found, key=lambda terms: (len(terms), sum(r.ticks + r.share for r in terms.values()))):
        if not any(_implied(by=other, terms=terms) for other in kept):
            kept.append(terms)
    return kept


def _implied(by: Terms, terms: Terms) -> bool:
    """Is `by` true whenever `terms` is?"""
    return by.keys() <= terms.keys() and all(radius.within(terms[quantity]) for quantity, radius in by.items())


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
