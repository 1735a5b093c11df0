"""From the text of a watch expression to its terms: recursive descent, one function a rule.

expression := conjunction { "or" conjunction }
conjunction := condition { "and" condition }
condition := "(" expression ")" | term
term := path [ "[" source "]" "." path ] "+-" threshold
source := nothing | value | name "=" value { "," name "=" value }
threshold := number | number "%" [ "of" "range" ]

An expression as tokens, each with its place.

Signs and brackets stand for themselves. Everything between them is a bare run (`building.rooms`, `0.5`, `11.1`) or a
text in quotes; what a run means depends on where it stands, and the parser knows.

>>> [(token.kind, token.text) for token in tokens("rooms[12].t +- 0.5")]
[('bare', 'rooms'), ('[', '['), ('bare', '12'), (']', ']'), ('bare', '.t'), ('+-', '+-'), ('bare', '0.5'), ('end', '')]
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

from thinwire.errors import BadThreshold, ExpressionError, ExpressionTooLarge
from thinwire.filters.composite.expression import And, Expression, Formula, Of, Or, Term, Threshold

_TOKEN = re.compile(
    r"""(?P<space>\s+)
    |(?P<sign>\+-|\+/-|±)
    |(?P<text>"[^"\n]*"|'[^'\n]*')
    |(?P<bare>(?:\d+\.?\d*|\.\d+)[eE]\+\d+|[\w.\-:/@]+)
    |(?P<mark>[()\[\],=%])""",
    re.VERBOSE,
)
_HINTS = {"&": "write 'and'", "|": "write 'or'", "!": "there is no 'not'", '"': "the quotes do not end"}
_HINTS["'"] = _HINTS['"']


class ExpressionToken(NamedTuple):
    """kind: "bare", "text", "+-", "end" or the mark itself; text: without quotes; start, end: its place"""

    kind: str
    text: str
    start: int
    end: int


def tokens(text: str) -> Iterator[ExpressionToken]:
    """The tokens of an expression, one at a time, and an "end"."""
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            hint = _HINTS.get(text[at], "names with other signs need quotes")
            raise error(text, at, f"unexpected sign {text[at]!r}: {hint}")
        if found.lastgroup != "space":
            yield _token(found)
        at = found.end()
    yield ExpressionToken("end", "", at, at)


def error(
    text: str, at: int, detail: str, kind: type[ExpressionError] = ExpressionError, **facts: object
) -> ExpressionError:
    """An error about one place of an expression."""
    return kind.at(text, at, detail, **facts)


def _token(found: re.Match[str]) -> ExpressionToken:
    text, kind = found.group(), found.lastgroup or ""
    if kind == "sign":
        return ExpressionToken("+-", text, *found.span())
    if kind == "text":
        return ExpressionToken(kind, text[1:-1], *found.span())
    return ExpressionToken(text if kind == "mark" else kind, text, *found.span())


MAX_LENGTH = 262_144
MAX_TERMS = 256
MAX_DEPTH = 64

_NUMBER = re.compile(r"(?P<minus>-)?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,2})?")
_NO_NUMBERS = ("nan", "inf", "infinity")


def parse(text: str) -> Expression:
    """The expression a text says.

    >>> str(parse("(market[AAPL].price ± 0.50 and market[MSFT].price +- 1%) or vix.value +- 2"))
    '(market[AAPL].price +- 0.5 and market[MSFT].price +- 1%) or vix.value +- 2'
    >>> parse("market[AAPL].price +- much")
    Traceback (most recent call last):
    ...
    thinwire.errors.ExpressionError: bad expression: a number is expected behind +-: line=1, column=23, found='much'
        market[AAPL].price +- much
                              ^
    """
    if len(text) > MAX_LENGTH:
        raise ExpressionTooLarge("the text is too long", characters=len(text), limit=MAX_LENGTH)
    parser = _Parser(text)
    root = parser.expression(0)
    parser.expect("end", "'and', 'or' or the end")
    return Expression(text, root)


class _Parser:
    """Looks one token ahead; nothing is read beyond a limit that is passed."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._rest = tokens(text)
        self._next = next(self._rest)
        self._terms = 0

    def expression(self, depth: int) -> Formula[Term]:
        parts = [self._conjunction(depth)]
        while self._accept_keyword("or"):
            parts.append(self._conjunction(depth))
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def expect(self, kind: str, wanted: str) -> ExpressionToken:
        if self._next.kind != kind:
            raise self._error(f"{wanted} is expected")
        return self._take()

    def _conjunction(self, depth: int) -> Formula[Term]:
        parts = [self._condition(depth)]
        while self._accept_keyword("and"):
            parts.append(self._condition(depth))
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _condition(self, depth: int) -> Formula[Term]:
        if self._next.kind != "(":
            return self._term()
        if depth == MAX_DEPTH:
            raise self._error("parentheses within parentheses", ExpressionTooLarge, limit=MAX_DEPTH)
        opened = self._take()
        inner = self.expression(depth + 1)
        if self._next.kind == "end":
            raise error(self._text, opened.start, "this parenthesis is not closed")
        self.expect(")", "'and', 'or' or ')'")
        return inner

    def _term(self) -> Term:
        at = self._next.start
        if self._next.kind not in ("bare", "text") or self._is_keyword("and") or self._is_keyword("or"):
            raise self._error("a name such as topic[source].property is expected")
        if self._terms == MAX_TERMS:
            raise self._error("too many terms", ExpressionTooLarge, limit=MAX_TERMS)
        self._terms += 1
        path, source, behind = self._path(), None, None
        if self._next.kind == "[":
            source = self._source()
            behind = self._path(dot=True)
        return Term(path, source, behind, self._threshold(), at)

    def _path(self, dot: bool = False) -> str:
        """Runs and texts without a space between them; `dot`: it begins with one, behind brackets."""
        at, end, path = self._next.start, self._next.start, ""
        if dot and (self._next.kind != "bare" or not self._next.text.startswith(".")):
            raise self._error("'.' and a property are expected behind the source")
        while self._next.kind in ("bare", "text") and self._next.start == end:
            token = self._take()
            path, end = path + token.text, token.end
        path = path[1:] if dot else path
        if not all(path.split(".")):
            raise error(self._text, at, "a name is missing beside a dot", found=path)
        return path

    def _source(self) -> tuple[tuple[str | None, str], ...]:
        self._take()
        chosen: list[tuple[str | None, str]] = []
        while self._next.kind != "]":
            if chosen:
                self.expect(",", "',' or ']'")
            chosen.append(self._dimension(alone=not chosen))
        self._take()
        return tuple(chosen)

    def _dimension(self, alone: bool) -> tuple[str | None, str]:
        first = self._value()
        if self._next.kind == "=":
            self._take()
            return first.text, self._value().text
        if not alone or self._next.kind == ",":
            raise error(self._text, first.start, "several dimensions are named: write name=value", found=first.text)
        return None, first.text

    def _value(self) -> ExpressionToken:
        if self._next.kind not in ("bare", "text"):
            raise self._error("a value of a dimension is expected")
        return self._take()

    def _threshold(self) -> Threshold:
        self.expect("+-", "'+-' and a threshold")
        at = self._next
        amount = self._number()
        if self._next.kind != "%":
            return Threshold(self._positive(amount, at))
        self._take()
        of: Of = "range" if self._accept_keyword("of") else "value"
        if of == "range" and not self._accept_keyword("range"):
            raise self._error("'range' is expected: a percentage is of the value delivered last, or of range")
        return Threshold(self._positive(amount, at) / 100, of)

    def _number(self) -> Fraction:
        token = self._next
        if token.kind == "bare" and token.text.lower().lstrip("-") in _NO_NUMBERS:
            raise self._error("a threshold is a finite number", BadThreshold)
        if token.kind != "bare" or not _NUMBER.fullmatch(token.text):
            raise self._error("a number is expected behind +-")
        return Fraction(self._take().text)

    def _positive(self, amount: Fraction, at: ExpressionToken) -> Fraction:
        if amount <= 0:
            detail = "a threshold is above zero; the smallest is one step of the property"
            raise error(self._text, at.start, detail, BadThreshold, given=at.text)
        return amount

    def _is_keyword(self, word: str) -> bool:
        return self._next.kind == "bare" and self._next.text.lower() == word

    def _accept_keyword(self, word: str) -> bool:
        """Take a word of the language where it comes next."""
        found = self._is_keyword(word)
        if found:
            self._take()
        return found

    def _take(self) -> ExpressionToken:
        taken = self._next
        if taken.kind != "end":
            self._next = next(self._rest)
        return taken

    def _error(self, detail: str, kind: type[ExpressionError] = ExpressionError, **facts: object) -> ExpressionError:
        found = self._text[self._next.start : self._next.end] or "the end"
        return error(self._text, self._next.start, detail, kind, found=found, **facts)
