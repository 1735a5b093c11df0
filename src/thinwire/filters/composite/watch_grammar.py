"""Grammar of watch expressions.

term := path [ "[" source "]" "." path ] "+-" threshold
source := nothing | value | name "=" value { "," name "=" value }
threshold := number | number "%" [ "of" "range" ]

Terms are joined by `or`, `and` and parentheses (`ExpressionParser`). Text between symbols is a bare run
(`building.rooms`, `0.5`, `11.1`) or a text in quotes; the parser decides whether a run is a name, a value or a number.

>>> [(token.kind, token.text) for token in GRAMMAR.tokenize("rooms[12].t +- 0.5")]
[('bare', 'rooms'), ('[', '['), ('bare', '12'), (']', ']'), ('bare', '.t'), ('+-', '+-'), ('bare', '0.5'), ('end', '')]
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

from thinwire.errors import ExpressionError, ExpressionTooLarge
from thinwire.filters.composite.expression import And, Expression, Formula, Or, Term, Threshold, ThresholdUnit
from thinwire.filters.expression_parser import ExpressionParser, Grammar, Token

MAX_LENGTH = 262_144
MAX_TERMS = 256
MAX_DEPTH = 64

_NUMBER = re.compile(r"(?P<minus>-)?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,2})?")
_NOT_FINITE = ("nan", "inf", "infinity")


GRAMMAR = Grammar(
    pattern=re.compile(
        r"""(?P<space>\s+)
        |(?P<text>"[^"\n]*"|'[^'\n]*')
        |(?P<bare>(?:\d+\.?\d*|\.\d+)[eE]\+\d+|[\w.\-:/@]+)
        |(?P<symbol>\+-|\+/-|±|[()\[\],=%])""",
        re.VERBOSE,
    ),
    keyword_kind="bare",
    synonyms={"+/-": "+-", "±": "+-"},
    hints={"!": "there is no 'not'"},
    default_hint="names with other characters need quotes",
)


def parse_watch(text: str) -> Expression:
    """Parse a watch expression.

    >>> str(parse_watch("(market[AAPL].price ± 0.50 and market[MSFT].price +- 1%) or vix.value +- 2"))
    '(market[AAPL].price +- 0.5 and market[MSFT].price +- 1%) or vix.value +- 2'
    >>> parse_watch("market[AAPL].price +- much")
    Traceback (most recent call last):
    ...
    thinwire.errors.ExpressionError: bad expression: a number is expected after +-: line=1, column=23, found='much'
        market[AAPL].price +- much
                              ^
    """
    if len(text) > MAX_LENGTH:
        raise ExpressionTooLarge("the text is too long", characters=len(text), limit=MAX_LENGTH)
    return Expression(text, _WatchParser(text).parse_all())


class _WatchParser(ExpressionParser[Formula[Term]]):
    def __init__(self, text: str) -> None:
        super().__init__(text, GRAMMAR, max_depth=MAX_DEPTH)
        self._terms = 0

    def parse_term(self, negated: bool) -> Term:
        start = self.next.start
        if self.next.kind not in ("bare", "text") or self.is_keyword("and") or self.is_keyword("or"):
            raise self.error("a name such as topic[source].property is expected")
        if self._terms == MAX_TERMS:
            raise self.error("too many terms", ExpressionTooLarge, limit=MAX_TERMS)
        self._terms += 1
        path, source, property_path = self._parse_path(), None, None
        if self.next.kind == "[":
            source = self._parse_source()
            property_path = self._parse_path(after_source=True)
        return Term(path, source, property_path, self._parse_threshold(), start)

    def combine(self, operator: str, operands: Sequence[Formula[Term]], start: Token, negated: bool) -> Formula[Term]:
        return Or(tuple(operands)) if operator == "or" else And(tuple(operands))

    def _parse_path(self, after_source: bool = False) -> str:
        """Join runs and texts that no space separates; after a source the path begins with a dot."""
        start, end, path = self.next.start, self.next.start, ""
        if after_source and (self.next.kind != "bare" or not self.next.text.startswith(".")):
            raise self.error("'.' and a property are expected after the source")
        while self.next.kind in ("bare", "text") and self.next.start == end:
            token = self.take()
            path, end = path + token.text, token.end
        path = path[1:] if after_source else path
        if not all(path.split(".")):
            raise ExpressionError.at(self.text, start, "a name is missing before or after a dot", found=path)
        return path

    def _parse_source(self) -> tuple[tuple[str | None, str], ...]:
        self.take()
        dimensions: list[tuple[str | None, str]] = []
        while self.next.kind != "]":
            if dimensions:
                self.expect(",", "',' or ']'")
            dimensions.append(self._parse_dimension(is_first=not dimensions))
        self.take()
        return tuple(dimensions)

    def _parse_dimension(self, is_first: bool) -> tuple[str | None, str]:
        token = self._parse_value()
        if self.next.kind == "=":
            self.take()
            return token.text, self._parse_value().text
        if not is_first or self.next.kind == ",":
            detail = "a source with several dimensions: write name=value for each"
            raise ExpressionError.at(self.text, token.start, detail, found=token.text)
        return None, token.text

    def _parse_value(self) -> Token:
        if self.next.kind not in ("bare", "text"):
            raise self.error("a value of a dimension is expected")
        return self.take()

    def _parse_threshold(self) -> Threshold:
        self.expect("+-", "'+-' and a threshold")
        token = self.next
        amount = self._parse_number()
        if self.next.kind != "%":
            return Threshold(self._positive(amount, token))
        self.take()
        unit: ThresholdUnit = "range" if self.accept_keyword("of") else "value"
        if unit == "range" and not self.accept_keyword("range"):
            raise self.error("'range' is expected: a percentage is of the value delivered last, or of range")
        return Threshold(self._positive(amount, token) / 100, unit)

    def _parse_number(self) -> Fraction:
        token = self.next
        if token.kind == "bare" and token.text.lower().lstrip("-") in _NOT_FINITE:
            raise self.error("a threshold must be a finite number")
        if token.kind != "bare" or not _NUMBER.fullmatch(token.text):
            raise self.error("a number is expected after +-")
        return Fraction(self.take().text)

    def _positive(self, amount: Fraction, token: Token) -> Fraction:
        if amount <= 0:
            detail = "a threshold must be above zero; the smallest is one step of the property"
            raise ExpressionError.at(self.text, token.start, detail, given=token.text)
        return amount
