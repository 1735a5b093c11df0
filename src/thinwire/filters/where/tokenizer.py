"""The text of a predicate as tokens, each with its place.

Texts stand in single quotes, one that belongs to the text twice. Names with signs other than letters, digits and
`_ . : / @ -` stand in double quotes.

>>> [(token.kind, token.text) for token in tokens("price<=-1.5 and \\"a b\\" = 'it''s'")][:4]
[('word', 'price'), ('<=', '<='), ('number', '-1.5'), ('word', 'and')]
>>> [(token.kind, token.text) for token in tokens("price<=-1.5 and \\"a b\\" = 'it''s'")][4:]
[('name', 'a b'), ('=', '='), ('text', "it's"), ('end', '')]
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from thinwire.errors import ExpressionError

WORDS = frozenset({"and", "or", "not", "between", "in", "true", "false"})
"""of the language; a property of this name stands in double quotes"""

_TOKEN = re.compile(
    r"""(?P<space>\s+)
    |(?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))
    |(?P<word>[^\W\d][\w.:/@\-]*)
    |(?P<text>'(?:[^']|'')*')
    |(?P<name>"[^"\n]+")
    |(?P<sign><=|>=|!=|<>|==|[<>=(),])""",
    re.VERBOSE,
)
_PLAIN = re.compile(r"[^\W\d][\w.:/@\-]*")
_SAME = {"<>": "!=", "==": "="}
_HINTS = {
    "&": "write 'and'",
    "|": "write 'or'",
    "!": "write 'not', or '!='",
    "'": "the quotes do not end",
    '"': "the quotes do not end",
}


class WhereToken(NamedTuple):
    """kind: "word", "name" (in quotes), "number", "text", "end" or the sign itself; text: without quotes"""

    kind: str
    text: str
    start: int
    end: int


def tokens(text: str) -> Iterator[WhereToken]:
    """The tokens of a predicate, one at a time, and an "end"."""
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            hint = _HINTS.get(text[at], "names with other signs stand in double quotes, texts in single ones")
            raise ExpressionError.at(text, at, f"unexpected sign {text[at]!r}: {hint}")
        if found.lastgroup != "space":
            yield _token(found)
        at = found.end()
    yield WhereToken("end", "", at, at)


def quoted(name: str) -> str:
    """A property as it stands in a predicate.

    >>> quoted("oil.level"), quoted("in"), quoted("a b")
    ('oil.level', '"in"', '"a b"')
    """
    return name if _PLAIN.fullmatch(name) and name.lower() not in WORDS else f'"{name}"'


def _token(found: re.Match[str]) -> WhereToken:
    text, kind = found.group(), found.lastgroup or ""
    if kind == "text":
        return WhereToken(kind, text[1:-1].replace("''", "'"), *found.span())
    if kind == "name":
        return WhereToken(kind, text[1:-1], *found.span())
    if kind == "sign":
        text = _SAME.get(text, text)
        return WhereToken(text, text, *found.span())
    return WhereToken(kind, text, *found.span())
