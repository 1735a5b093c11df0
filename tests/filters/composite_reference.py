"""The semantics of composite subscriptions by brute force: nothing is remembered that could be counted anew.

A formula is nested tuples: ("and", ...), ("or", ...), or a leaf (quantity, threshold). Quantities are small numbers.
"""

from itertools import product

from hypothesis import strategies as st

from thinwire.filters.composite.condition import Condition, Predicate, Quantity, Radius
from thinwire.filters.composite.expression import And, Or

QUANTITIES = [Quantity(f"topic{n}", (n,), "x") for n in range(4)]


def condition_of(formula):
    return Condition.of(nodes(formula))


def nodes(formula):
    joint, *parts = formula
    if joint == "and":
        return And(tuple(map(nodes, parts)))
    if joint == "or":
        return Or(tuple(map(nodes, parts)))
    return Predicate(QUANTITIES[joint], Radius(parts[0]))


def leaves(formula):
    joint, *parts = formula
    return [leaf for part in parts for leaf in leaves(part)] if joint in ("and", "or") else [formula]


def truth(formula, levels):
    """Is it true where each quantity is outside the radii up to its level?"""
    joint, *parts = formula
    if joint == "and":
        return all(truth(part, levels) for part in parts)
    if joint == "or":
        return any(truth(part, levels) for part in parts)
    return levels.get(joint, 0) >= parts[0]


def satisfied(formula, moved):
    """The quantities of all the least ways in which the formula is true, given how far each has moved.

    A way says of some quantities outside which of the radii they are; a least one has no other below it.
    """
    radii = {}
    for quantity, threshold in leaves(formula):
        radii.setdefault(quantity, {0}).add(threshold)
    reached = {q: sorted(c for c in found if c == 0 or moved.get(q, -1) > c) for q, found in radii.items()}
    ways = [dict(zip(reached, levels, strict=True)) for levels in product(*reached.values())]
    true = [way for way in ways if truth(formula, way)]
    least = [way for way in true if not any(other != way and below(other, way) for other in true)]
    return {q for way in least for q, level in way.items() if level}


def below(some, other):
    return all(some[q] <= other[q] for q in some)


class Reference:
    """S1 to S4 as they are written: after each step, all over again."""

    def __init__(self, formula, held=None):
        self.formula = formula
        self.held = dict(held or {})
        self.values = dict(self.held)

    def step(self, changes):
        """What is delivered behind these changes."""
        self.values.update(changes)
        moved = {q: abs(v - self.held[q]) if q in self.held else 10**9 for q, v in self.values.items()}
        told = {q: self.values[q] for q in satisfied(self.formula, moved)}
        self.held.update(told)
        return told


def named(delivery):
    """A delivery as the reference tells it."""
    return {} if delivery is None else {QUANTITIES.index(q): value for q, value in delivery.values.items()}


def formulas(quantities=4, most=3, leaves=6):
    leaf = st.tuples(st.integers(0, quantities - 1), st.integers(1, most))
    joined = lambda inner: st.builds(  # noqa: E731
        lambda joint, parts: (joint, *parts), st.sampled_from(["and", "or"]), st.lists(inner, min_size=1, max_size=3)
    )
    return st.recursive(leaf, joined, max_leaves=leaves)


def streams(quantities=4, size=25, spread=5):
    change = st.tuples(st.integers(0, quantities - 1), st.integers(-spread, spread))
    return st.lists(change, max_size=size)
