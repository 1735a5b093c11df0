"""An expression as tokens, each with its place.

Signs and brackets stand for themselves. Everything between them is a bare run (`building.rooms`, `0.5`, `11.1`) or a
text in quotes; what a run means depends on where it stands, and the parser knows.

>>> [(token.kind, token.text) for token in tokens("rooms[12].t +- 0.5")]
[('bare', 'rooms'), ('[', '['), ('bare', '12'), (']', ']'), ('bare', '.t'), ('+-', '+-'), ('bare', '0.5'), ('end', '')]
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from thinwire.errors import ExpressionError

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


class Token(NamedTuple):
    """kind: "bare", "text", "+-", "end" or the mark itself; text: without quotes; start, end: its place"""

    kind: str
    text: str
    start: int
    end: int


def tokens(text: str) -> Iterator[Token]:
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
    yield Token("end", "", at, at)


def error(
    text: str, at: int, detail: str, kind: type[ExpressionError] = ExpressionError, **facts: object
) -> ExpressionError:
    """An error about one place of an expression."""
    return kind.at(text, at, detail, **facts)


def _token(found: re.Match[str]) -> Token:
    text, kind = found.group(), found.lastgroup or ""
    if kind == "sign":
        return Token("+-", text, *found.span())
    if kind == "text":
        return Token(kind, text[1:-1], *found.span())
    return Token(text if kind == "mark" else kind, text, *found.span())
