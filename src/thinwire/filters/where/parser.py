"""From the text of a predicate to its cases: recursive descent, one function a rule.

either    := both { "or" both }
both      := part { "and" part }
part      := "not" part | "(" either ")" | condition
condition := name ( sign value | [ "not" ] ( between | in | starts ) )
between   := "between" value "and" value
in        := "in" "(" value { "," value } ")"
starts    := "starts" "with" 'text'
sign      := "=" | "!=" | "<" | "<=" | ">" | ">="
value     := number | 'text' | true | false

`not` is carried down to the conditions, so that what is left is `and` and `or` of sets of values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from thinwire.errors import ExpressionError, ExpressionTooLarge
from thinwire.filters.where.predicate import Case, Mention, Where, both, fewest, rectangles
from thinwire.filters.where.tokenizer import WORDS, WhereToken, tokens
from thinwire.filters.where.value_sets import Kind, Values, above, beginning, points

MAX_LENGTH = 4_096
MAX_CONDITIONS = 256
"""values that a predicate may compare with"""
MAX_DEPTH = 32
MAX_CASES = 64
MAX_LOOKED_AT = 4 * MAX_CASES
"""cases before those that say the same are found"""
MAX_RECTANGLES = 1_024
"""sides of all cases, one by one: what an index takes in"""

_SIGNS: dict[str, Callable[[Kind, Any], Values]] = {
    "=": lambda kind, value: points(kind, [value]),
    "!=": lambda kind, value: points(kind, [value]).complement(),
    ">": above,
    ">=": lambda kind, value: above(kind, value, too=True),
    "<": lambda kind, value: above(kind, value, too=True).complement(),
    "<=": lambda kind, value: above(kind, value).complement(),
}


@lru_cache(maxsize=4_096)
def parse(text: str) -> Where:
    """The predicate that a text says.

    >>> str(parse("not (price < 10 or price > 20) and region = 'EU'"))
    "price between 10 and 20 and region = 'EU'"
    >>> parse("price between 10 or 20")
    Traceback (most recent call last):
    ...
    thinwire.errors.ExpressionError: bad expression: 'and' is expected: line=1, column=18, found='or'
        price between 10 or 20
                         ^
    """
    if len(text) > MAX_LENGTH:
        raise ExpressionTooLarge("the text of a `where` is too long", characters=len(text), limit=MAX_LENGTH)
    parser = _Parser(text)
    cases = parser.either(0, positive=True)
    parser.expect("end", "'and', 'or' or the end")
    if not cases:
        raise ExpressionError.at(text, 0, "no event can match this: its conditions exclude each other")
    many = rectangles(cases)
    if many > MAX_RECTANGLES:
        detail = "`or`, `in` and `not` multiply: it comes to too many rectangles"
        raise ExpressionTooLarge.at(text, 0, detail, rectangles=many, limit=MAX_RECTANGLES)
    made = Where(text, tuple(cases), tuple(parser.mentions))
    if made.canonical != text and (len(cases) > 1 or len(made.canonical) > MAX_LENGTH):
        _check_written_out(made)
    return made


def _check_written_out(made: Where) -> None:
    """Others read a predicate as it is written out, case by case: that must keep the limits too."""
    try:
        parse(made.canonical)
    except ExpressionTooLarge as problem:
        detail = "written out case by case it is above a limit: join conditions on one property by `in`"
        raise ExpressionTooLarge.at(made.text, 0, detail, limit=problem.limit) from None


class _Parser:
    """Looks one token ahead.

    mentions: every value that a property is compared with, as it stands in the text
    """

    def __init__(self, text: str) -> None:
        self.mentions: list[Mention] = []
        self._text = text
        self._rest = tokens(text)
        self._next = next(self._rest)
        self._kinds: dict[str, Kind] = {}

    def either(self, depth: int, *, positive: bool) -> list[Case]:
        at, parts = self._next, [self._both(depth, positive)]
        while self._accept_keyword("or"):
            parts.append(self._both(depth, positive))
        return self._any(at, parts) if positive else self._every(at, parts)

    def expect(self, kind: str, wanted: str) -> WhereToken:
        if self._next.kind != kind:
            raise self._error(f"{wanted} is expected")
        return self._take()

    def _both(self, depth: int, positive: bool) -> list[Case]:
        at, parts = self._next, [self._part(depth, positive)]
        while self._accept_keyword("and"):
            parts.append(self._part(depth, positive))
        return self._every(at, parts) if positive else self._any(at, parts)

    def _part(self, depth: int, positive: bool) -> list[Case]:
        if depth == MAX_DEPTH:
            raise self._error("parentheses within parentheses", ExpressionTooLarge, limit=MAX_DEPTH)
        if self._accept_keyword("not"):
            return self._part(depth + 1, not positive)
        if self._next.kind != "(":
            return self._condition(positive)
        opened = self._take()
        inner = self.either(depth + 1, positive=positive)
        if self._next.kind == "end":
            raise ExpressionError.at(self._text, opened.start, "this parenthesis is not closed")
        self.expect(")", "'and', 'or' or ')'")
        return inner

    def _condition(self, positive: bool) -> list[Case]:
        name = self._name()
        negated = self._accept_keyword("not")
        if self._accept_keyword("between"):
            found = self._range(name)
        elif self._accept_keyword("in"):
            found = self._listed(name)
        elif self._accept_keyword("starts"):
            found = self._begun(name)
        elif negated:
            raise self._error("'between', 'in' or 'starts with' is expected behind 'not'")
        else:
            found = self._compared(name)
        found = found if positive != negated else found.complement()
        return [{name.text: found}] if found else []

    def _compared(self, name: WhereToken) -> Values:
        if self._next.kind not in _SIGNS:
            raise self._error("a condition is expected: = != < <= > >=, between, in, starts with")
        sign = self._take()
        value = self._value(name, ordered=sign.kind not in ("=", "!="))
        return _SIGNS[sign.kind](self._kinds[name.text], value)

    def _range(self, name: WhereToken) -> Values:
        at = self._next
        low = self._value(name, ordered=True)
        self._expect_keyword("and", "'and'")
        high = self._value(name, ordered=True)
        if low > high:
            raise ExpressionError.at(self._text, at.start, "the smaller value comes first", found=at.text)
        kind = self._kinds[name.text]
        return _SIGNS[">="](kind, low).intersect(_SIGNS["<="](kind, high))

    def _listed(self, name: WhereToken) -> Values:
        self.expect("(", "'(' and a list of values")
        values = [self._value(name)]
        while self._next.kind == ",":
            self._take()
            values.append(self._value(name))
        self.expect(")", "',' or ')'")
        return points(self._kinds[name.text], values)

    def _begun(self, name: WhereToken) -> Values:
        self._expect_keyword("with", "'with'")
        if self._next.kind != "text":
            raise self._error("a text in single quotes is expected")
        return beginning(self._value(name, ordered=True))

    def _name(self) -> WhereToken:
        token = self._next
        if token.kind not in ("word", "name") or (token.kind == "word" and token.text.lower() in WORDS):
            raise self._error("the name of a property is expected")
        return self._take()

    def _value(self, name: WhereToken, *, ordered: bool = False) -> Any:
        """The value that comes next, of the kind that the property was compared with before, if it was."""
        token = self._next
        kind, value = self._read(token)
        known = self._kinds.setdefault(name.text, kind)
        if known != kind:
            raise self._error(f"{name.text} is compared with a {known} before, and with a {kind} here")
        if ordered and kind == "truth":
            raise self._error("true and false have no order: use = or !=")
        self._take()
        if len(self.mentions) == MAX_CONDITIONS:
            raise self._error("too many conditions", ExpressionTooLarge, limit=MAX_CONDITIONS)
        self.mentions.append(Mention(name.text, name.start, value, token.start, ordered))
        return value

    def _read(self, token: WhereToken) -> tuple[Kind, Any]:
        if token.kind == "number":
            value = float(token.text) + 0.0  # there is one zero
            if not math.isfinite(value):
                raise self._error("a finite number is expected")
            return "number", value
        if token.kind == "text":
            return "text", token.text
        if token.kind == "word" and token.text.lower() in ("true", "false"):
            return "truth", token.text.lower() == "true"
        hint = ": a text stands in single quotes" if token.kind in ("word", "name") else ""
        raise self._error(f"a value is expected{hint}")

    def _any(self, at: WhereToken, parts: list[list[Case]]) -> list[Case]:
        return self._few(at, fewest([case for part in parts for case in part]))

    def _every(self, at: WhereToken, parts: list[list[Case]]) -> list[Case]:
        found, *others = parts
        for other in others:
            if len(found) * len(other) > MAX_LOOKED_AT:  # to find those that say the same costs by pairs of them
                raise self._too_many(at, len(found) * len(other))
            found = self._few(at, both(found, other))
        return found

    def _few(self, at: WhereToken, cases: list[Case]) -> list[Case]:
        if len(cases) > MAX_CASES:
            raise self._too_many(at, len(cases))
        return cases

    def _too_many(self, at: WhereToken, cases: int) -> ExpressionError:
        detail = "`or` within `and`: it comes to too many cases"
        return ExpressionTooLarge.at(self._text, at.start, detail, cases=cases, limit=MAX_CASES)

    def _accept_keyword(self, word: str) -> bool:
        """Take a word of the language where it comes next."""
        found = self._next.kind == "word" and self._next.text.lower() == word
        if found:
            self._take()
        return found

    def _expect_keyword(self, word: str, wanted: str) -> None:
        if not self._accept_keyword(word):
            raise self._error(f"{wanted} is expected")

    def _take(self) -> WhereToken:
        taken = self._next
        if taken.kind != "end":
            self._next = next(self._rest)
        return taken

    def _error(self, detail: str, kind: type[ExpressionError] = ExpressionError, **facts: object) -> ExpressionError:
        found = self._text[self._next.start : self._next.end] or "the end"
        return kind.at(self._text, self._next.start, detail, found=found, **facts)
