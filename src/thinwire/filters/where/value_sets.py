"""Sets of values of one property: what a condition lets pass.

A set is a row of spans, each from one cut to another. A cut lies just before a value or just behind it, or beyond all
values, so that no end is open or closed and texts need no largest one.

>>> low, high = above("number", 10.0), above("number", 20.0).complement()
>>> low.intersect(high).conditions("price")
['price > 10 and price <= 20']
>>> points("text", ["EU", "US"]).complement().conditions("region")
["region not in ('EU', 'US')"]
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

Kind = Literal["number", "text", "truth"]
Cut = tuple[int, Any, int]
"""place: -1 before all values, 1 behind all, 0 at one; the value; 0 just before it, 1 just behind it"""
Span = tuple[Cut, Cut]

FIRST: Cut = (-1, 0, 0)
LAST: Cut = (1, 0, 0)
_LAST_SIGN = chr(sys.maxunicode)


@dataclass(frozen=True)
class Values:
    """A set of values: numbers, texts, or what is true and what is not. A value that is absent is in none.

    spans: in ascending order, none touches another
    """

    kind: Kind
    spans: tuple[Span, ...]

    def __bool__(self) -> bool:
        return bool(self.spans)

    def complement(self) -> Values:
        """All other values."""
        if self.kind == "truth":
            return points("truth", {False, True} - set(self.points))
        edges = [FIRST, *(cut for span in self.spans for cut in span), LAST]
        return Values(self.kind, tuple((a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if a != b))

    def join(self, other: Values) -> Values:
        """What is in either."""
        return Values(self.kind, tuple(_joined(sorted((*self.spans, *other.spans)))))

    def intersect(self, other: Values) -> Values:
        """What is in both."""
        found = ((max(a, c), min(b, d)) for a, b in self.spans for c, d in other.spans)
        return Values(self.kind, tuple(sorted(span for span in found if span[0] < span[1])))

    def within(self, other: Values) -> bool:
        """Is all of it in the other?"""
        return self.intersect(other) == self

    @cached_property
    def points(self) -> tuple[Any, ...]:
        """The spans that are one value each."""
        return tuple(a[1] for a, b in self.spans if _is_point((a, b)))

    def conditions(self, name: str) -> list[str]:
        """Conditions of which any may hold, and that together say the same."""
        others = self.complement()
        if self.kind != "truth" and not others:
            anything = "''" if self.kind == "text" else "0"
            return [f"{name} <= {anything}", f"{name} > {anything}"]
        if self.kind != "truth" and len(others.points) == len(others.spans):
            return [_listed(name, "!=", "not in", others.points)]
        listed = [_listed(name, "=", "in", self.points)] if self.points else []
        return listed + [_between(name, span) for span in self.spans if not _is_point(span)]


def points(kind: Kind, values: Iterable[Any]) -> Values:
    """Just these values."""
    return Values(kind, tuple(((0, value, 0), (0, value, 1)) for value in sorted(set(values))))


def above(kind: Kind, value: Any, *, too: bool = False) -> Values:
    """Everything above a value; `too`: the value as well."""
    return Values(kind, (((0, value, 1 - too), LAST),))


def beginning(prefix: str) -> Values:
    """All texts that begin like this.

    >>> beginning("AB").conditions("symbol")
    ["symbol >= 'AB' and symbol < 'AC'"]
    """
    end = _next(prefix)
    return Values("text", (((0, prefix, 0), LAST if end is None else (0, end, 0)),))


def literal(value: Any) -> str:
    """A value as it stands in an expression.

    >>> literal("it's"), literal(20.0), literal(0.1), literal(True)
    ("'it''s'", '20', '0.1', 'true')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


def _next(prefix: str) -> str | None:
    """The first text behind all that begin like this; none where nothing is behind them."""
    kept = prefix.rstrip(_LAST_SIGN)
    if not kept:
        return None
    sign = ord(kept[-1]) + 1
    return kept[:-1] + chr(0xE000 if sign == 0xD800 else sign)  # what lies between them is no sign, and cannot travel


def _joined(spans: Iterable[Span]) -> Iterator[Span]:
    """Spans in the order of their beginnings; those that touch become one."""
    present: Span | None = None
    for span in spans:
        if present is None or span[0] > present[1]:
            if present is not None:
                yield present
            present = span
        else:
            present = present[0], max(present[1], span[1])
    if present is not None:
        yield present


def _is_point(span: Span) -> bool:
    (place, value, side), end = span
    return not place and not side and end == (0, value, 1)


def _listed(name: str, one: str, many: str, values: tuple[Any, ...]) -> str:
    if len(values) == 1:
        return f"{name} {one} {literal(values[0])}"
    return f"{name} {many} ({', '.join(map(literal, values))})"


def _between(name: str, span: Span) -> str:
    low, high = span
    if not low[0] and not high[0] and (low[2], high[2]) == (0, 1):
        return f"{name} between {literal(low[1])} and {literal(high[1])}"
    ends = [f"{name} {'>' if low[2] else '>='} {literal(low[1])}"] if not low[0] else []
    ends += [f"{name} {'<=' if high[2] else '<'} {literal(high[1])}"] if not high[0] else []
    return " and ".join(ends)
