"""A predicate: which events a subscriber wants, by their values.

>>> from thinwire.filters.where.parser import parse
>>> cheap = parse("price <= 20 and region in ('EU', 'US')")
>>> [cheap.holds(event) for event in ({"price": 20, "region": "EU"}, {"price": 21, "region": "EU"}, {"price": 3})]
[True, False, False]
>>> cheap.names
('price', 'region')
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from thinwire.errors import DemandError, ExpressionError, UnknownName
from thinwire.filters.where.predicate import Case, written
from thinwire.filters.where.predicate_sides import test_of, value_in
from thinwire.schema import Kind, Property, Schema

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
