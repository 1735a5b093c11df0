"""A predicate as cases, of which any may hold: each says of some properties which values they must have.

Cases are kept as few as is easily found: one that is part of another is left out, and two that differ in one property
only are one. Predicates that say the same then mostly have the same cases, however they are written.

>>> from thinwire.filters.where.value_sets import points
>>> a, b = ({"region": points("text", [name])} for name in ("EU", "US"))
>>> [case["region"].points for case in fewest([a, b])]
[('EU', 'US')]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from thinwire.filters.where.tokenizer import quoted
from thinwire.filters.where.value_sets import Values

Case = Mapping[str, Values]
"""by property, in the order of their names"""


def both(some: Sequence[Case], others: Sequence[Case]) -> list[Case]:
    """The cases in which one of the first and one of the others holds."""
    found = (_met(one, other) for one in some for other in others)
    return fewest([case for case in found if all(case.values())])


def fewest(cases: Sequence[Case]) -> list[Case]:
    """The same cases, as few as is easily found, whatever their order."""
    if len(cases) < 2:
        return list(cases)
    kept: list[Case] = []
    for _, case in sorted({written(case): case for case in cases}.items()):
        _put(kept, case)
    return sorted(kept, key=written)


def written(case: Case) -> str:
    """A case as an expression."""
    parts = [values.conditions(quoted(name)) for name, values in case.items()]
    if len(parts) == 1:
        return " or ".join(parts[0])
    return " and ".join(f"({' or '.join(part)})" if len(part) > 1 else part[0] for part in parts)


def rectangles(cases: Sequence[Case]) -> int:
    """How many rectangles the cases come to."""
    return sum(prod(len(values.spans) for values in case.values()) for case in cases)


def _met(one: Case, other: Case) -> Case:
    names = sorted({*one, *other})
    return {
        name: one[name].meet(other[name]) if name in one and name in other else one.get(name) or other[name]
        for name in names
    }


def _put(kept: list[Case], case: Case) -> None:
    """Add a case; as long as one that is kept can be one with it, that one is."""
    at = 0
    while at < len(kept):
        made = _as_one(kept[at], case)
        if made is None:
            at += 1
        else:
            del kept[at]
            case, at = made, 0
    kept.append(case)


def _as_one(one: Case, other: Case) -> Case | None:
    for wide, narrow in ((one, other), (other, one)):
        if wide.keys() <= narrow.keys() and all(narrow[name].within(wide[name]) for name in wide):
            return wide
    if one.keys() != other.keys():
        return None
    differing = [name for name in one if one[name] != other[name]]
    if len(differing) > 1:
        return None
    return {**one, differing[0]: one[differing[0]].join(other[differing[0]])}
