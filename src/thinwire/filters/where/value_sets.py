"""Sets of values of one property that a condition accepts.

A set is a sequence of spans between two cuts. A cut lies just before a value, just after it, or beyond all values.
Cuts make open and closed ends equal in form, and texts need no largest value.

>>> low, high = above("number", 10.0), above("number", 20.0).complement()
>>> low.intersect(high).conditions("price")
['price > 10 and price <= 20']
>>> listed_values("text", ["EU", "US"]).complement().conditions("region")
["region not in ('EU', 'US')"]
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

ComparedKind = Literal["number", "text", "boolean"]
Cut = tuple[int, Any, int]
"""(-1 before all values, 1 after all, 0 at a value; the value; 0 just before it, 1 just after it)"""
Span = tuple[Cut, Cut]

FIRST: Cut = (-1, 0, 0)
LAST: Cut = (1, 0, 0)
KEYWORDS = frozenset({"and", "or", "not", "between", "in", "true", "false"})
"""a property with one of these names needs double quotes in a predicate"""

_PLAIN_NAME = re.compile(r"[^\W\d][\w.:/@\-]*")
_LAST_CHARACTER = chr(sys.maxunicode)


@dataclass(frozen=True)
class Values:
    """A set of numbers, texts or booleans. An absent value is in no set.

    spans: ascending, with a gap between any two
    """

    kind: ComparedKind
    spans: tuple[Span, ...]

    def __bool__(self) -> bool:
        return bool(self.spans)

    def complement(self) -> Values:
        """Return all other values of the kind."""
        if self.kind == "boolean":
            return listed_values("boolean", {False, True} - set(self.points))
        edges = [FIRST, *(cut for span in self.spans for cut in span), LAST]
        return Values(self.kind, tuple((a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if a != b))

    def join(self, other: Values) -> Values:
        """Return the union."""
        return Values(self.kind, tuple(_merge_spans(sorted((*self.spans, *other.spans)))))

    def intersect(self, other: Values) -> Values:
        """Return the intersection."""
        spans = ((max(a, c), min(b, d)) for a, b in self.spans for c, d in other.spans)
        return Values(self.kind, tuple(sorted(span for span in spans if span[0] < span[1])))

    def is_within(self, other: Values) -> bool:
        """Return whether this is a subset of `other`."""
        return self.intersect(other) == self

    @cached_property
    def points(self) -> tuple[Any, ...]:
        """The values of the spans that consist of one value."""
        return tuple(a[1] for a, b in self.spans if _is_point((a, b)))

    def conditions(self, name: str) -> list[str]:
        """Return conditions on property `name` whose disjunction accepts exactly this set."""
        others = self.complement()
        if self.kind != "boolean" and not others:
            pivot = "''" if self.kind == "text" else "0"
            return [f"{name} <= {pivot}", f"{name} > {pivot}"]
        if self.kind != "boolean" and len(others.points) == len(others.spans):
            return [_format_list(name, "!=", "not in", others.points)]
        listed = [_format_list(name, "=", "in", self.points)] if self.points else []
        return listed + [_format_span(name, span) for span in self.spans if not _is_point(span)]


def listed_values(kind: ComparedKind, values: Iterable[Any]) -> Values:
    """Return the set of these values."""
    return Values(kind, tuple(((0, value, 0), (0, value, 1)) for value in sorted(set(values))))


def above(kind: ComparedKind, value: Any, *, inclusive: bool = False) -> Values:
    """Return the values greater than `value`, or equal to it if `inclusive`."""
    return Values(kind, (((0, value, 1 - inclusive), LAST),))


def prefixed_by(prefix: str) -> Values:
    """Return the texts that start with `prefix`.

    >>> prefixed_by("AB").conditions("symbol")
    ["symbol >= 'AB' and symbol < 'AC'"]
    """
    end = _successor(prefix)
    return Values("text", (((0, prefix, 0), LAST if end is None else (0, end, 0)),))


def quote_name(name: str) -> str:
    """Return the name of a property in the syntax of predicates.

    >>> quote_name("oil.level"), quote_name("in"), quote_name("a b")
    ('oil.level', '"in"', '"a b"')
    """
    return name if _PLAIN_NAME.fullmatch(name) and name.lower() not in KEYWORDS else f'"{name}"'


def format_literal(value: Any) -> str:
    """Return a value in the syntax of predicates.

    >>> format_literal("it's"), format_literal(20.0), format_literal(0.1), format_literal(True)
    ("'it''s'", '20', '0.1', 'true')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


def _successor(prefix: str) -> str | None:
    """Return the smallest text greater than every text with this prefix; None if there is none."""
    stem = prefix.rstrip(_LAST_CHARACTER)
    if not stem:
        return None
    code = ord(stem[-1]) + 1
    return stem[:-1] + chr(0xE000 if code == 0xD800 else code)  # surrogates cannot be encoded as UTF-8


def _merge_spans(spans: Iterable[Span]) -> Iterator[Span]:
    """Merge spans that touch; `spans` is sorted by start."""
    current: Span | None = None
    for span in spans:
        if current is None or span[0] > current[1]:
            if current is not None:
                yield current
            current = span
        else:
            current = current[0], max(current[1], span[1])
    if current is not None:
        yield current


def _is_point(span: Span) -> bool:
    (beyond, value, side), end = span
    return not beyond and not side and end == (0, value, 1)


def _format_list(name: str, one: str, many: str, values: tuple[Any, ...]) -> str:
    if len(values) == 1:
        return f"{name} {one} {format_literal(values[0])}"
    return f"{name} {many} ({', '.join(map(format_literal, values))})"


def _format_span(name: str, span: Span) -> str:
    low, high = span
    if not low[0] and not high[0] and (low[2], high[2]) == (0, 1):
        return f"{name} between {format_literal(low[1])} and {format_literal(high[1])}"
    ends = [f"{name} {'>' if low[2] else '>='} {format_literal(low[1])}"] if not low[0] else []
    ends += [f"{name} {'<=' if high[2] else '<'} {format_literal(high[1])}"] if not high[0] else []
    return " and ".join(ends)
