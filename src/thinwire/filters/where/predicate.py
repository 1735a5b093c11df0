"""`where` predicates: which events a subscription requests, by their values.

A predicate is a disjunction of cases. A case gives the accepted values of some properties, all of which must match.
Cases are simplified: a case contained in another is dropped, and two that differ in one property are merged.
Predicates with the same meaning then mostly have the same cases.

>>> from thinwire.filters.where.where_grammar import parse_where
>>> cheap = parse_where("price <= 20 and region in ('EU', 'US')")
>>> [cheap.matches(event) for event in ({"price": 20, "region": "EU"}, {"price": 21, "region": "EU"}, {"price": 3})]
[True, False, False]
>>> cheap.names
('price', 'region')

For an index, sets of values become intervals of doubles. A text becomes its rank among the texts of all predicates:
odd if it is one of them, even between two, which preserves their order.

>>> from thinwire.filters.where.value_sets import above, listed_values
>>> closed_intervals(above("number", 10.0).complement())
[(-1.7976931348623157e+308, 10.0)]
>>> ranks = TextRanks(["EU", "US"])
>>> [ranks.rank(text) for text in ("AF", "EU", "IN", "US", "ZZ", None)]
[0.0, 1.0, 2.0, 3.0, 4.0, nan]
>>> closed_intervals(listed_values("text", ["US"]), ranks)
[(3.0, 3.0)]
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
from thinwire.filters.where.value_sets import FIRST, LAST, Cut, Values, quote_name
from thinwire.schema import Kind, Property, Schema

Case = Mapping[str, Values]
"""property -> accepted values, ordered by property"""
EventTest = Callable[[Mapping[str, Any]], bool]

NUMBERS = (float, int)
"""types that are compared as doubles; bool is one of them"""
MAX_CACHED_RANKS = 65_536

_LARGEST = sys.float_info.max
_KINDS: dict[Kind, str] = {
    Kind.INTEGER: "number",
    Kind.NUMBER: "number",
    Kind.FLOAT: "number",
    Kind.BOOLEAN: "boolean",
    Kind.ENUM: "text",
    Kind.STRING: "text",
}
_LITERALS = {"number": "a number", "text": "a text in single quotes", "boolean": "true or false"}


class Comparison(NamedTuple):
    """A property and a value that it is compared with.

    name_offset, value_offset: where they are in the text of the predicate
    ordered: the comparison needs an order of values
    """

    name: str
    name_offset: int
    value: Any
    value_offset: int
    ordered: bool


@dataclass(frozen=True)
class WherePredicate:
    """A parsed predicate. Predicates with equal canonical forms are equal.

    text: as written, for error messages
    """

    text: str = field(compare=False)
    cases: tuple[Case, ...] = field(compare=False)
    comparisons: tuple[Comparison, ...] = field(compare=False, repr=False)
    canonical: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "canonical", " or ".join(map(format_case, self.cases)))

    def __str__(self) -> str:
        return self.canonical

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The properties of the predicate, sorted."""
        return tuple(sorted({name for case in self.cases for name in case}))

    @cached_property
    def matches(self) -> EventTest:
        """A function that returns whether an event matches. An absent value matches no condition."""
        tests = [case_test(case) for case in self.cases]
        return tests[0] if len(tests) == 1 else lambda event: any(test(event) for test in tests)

    def check(self, schema: Schema) -> None:
        """Raise `ExpressionError` with the position of a comparison that the schema does not allow."""
        for comparison in self.comparisons:
            p = self._property(schema, comparison)
            expected = self._compared_kind(p, comparison)
            if _kind_of(comparison.value) != expected:
                detail = f"{p.name} is of kind {p.kind.value}: compare it with {_LITERALS[expected]}"
                raise ExpressionError.at(self.text, comparison.value_offset, detail, property=p.name)
            if p.kind is Kind.ENUM:
                self._check_member(p, comparison)

    def check_tolerances(self, tolerance: Mapping[str, Any]) -> None:
        """Raise `DemandError` for a tolerance of a property of the predicate; such properties are sent exactly."""
        for name in self.names:
            if name in tolerance and not _is_zero(tolerance[name]):
                detail = "a property in `where` is sent exactly: leave its tolerance out"
                raise DemandError(detail, property=name, tolerance=tolerance[name])

    def _property(self, schema: Schema, comparison: Comparison) -> Property:
        if comparison.name not in schema:
            known = sorted(p.name for p in schema if not p.confidential)
            facts = {"property": comparison.name, "choose_from": known}
            raise UnknownName.at(self.text, comparison.name_offset, "no such property", **facts)
        p = schema[comparison.name]
        if p.confidential:
            raise self._error(comparison, "a confidential property never leaves its publisher")
        if p.static:
            raise self._error(comparison, "a static property is stored once, not in events: select sources instead")
        return p

    def _compared_kind(self, p: Property, comparison: Comparison) -> str:
        if p.kind is Kind.TIMESTAMP and p.form in (None, "epoch"):
            return "number"
        if p.kind not in _KINDS:
            raise self._error(comparison, f"values of kind {p.kind.value} cannot be compared here")
        return _KINDS[p.kind]

    def _check_member(self, p: Property, comparison: Comparison) -> None:
        if comparison.ordered:
            raise self._error(comparison, "members of an enum have no order: use = != or in")
        if p.closed and comparison.value not in p.members:
            facts = {"property": p.name, "choose_from": list(p.members)}
            raise UnknownName.at(self.text, comparison.value_offset, "no such member", found=comparison.value, **facts)

    def _error(self, comparison: Comparison, detail: str) -> ExpressionError:
        return ExpressionError.at(self.text, comparison.name_offset, detail, property=comparison.name)


