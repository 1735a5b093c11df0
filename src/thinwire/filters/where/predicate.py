"""A predicate as cases, of which any may hold: each says of some properties which values they must have.

Cases are kept as few as is easily found: one that is part of another is left out, and two that differ in one property
only are one. Predicates that say the same then mostly have the same cases, however they are written.

>>> from thinwire.filters.where.value_sets import points
>>> a, b = ({"region": points("text", [name])} for name in ("EU", "US"))
>>> [case["region"].points for case in fewest([a, b])]
[('EU', 'US')]

Sets of values as numbers: sides of rectangles, and tests of single values that decide the same.

A number is compared as a double. A text becomes its rank among the texts that are asked about: odd where it is one of
them, even between two, so that every order among them is kept.

>>> from thinwire.filters.where.value_sets import above, points
>>> sides(above("number", 10.0).complement())
[(-1.7976931348623157e+308, 10.0)]
>>> ranks = Ranks(["EU", "US"])
>>> [ranks.of(text) for text in ("AF", "EU", "IN", "US", "ZZ", None)]
[0.0, 1.0, 2.0, 3.0, 4.0, nan]
>>> sides(points("text", ["US"]), ranks)
[(3.0, 3.0)]

A predicate: which events a subscriber wants, by their values.

>>> from thinwire.filters.where.parser import parse
>>> cheap = parse("price <= 20 and region in ('EU', 'US')")
>>> [cheap.holds(event) for event in ({"price": 20, "region": "EU"}, {"price": 21, "region": "EU"}, {"price": 3})]
[True, False, False]
>>> cheap.names
('price', 'region')
"""

from __future__ import annotations

import math
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

from thinwire.errors import DemandError, ExpressionError, UnknownName
from thinwire.filters.where.tokenizer import quoted
from thinwire.filters.where.value_sets import FIRST, LAST, Cut, Values
from thinwire.schema import Kind, Property, Schema

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
        name: one[name].intersect(other[name]) if name in one and name in other else one.get(name) or other[name]
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


MAX_KNOWN = 65_536
"""texts whose rank is kept in mind"""

NUMBERS = (float, int)
"""what can be compared as a double; what is true or false can"""

_LARGEST = sys.float_info.max


