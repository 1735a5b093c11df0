"""Conditions of watches in ticks: quantities, how far each must move, and which must move together.

A condition is a disjunction of *conjuncts*. A conjunct is true when each of its quantities is outside its radius around
the value delivered last. The form is canonical: expressions with the same meaning have equal conditions. Within a
conjunct the larger of two radii of a quantity applies, and a conjunct implied by another one is dropped.

>>> from thinwire.filters.composite.expression import And
>>> a, b = Quantity("rooms", ("a",), "t"), Quantity("rooms", ("b",), "t")
>>> near = Condition.of(And((Predicate(a, Radius(1)), Predicate(b, Radius(2)))))
>>> near == Condition.of(And((Predicate(b, Radius(2)), Predicate(a, Radius(1)))))
True
>>> [[(near.quantities[index].source, radius.ticks) for index, radius in conjunct] for conjunct in near.conjuncts]
[[(('a',), 1), (('b',), 2)]]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from hashlib import blake2b
from math import prod
from typing import Any

from thinwire.errors import ExpressionError, ExpressionTooLarge
from thinwire.filters.composite.expression import And, Formula, Or, fold

MAX_CONJUNCTS = 1_024


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
    """Distance from the value delivered last that is not reported: a number of ticks, at least a share of the value.

    A share is rounded down to whole ticks, so that around zero every change is reported.

    >>> Radius(5).around(1000), Radius(5, Fraction(1, 100)).around(-1099), Radius(0, Fraction(1, 100)).around(0)
    (5, 10, 0)
    """

    ticks: int
    share: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if self.ticks < 0 or self.share < 0:
            raise ExpressionError("a radius must be zero or more", ticks=self.ticks, share=str(self.share))

    def around(self, value: int) -> int:
        """Return the radius in ticks around a value."""
        if not self.share:
            return self.ticks
        return max(self.ticks, abs(value) * self.share.numerator // self.share.denominator)

    def is_within(self, other: Radius) -> bool:
        """Return whether this radius is at most `other` around every value."""
        return self.ticks <= other.ticks and self.share <= other.share

    def widened(self, other: Radius) -> Radius:
        """Return the larger of both radii around every value."""
        return Radius(max(self.ticks, other.ticks), max(self.share, other.share))


@dataclass(frozen=True, slots=True)
class Predicate:
    """True while a quantity is outside its radius around the value delivered last."""

    quantity: Quantity
    radius: Radius


Conjunct = tuple[tuple[int, Radius], ...]
"""indexes of quantities and their radii, ascending"""


@dataclass(frozen=True)
class Condition:
    """The canonical form of a watch expression.

    quantities: those of the conjuncts, in a fixed order
    conjuncts: the alternatives, by indexes of quantities
    """

    quantities: tuple[Quantity, ...]
    conjuncts: tuple[Conjunct, ...]

    @classmethod
    def of(cls, formula: Formula[Predicate]) -> Condition:
        """Return the condition of a formula; raise `ExpressionTooLarge` if it has too many alternatives."""
        found = alternatives(formula)
        quantities = tuple(sorted({quantity for radii in found for quantity in radii}, key=_quantity_key))
        indexes = {quantity: index for index, quantity in enumerate(quantities)}
        conjuncts = (_conjunct(radii, indexes) for radii in found)
        return cls(quantities, tuple(sorted(conjuncts, key=_conjunct_key)))

    @cached_property
    def indexes(self) -> dict[Quantity, int]:
        """The index of each quantity."""
        return {quantity: index for index, quantity in enumerate(self.quantities)}

    @cached_property
    def conjuncts_of(self) -> tuple[tuple[int, ...], ...]:
        """For each quantity, the indexes of the conjuncts that contain it."""
        found: list[list[int]] = [[] for _ in self.quantities]
        for number, conjunct in enumerate(self.conjuncts):
            for index, _ in conjunct:
                found[index].append(number)
        return tuple(map(tuple, found))

    @cached_property
    def fingerprint(self) -> str:
        """16 hexadecimal digits that identify the condition in state and messages."""
        names = [tuple(map(str, (q.topic, *map(repr, q.source), q.property))) for q in self.quantities]
        keys = [_conjunct_key(conjunct) for conjunct in self.conjuncts]
        return blake2b(repr((names, keys)).encode(), digest_size=8).hexdigest()


Radii = dict[Quantity, Radius]
"""an alternative: how far each of its quantities must have moved"""


def alternatives(formula: Formula[Predicate]) -> list[Radii]:
    """Return the alternatives of a formula. Their number is checked before any is built."""
    count = _count_alternatives(formula)
    if count > MAX_CONJUNCTS:
        raise ExpressionTooLarge("too many alternatives", alternatives=count, limit=MAX_CONJUNCTS)
    return fold(formula, _alternative, _conjunction, _disjunction)


def _count_alternatives(formula: Formula[Predicate]) -> int:
    """An upper bound: alternatives implied by others are counted."""
    if isinstance(formula, And):
        return prod(_count_alternatives(part) for part in formula.parts)
    return sum(_count_alternatives(part) for part in formula.parts) if isinstance(formula, Or) else 1


def _alternative(predicate: Predicate) -> list[Radii]:
    return [{predicate.quantity: predicate.radius}]


def _disjunction(parts: Sequence[list[Radii]]) -> list[Radii]:
    return _without_implied(radii for part in parts for radii in part)


def _conjunction(parts: Sequence[list[Radii]]) -> list[Radii]:
    found: list[Radii] = [{}]
    for part in parts:
        found = _without_implied(_merge_radii(some, more) for some in found for more in part)
    return found


def _merge_radii(some: Radii, more: Radii) -> Radii:
    merged = dict(some)
    for quantity, radius in more.items():
        merged[quantity] = merged[quantity].widened(radius) if quantity in merged else radius
    return merged


def _without_implied(found: Iterable[Radii]) -> list[Radii]:
    """Drop alternatives that imply another one; an alternative can only imply one with as few or fewer quantities."""
    kept: list[Radii] = []
    for radii in sorted(found, key=lambda radii: (len(radii), sum(r.ticks + r.share for r in radii.values()))):
        if not any(_implies(radii, other) for other in kept):
            kept.append(radii)
    return kept


def _implies(radii: Radii, other: Radii) -> bool:
    return other.keys() <= radii.keys() and all(radius.is_within(radii[q]) for q, radius in other.items())


def _conjunct(radii: Radii, indexes: dict[Quantity, int]) -> Conjunct:
    return tuple(sorted(((indexes[quantity], radius) for quantity, radius in radii.items()), key=lambda pair: pair[0]))


def _quantity_key(quantity: Quantity) -> tuple[str, ...]:
    """Values of dimensions may have different types, which have no common order; their `repr` has."""
    return (quantity.topic, quantity.property, *map(repr, quantity.source))


def _conjunct_key(conjunct: Conjunct) -> tuple[tuple[int, int, int, int], ...]:
    return tuple((index, r.ticks, r.share.numerator, r.share.denominator) for index, r in conjunct)
