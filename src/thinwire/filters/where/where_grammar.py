"""Grammar of `where` predicates.

condition := name ( symbol value | [ "not" ] ( between | in | starts ) )
between   := "between" value "and" value
in        := "in" "(" value { "," value } ")"
starts    := "starts" "with" 'text'
symbol    := "=" | "!=" | "<" | "<=" | ">" | ">="
value     := number | 'text' | true | false

Conditions are joined by `or`, `and`, `not` and parentheses (`ExpressionParser`). `not` is applied to the conditions,
so that the result is a disjunction of cases: conjunctions of value sets. Texts are in single quotes, a quote inside a
text is doubled. Names with characters other than letters, digits and `_ . : / @ -` are in double quotes.

>>> [(token.kind, token.text) for token in GRAMMAR.tokenize("price<=-1.5 and \\"a b\\" = 'it''s'")][:4]
[('word', 'price'), ('<=', '<='), ('number', '-1.5'), ('word', 'and')]
>>> [(token.kind, token.text) for token in GRAMMAR.tokenize("price<=-1.5 and \\"a b\\" = 'it''s'")][4:]
[('name', 'a b'), ('=', '='), ('text', "it's"), ('end', '')]
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from thinwire.errors import ExpressionError, ExpressionTooLarge
from thinwire.filters.expression_parser import ExpressionParser, Grammar, Token
from thinwire.filters.where.predicate import (
    Case,
    Comparison,
    WherePredicate,
    count_rectangles,
    intersect_cases,
    simplify_cases,
)
from thinwire.filters.where.value_sets import KEYWORDS, ComparedKind, Values, above, listed_values, prefixed_by

MAX_LENGTH = 4_096
MAX_CONDITIONS = 256
"""each value of an `in` and each end of a `between` counts as a condition"""
MAX_DEPTH = 32
MAX_CASES = 64
MAX_CASE_PAIRS = 4 * MAX_CASES
"""pairs of cases that one `and` may combine; simplifying compares all results"""
MAX_RECTANGLES = 1_024
"""rectangles that the cases of a predicate may contribute to an index"""

GRAMMAR = Grammar(
    pattern=re.compile(
        r"""(?P<space>\s+)
        |(?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))
        |(?P<word>[^\W\d][\w.:/@\-]*)
        |(?P<text>'(?:[^']|'')*')
        |(?P<name>"[^"\n]+")
        |(?P<symbol><=|>=|!=|<>|==|[<>=(),])""",
        re.VERBOSE,
    ),
    keyword_kind="word",
    synonyms={"<>": "!=", "==": "="},
    hints={"!": "write 'not', or '!='"},
    default_hint="names with other characters need double quotes, texts single quotes",
)

_COMPARISONS: dict[str, Callable[[ComparedKind, Any], Values]] = {
    "=": lambda kind, value: listed_values(kind, [value]),
    "!=": lambda kind, value: listed_values(kind, [value]).complement(),
    ">": above,
    ">=": lambda kind, value: above(kind, value, inclusive=True),
    "<": lambda kind, value: above(kind, value, inclusive=True).complement(),
    "<=": lambda kind, value: above(kind, value).complement(),
}


@lru_cache(maxsize=4_096)
def parse_where(text: str) -> WherePredicate:
    """Parse a `where` predicate.

    >>> str(parse_where("not (price < 10 or price > 20) and region = 'EU'"))
    "price between 10 and 20 and region = 'EU'"
    >>> parse_where("price between 10 or 20")
    Traceback (most recent call last):
    ...
    thinwire.errors.ExpressionError: bad expression: 'and' is expected: line=1, column=18, found='or'
        price between 10 or 20
                         ^
    """
    if len(text) > MAX_LENGTH:
        raise ExpressionTooLarge("the text of a `where` is too long", characters=len(text), limit=MAX_LENGTH)
    parser = _WhereParser(text)
    cases = parser.parse_all()
    if not cases:
        raise ExpressionError.at(text, 0, "no event can match this: its conditions exclude each other")
    rectangles = count_rectangles(cases)
    if rectangles > MAX_RECTANGLES:
        detail = "`or`, `in` and `not` multiply: the predicate has too many rectangles"
        raise ExpressionTooLarge.at(text, 0, detail, rectangles=rectangles, limit=MAX_RECTANGLES)
    where = WherePredicate(text, tuple(cases), tuple(parser.comparisons))
    if where.canonical != text and (len(cases) > 1 or len(where.canonical) > MAX_LENGTH):
        _check_canonical(where)
    return where


def _check_canonical(where: WherePredicate) -> None:
    """Check the limits of the canonical form: services store and parse it instead of the text."""
    try:
        parse_where(where.canonical)
    except ExpressionTooLarge as problem:
        detail = "its canonical form is above a limit: join conditions on one property by `in`"
        raise ExpressionTooLarge.at(where.text, 0, detail, limit=problem.limit) from None


class _WhereParser(ExpressionParser[list[Case]]):
    """Parser of predicates to cases.

    comparisons: every value that a property is compared with, in the order of the text
    """

    def __init__(self, text: str) -> None:
        super().__init__(text, GRAMMAR, max_depth=MAX_DEPTH, allow_not=True)
        self.comparisons: list[Comparison] = []
        self._kinds: dict[str, ComparedKind] = {}

    def parse_term(self, negated: bool) -> list[Case]:
        name = self._parse_name()
        is_complement = self.accept_keyword("not")
        if self.accept_keyword("between"):
            values = self._parse_range(name)
        elif self.accept_keyword("in"):
            values = self._parse_list(name)
        elif self.accept_keyword("starts"):
            values = self._parse_prefix(name)
        elif is_complement:
            raise self.error("'between', 'in' or 'starts with' is expected after 'not'")
        else:
            values = self._parse_comparison(name)
        values = values.complement() if negated != is_complement else values
        return [{name.text: values}] if values else []

    def combine(self, operator: str, operands: Sequence[list[Case]], start: Token, negated: bool) -> list[Case]:
        if (operator == "or") != negated:  # a negated `and` is the `or` of its negated operands
            return self._check_count(start, simplify_cases([case for cases in operands for case in cases]))
        cases, *others = operands
        for other in others:
            if len(cases) * len(other) > MAX_CASE_PAIRS:
                raise self._too_many_cases(start, len(cases) * len(other))
            cases = self._check_count(start, intersect_cases(cases, other))
        return cases

    def _parse_comparison(self, name: Token) -> Values:
        if self.next.kind not in _COMPARISONS:
            raise self.error("a condition is expected: = != < <= > >=, between, in, starts with")
        symbol = self.take().kind
        value = self._parse_value(name, ordered=symbol not in ("=", "!="))
        return _COMPARISONS[symbol](self._kinds[name.text], value)

    def _parse_range(self, name: Token) -> Values:
        first = self.next
        low = self._parse_value(name, ordered=True)
        if not self.accept_keyword("and"):
            raise self.error("'and' is expected")
        high = self._parse_value(name, ordered=True)
        if low > high:
            raise ExpressionError.at(self.text, first.start, "the range ends before it starts", found=first.text)
        kind = self._kinds[name.text]
        return _COMPARISONS[">="](kind, low).intersect(_COMPARISONS["<="](kind, high))

    def _parse_list(self, name: Token) -> Values:
        self.expect("(", "'(' and a list of values")
        values = [self._parse_value(name)]
        while self.next.kind == ",":
            self.take()
            values.append(self._parse_value(name))
        self.expect(")", "',' or ')'")
        return listed_values(self._kinds[name.text], values)

    def _parse_prefix(self, name: Token) -> Values:
        if not self.accept_keyword("with"):
            raise self.error("'with' is expected")
        if self.next.kind != "text":
            raise self.error("a text in single quotes is expected")
        return prefixed_by(self._parse_value(name, ordered=True))

    def _parse_name(self) -> Token:
        token = self.next
        if token.kind not in ("word", "name") or (token.kind == "word" and token.text.lower() in KEYWORDS):
            raise self.error("the name of a property is expected")
        return self.take()

    def _parse_value(self, name: Token, *, ordered: bool = False) -> Any:
        """Parse a value. All values that a property is compared with have one kind."""
        token = self.next
        kind, value = self._read_value(token)
        expected = self._kinds.setdefault(name.text, kind)
        if expected != kind:
            raise self.error(f"{name.text} is compared with a {expected} before and with a {kind} here")
        if ordered and kind == "boolean":
            raise self.error("true and false have no order: use = or !=")
        self.take()
        if len(self.comparisons) == MAX_CONDITIONS:
            raise self.error("too many conditions", ExpressionTooLarge, limit=MAX_CONDITIONS)
        self.comparisons.append(Comparison(name.text, name.start, value, token.start, ordered))
        return value

    def _read_value(self, token: Token) -> tuple[ComparedKind, Any]:
        if token.kind == "number":
            value = float(token.text) + 0.0  # turns -0.0 into 0.0
            if not math.isfinite(value):
                raise self.error("a finite number is expected")
            return "number", value
        if token.kind == "text":
            return "text", token.text
        if token.kind == "word" and token.text.lower() in ("true", "false"):
            return "boolean", token.text.lower() == "true"
        hint = ": a text needs single quotes" if token.kind in ("word", "name") else ""
        raise self.error(f"a value is expected{hint}")

    def _check_count(self, start: Token, cases: list[Case]) -> list[Case]:
        if len(cases) > MAX_CASES:
            raise self._too_many_cases(start, len(cases))
        return cases

    def _too_many_cases(self, start: Token, cases: int) -> ExpressionError:
        detail = "`or` within `and` multiplies: the predicate has too many cases"
        return ExpressionTooLarge.at(self.text, start.start, detail, cases=cases, limit=MAX_CASES)
