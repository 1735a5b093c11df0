"""Any formula as alternatives: which predicates must be true together.

Of one quantity there is one value delivered last, so what is outside the larger of two radii is outside the smaller:
within an alternative the larger rules. An alternative that says more than another one is left out, since whenever it is
true the other is; what remains is the same for all formulas that mean the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from thinwire.errors import ExpressionTooLarge
from thinwire.filters.composite.condition_predicates import Predicate, Quantity, Radius
from thinwire.filters.composite.expression import And, Formula, Or, fold

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
