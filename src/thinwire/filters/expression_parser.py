"""Tokenizer and parser core of the two expression languages: `where` predicates and watch expressions.

Both join terms by `or` and `and`, of which `and` binds tighter, with parentheses around groups. A language adds its
token pattern (`Grammar`), its terms (`parse_term`) and the value of a joined group (`combine`).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from thinwire.errors import ExpressionError, ExpressionTooLarge

R = TypeVar("R")

OPERATORS = ("or", "and")
"""infix operators, weakest binding first"""
_QUOTED = ("text", "name")
_HINTS = {"&": "write 'and'", "|": "write 'or'", "'": "the quotes do not end", '"': "the quotes do not end"}


class Token(NamedTuple):
    """A token of an expression.

    kind: group of the pattern, "end", or for a symbol its text
    text: without quotes
    start, end: offsets in the expression
    """

    kind: str
    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Grammar:
    """Tokens of a language.

    pattern: one named group per kind of token. The group "space" is skipped; "text" and "name" are in quotes, and
        a doubled quote inside stands for one quote
    keyword_kind: kind of the tokens that can be keywords
    synonyms: symbol -> the symbol that it stands for
    hints: character that starts no token -> what to write instead, beside the hints of all languages
    default_hint: for every other character
    """

    pattern: re.Pattern[str]
    keyword_kind: str
    synonyms: Mapping[str, str]
    hints: Mapping[str, str]
    default_hint: str

    def tokenize(self, text: str) -> Iterator[Token]:
        """Yield the tokens of `text` and a final token of kind "end"."""
        offset = 0
        while offset < len(text):
            match = self.pattern.match(text, offset)
            if match is None:
                hint = {**_HINTS, **self.hints}.get(text[offset], self.default_hint)
                raise ExpressionError.at(text, offset, f"unexpected character {text[offset]!r}: {hint}")
            if match.lastgroup != "space":
                yield self._read_token(match)
            offset = match.end()
        yield Token("end", "", offset, offset)

    def _read_token(self, match: re.Match[str]) -> Token:
        kind, text = match.lastgroup or "", match.group()
        if kind == "symbol":
            kind = text = self.synonyms.get(text, text)
        elif kind in _QUOTED:
            text = text[1:-1].replace(2 * text[0], text[0])
        return Token(kind, text, *match.span())


class ExpressionParser(ABC, Generic[R]):
    """Pratt parser with one token of lookahead. Tokens are read on demand, so that limits hold before allocation.

    text: the expression
    max_depth: levels of parentheses and `not`
    allow_not: the language has a prefix operator `not`; it is passed down to the terms
    """

    def __init__(self, text: str, grammar: Grammar, *, max_depth: int, allow_not: bool = False) -> None:
        self.text = text
        self._grammar = grammar
        self._max_depth = max_depth
        self._allow_not = allow_not
        self._tokens = grammar.tokenize(text)
        self.next = next(self._tokens)

    @abstractmethod
    def parse_term(self, negated: bool) -> R:
        """Parse an operand that is not a group."""

    @abstractmethod
    def combine(self, operator: str, operands: Sequence[R], start: Token, negated: bool) -> R:
        """Return the value of operands joined by one operator. If `negated`, the operands are negated already."""

    def parse_all(self) -> R:
        """Parse the complete text."""
        result = self._parse_joined(0, 0, negated=False)
        self.expect("end", "'and', 'or' or the end")
        return result

    def is_keyword(self, word: str) -> bool:
        """Return whether the next token is this keyword; case does not matter."""
        return self.next.kind == self._grammar.keyword_kind and self.next.text.lower() == word

    def accept_keyword(self, word: str) -> bool:
        """Consume the next token if it is this keyword; return whether it was."""
        found = self.is_keyword(word)
        if found:
            self.take()
        return found

    def expect(self, kind: str, expected: str) -> Token:
        """Consume a token of this kind, or raise an error that names `expected`."""
        if self.next.kind != kind:
            raise self.error(f"{expected} is expected")
        return self.take()

    def take(self) -> Token:
        """Consume the next token; the end is never consumed."""
        token = self.next
        if token.kind != "end":
            self.next = next(self._tokens)
        return token

    def error(self, detail: str, kind: type[ExpressionError] = ExpressionError, **facts: object) -> ExpressionError:
        """Return an error at the next token."""
        found = self.text[self.next.start : self.next.end] or "the end"
        return kind.at(self.text, self.next.start, detail, found=found, **facts)

    def _parse_joined(self, level: int, depth: int, negated: bool) -> R:
        if level == len(OPERATORS):
            return self._parse_operand(depth, negated)
        start, operands = self.next, [self._parse_joined(level + 1, depth, negated)]
        while self.accept_keyword(OPERATORS[level]):
            operands.append(self._parse_joined(level + 1, depth, negated))
        return operands[0] if len(operands) == 1 else self.combine(OPERATORS[level], operands, start, negated)

    def _parse_operand(self, depth: int, negated: bool) -> R:
        if self._allow_not and self.is_keyword("not"):
            self._check_depth(depth)
            self.take()
            return self._parse_operand(depth + 1, not negated)
        if self.next.kind != "(":
            return self.parse_term(negated)
        self._check_depth(depth)
        opening = self.take()
        result = self._parse_joined(0, depth + 1, negated)
        if self.next.kind == "end":
            raise ExpressionError.at(self.text, opening.start, "this parenthesis is not closed")
        self.expect(")", "'and', 'or' or ')'")
        return result

    def _check_depth(self, depth: int) -> None:
        if depth == self._max_depth:
            raise self.error("parentheses are nested too deeply", ExpressionTooLarge, limit=self._max_depth)