class Ranks:
    """The ranks of texts among some of them."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts = sorted(set(texts))
        self._known: dict[str, float] = {}

    def of(self, text: Any) -> float:
        """The rank of a text; of what is none, no number."""
        if not isinstance(text, str):
            return math.nan
        rank = self._known.get(text)
        if rank is None:
            rank = self._rank(text)
            if len(self._known) < MAX_KNOWN:
                self._known[text] = rank
        return rank

    def _rank(self, text: str) -> float:
        at = bisect_left(self.texts, text)
        return 2.0 * at + (at < len(self.texts) and self.texts[at] == text)


def sides(values: Values, ranks: Ranks | None = None) -> list[tuple[float, float]]:
    """The spans of a set, both ends included; ranks: of all texts that are asked about, where it is one of texts."""
    if ranks is not None:
        last = 2.0 * len(ranks.texts)
        return [(_rank_from(a, ranks), _rank_to(b, ranks, last)) for a, b in values.spans]
    return [(_from(a), _to(b)) for a, b in values.spans]


def test_of(values: Values) -> Callable[[Any], bool]:
    """The function that says whether a value is in a set."""
    if values.kind == "text":
        return _text_test(values)
    found = sides(values)
    if len(found) == 1:
        ((low, high),) = found
        return lambda value: isinstance(value, NUMBERS) and low <= float(value) <= high
    return lambda value: isinstance(value, NUMBERS) and any(low <= float(value) <= high for low, high in found)


def value_in(name: str) -> Callable[[Mapping[str, Any]], Any]:
    """The function that finds the value of a property in an event; None where it is absent."""
    first, *others = name.split(".")
    if not others:
        return lambda event: event.get(first)

    def found(event: Mapping[str, Any]) -> Any:
        value = event.get(first)
        for part in others:
            value = value.get(part) if isinstance(value, Mapping) else None
        return value

    return found


def _text_test(values: Values) -> Callable[[Any], bool]:
    if len(values.points) == len(values.spans):
        listed = frozenset(values.points)
        return lambda value: isinstance(value, str) and value in listed
    return lambda value: isinstance(value, str) and any(low <= (0, value, 0) < high for low, high in values.spans)


def _from(cut: Cut) -> float:
    if cut == FIRST:
        return -_LARGEST
    return math.nextafter(cut[1], math.inf) if cut[2] else float(cut[1])


def _to(cut: Cut) -> float:
    if cut == LAST:
        return _LARGEST
    return float(cut[1]) if cut[2] else math.nextafter(cut[1], -math.inf)


def _rank_from(cut: Cut, ranks: Ranks) -> float:
    return 0.0 if cut == FIRST else ranks.of(cut[1]) + cut[2]


def _rank_to(cut: Cut, ranks: Ranks, last: float) -> float:
    return last if cut == LAST else ranks.of(cut[1]) - 1 + cut[2]


_COMPARED: dict[Kind, str] = {
    Kind.INTEGER: "number",
    Kind.NUMBER: "number",
    Kind.FLOAT: "number",
    Kind.BOOLEAN: "truth",
    Kind.ENUM: "text",
    Kind.STRING: "text",
}
_WRITTEN = {"number": "a number", "text": "a text in single quotes", "truth": "true or false"}

Test = Callable[[Any], bool]


class Mention(NamedTuple):
    """A value that a property is compared with: where both stand in the text, and whether order matters."""

    name: str
    name_at: int
    value: Any
    value_at: int
    ordered: bool


@dataclass(frozen=True)
class Where:
    """A predicate in one frozen value; those that say the same are equal, as far as that is easily found.

    text: as it was written, for complaints; cases: of which any may hold; mentions: see `Mention`
    """

    text: str = field(compare=False)
    cases: tuple[Case, ...] = field(compare=False)
    mentions: tuple[Mention, ...] = field(compare=False, repr=False)
    canonical: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "canonical", " or ".join(map(written, self.cases)))

    def __str__(self) -> str:
        return self.canonical

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The properties that decide, sorted."""
        return tuple(sorted({name for case in self.cases for name in case}))

    @cached_property
    def holds(self) -> Callable[[Mapping[str, Any]], bool]:
        """The function that says whether an event matches. A value that is absent matches nothing."""
        tests = [[(value_in(name), test_of(values)) for name, values in case.items()] for case in self.cases]
        if len(tests) == 1 and len(tests[0]) == 1:
            ((value_of, test),) = tests[0]
            return lambda event: test(value_of(event))
        return lambda event: any(all(test(value_of(event)) for value_of, test in case) for case in tests)

    def check(self, schema: Schema) -> None:
        """Refuse, with the place, what events of this schema cannot be asked."""
        for mention in self.mentions:
            p = self._property(schema, mention)
            expected = self._kind(p, mention)
            if _kind_of(mention.value) != expected:
                detail = f"{p.name} is of kind {p.kind.value}: compare it with {_WRITTEN[expected]}"
                raise ExpressionError.at(self.text, mention.value_at, detail, property=p.name)
            if p.kind is Kind.ENUM:
                self._check_member(p, mention)

    def check_tolerances(self, tolerance: Mapping[str, Any]) -> None:
        """Refuse a tolerance for what decides: it travels exactly."""
        for name in self.names:
            if name in tolerance and not _is_zero(tolerance[name]):
                detail = "a property in `where` travels exactly: leave its tolerance out"
                raise DemandError(detail, property=name, tolerance=tolerance[name])

    def _property(self, schema: Schema, mention: Mention) -> Property:
        if mention.name not in schema:
            known = sorted(p.name for p in schema if not p.confidential)
            raise UnknownName.at(
                self.text, mention.name_at, "no such property", property=mention.name, choose_from=known
            )
        p = schema[mention.name]
        if p.confidential:
            raise self._refused(mention, "a confidential property never leaves its publisher")
        if p.static:
            raise self._refused(mention, "a static property is told once, and not in events: choose sources")
        return p

    def _kind(self, p: Property, mention: Mention) -> str:
        if p.kind is Kind.TIMESTAMP and p.form in (None, "epoch"):
            return "number"
        if p.kind not in _COMPARED:
            raise self._refused(mention, f"values of kind {p.kind.value} cannot be compared here")
        return _COMPARED[p.kind]

    def _check_member(self, p: Property, mention: Mention) -> None:
        if mention.ordered:
            raise self._refused(mention, "members of an enum have no order: use = != or in")
        if p.closed and mention.value not in p.members:
            facts = {"property": p.name, "choose_from": list(p.members)}
            raise UnknownName.at(self.text, mention.value_at, "no such member", found=mention.value, **facts)

    def _refused(self, mention: Mention, detail: str) -> ExpressionError:
        return ExpressionError.at(self.text, mention.name_at, detail, property=mention.name)


def _kind_of(value: Any) -> str:
    if isinstance(value, bool):
        return "truth"
    return "text" if isinstance(value, str) else "number"


def _is_zero(tolerance: Any) -> bool:
    try:
        return float(str(tolerance).rstrip("%")) == 0
    except ValueError:
        return False