def intersect_cases(some: Sequence[Case], others: Sequence[Case]) -> list[Case]:
    """Return the conjunction of two disjunctions of cases."""
    products = (_intersection(one, other) for one in some for other in others)
    return simplify_cases([case for case in products if all(case.values())])


def simplify_cases(cases: Sequence[Case]) -> list[Case]:
    """Return equivalent cases without contained and mergeable ones; independent of the order of `cases`."""
    if len(cases) < 2:
        return list(cases)
    simplified: list[Case] = []
    for _, case in sorted({format_case(case): case for case in cases}.items()):
        _add_case(simplified, case)
    return sorted(simplified, key=format_case)


def format_case(case: Case) -> str:
    """Return a case in the syntax of predicates."""
    parts = [values.conditions(quote_name(name)) for name, values in case.items()]
    if len(parts) == 1:
        return " or ".join(parts[0])
    return " and ".join(f"({' or '.join(part)})" if len(part) > 1 else part[0] for part in parts)


def count_rectangles(cases: Sequence[Case]) -> int:
    """Return the number of rectangles of the cases in an index."""
    return sum(prod(len(values.spans) for values in case.values()) for case in cases)


def case_test(case: Case) -> EventTest:
    """Return a function that returns whether an event matches a case."""
    tests = [(value_getter(name), _membership_test(values)) for name, values in case.items()]
    if len(tests) == 1:
        ((value_of, test),) = tests
        return lambda event: test(value_of(event))
    return lambda event: all(test(value_of(event)) for value_of, test in tests)


def value_getter(name: str) -> Callable[[Mapping[str, Any]], Any]:
    """Return a function that returns the value of a property in an event, or None if it is absent."""
    first, *others = name.split(".")
    if not others:
        return lambda event: event.get(first)

    def get(event: Mapping[str, Any]) -> Any:
        value = event.get(first)
        for part in others:
            value = value.get(part) if isinstance(value, Mapping) else None
        return value

    return get


class TextRanks:
    """Ranks of texts relative to a fixed set of texts."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts = sorted(set(texts))
        self._cache: dict[str, float] = {}

    def rank(self, text: Any) -> float:
        """Return the rank of a text; NaN if it is not a text."""
        if not isinstance(text, str):
            return math.nan
        rank = self._cache.get(text)
        if rank is None:
            index = bisect_left(self.texts, text)
            rank = 2.0 * index + (index < len(self.texts) and self.texts[index] == text)
            if len(self._cache) < MAX_CACHED_RANKS:
                self._cache[text] = rank
        return rank


def closed_intervals(values: Values, ranks: TextRanks | None = None) -> list[tuple[float, float]]:
    """Return the spans of a set as closed intervals of doubles; `ranks` is needed for texts."""
    if ranks is not None:
        last = 2.0 * len(ranks.texts)
        return [(_rank_from(a, ranks), _rank_to(b, ranks, last)) for a, b in values.spans]
    return [(_number_from(a), _number_to(b)) for a, b in values.spans]


def _intersection(one: Case, other: Case) -> Case:
    names = sorted({*one, *other})
    return {
        name: one[name].intersect(other[name]) if name in one and name in other else one.get(name) or other[name]
        for name in names
    }


def _add_case(cases: list[Case], case: Case) -> None:
    """Add a case, merged with all cases that it can be merged with."""
    index = 0
    while index < len(cases):
        merged = _merge_cases(cases[index], case)
        if merged is None:
            index += 1
        else:
            del cases[index]
            case, index = merged, 0
    cases.append(case)


def _merge_cases(one: Case, other: Case) -> Case | None:
    for wide, narrow in ((one, other), (other, one)):
        if wide.keys() <= narrow.keys() and all(narrow[name].is_within(wide[name]) for name in wide):
            return wide
    if one.keys() != other.keys():
        return None
    differing = [name for name in one if one[name] != other[name]]
    if len(differing) > 1:
        return None
    return {**one, differing[0]: one[differing[0]].join(other[differing[0]])}


def _membership_test(values: Values) -> Callable[[Any], bool]:
    if values.kind == "text":
        return _text_test(values)
    intervals = closed_intervals(values)
    if len(intervals) == 1:
        ((low, high),) = intervals
        return lambda value: isinstance(value, NUMBERS) and low <= float(value) <= high
    return lambda value: isinstance(value, NUMBERS) and any(low <= float(value) <= high for low, high in intervals)


def _text_test(values: Values) -> Callable[[Any], bool]:
    if len(values.points) == len(values.spans):
        listed = frozenset(values.points)
        return lambda value: isinstance(value, str) and value in listed
    return lambda value: isinstance(value, str) and any(low <= (0, value, 0) < high for low, high in values.spans)


def _number_from(cut: Cut) -> float:
    if cut == FIRST:
        return -_LARGEST
    return math.nextafter(cut[1], math.inf) if cut[2] else float(cut[1])


def _number_to(cut: Cut) -> float:
    if cut == LAST:
        return _LARGEST
    return float(cut[1]) if cut[2] else math.nextafter(cut[1], -math.inf)


def _rank_from(cut: Cut, ranks: TextRanks) -> float:
    return 0.0 if cut == FIRST else ranks.rank(cut[1]) + cut[2]


def _rank_to(cut: Cut, ranks: TextRanks, last: float) -> float:
    return last if cut == LAST else ranks.rank(cut[1]) - 1 + cut[2]


def _kind_of(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    return "text" if isinstance(value, str) else "number"


def _is_zero(tolerance: Any) -> bool:
    try:
        return float(str(tolerance).rstrip("%")) == 0
    except ValueError:
        return False
