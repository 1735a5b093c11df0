"""The semantics of composite subscriptions by brute force: everything is recomputed after each step.

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
    """Return whether the formula is true if each quantity is outside the radii up to its level."""
    joint, *parts = formula
    if joint == "and":
        return all(truth(part, levels) for part in parts)
    if joint == "or":
        return any(truth(part, levels) for part in parts)
    return levels.get(joint, 0) >= parts[0]


def satisfied(formula, moved):
    """Return the quantities of all minimal cases that satisfy the formula, given how far each has moved.

    A case states for each quantity which of the radii it is outside of. A minimal one has no other below it.
    """
    radii = {}
    for quantity, threshold in leaves(formula):
        radii.setdefault(quantity, {0}).add(threshold)
    reached = {q: sorted(c for c in found if c == 0 or moved.get(q, -1) > c) for q, found in radii.items()}
    cases = [dict(zip(reached, levels, strict=True)) for levels in product(*reached.values())]
    satisfying = [case for case in cases if truth(formula, case)]
    minimal = [case for case in satisfying if not any(other != case and below(other, case) for other in satisfying)]
    return {q for case in minimal for q, level in case.items() if level}


def below(some, other):
    return all(some[q] <= other[q] for q in some)


class Reference:
    """Rules S1 to S4 as written, recomputed after each step."""

    def __init__(self, formula, held=None):
        self.formula = formula
        self.held = dict(held or {})
        self.values = dict(self.held)

    def step(self, changes):
        """Apply changes and return the delivered values."""
        self.values.update(changes)
        moved = {q: abs(v - self.held[q]) if q in self.held else 10**9 for q, v in self.values.items()}
        delivered = {q: self.values[q] for q in satisfied(self.formula, moved)}
        self.held.update(delivered)
        return delivered


def named(delivery):
    """Return a delivery in the form of the reference."""
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
