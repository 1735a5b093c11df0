"""Sets of values as numbers: sides of rectangles, and tests of single values that decide the same.

A number is compared as a double. A text becomes its rank among the texts that are asked about: odd where it is one of
them, even between two, so that every order among them is kept.

>>> from thinwire.filters.where.value_sets import above, points
>>> sides(above("number", 10.0).complement())
[(-1.7976931348623157e+308, 10.0)]
>>> ranks = Ranks(["EU", "US"])
>>> [ranks.of(text) for text in ("AF", "EU", "IN", "US", "ZZ", None)]
[0.0, 1.0, 2.0, 3.0, 4.0, nan]
>>> sides(points("text", ["US"]), ranks)
[(3.0, 3.0)]
"""

from __future__ import annotations

import math
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from thinwire.filters.where.value_sets import FIRST, LAST, Cut, Values

MAX_KNOWN = 65_536
"""texts whose rank is kept in mind"""

NUMBERS = (float, int)
"""what can be compared as a double; what is true or false can"""

_LARGEST = sys.float_info.max


class Ranks:
    """The ranks of texts among some of them."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts = sorted(set(texts))
        self._known: dict[str, float] = {}

    def of(self, text: Any) -> float:
        """The rank of a text; of what is none, no number."""
        if not isinstance(text, str):
            return math.nan
        rank = self._known.get(text)
        if rank is None:
            rank = self._rank(text)
            if len(self._known) < MAX_KNOWN:
                self._known[text] = rank
        return rank

    def _rank(self, text: str) -> float:
        at = bisect_left(self.texts, text)
        return 2.0 * at + (at < len(self.texts) and self.texts[at] == text)


def sides(values: Values, ranks: Ranks | None = None) -> list[tuple[float, float]]:
    """The spans of a set, both ends included; ranks: of all texts that are asked about, where it is one of texts."""
    if ranks is not None:
        last = 2.0 * len(ranks.texts)
        return [(_rank_from(a, ranks), _rank_to(b, ranks, last)) for a, b in values.spans]
    return [(_from(a), _to(b)) for a, b in values.spans]


def test_of(values: Values) -> Callable[[Any], bool]:
    """The function that says whether a value is in a set."""
    if values.kind == "text":
        return _text_test(values)
    found = sides(values)
    if len(found) == 1:
        ((low, high),) = found
        return lambda value: isinstance(value, NUMBERS) and low <= float(value) <= high
    return lambda value: isinstance(value, NUMBERS) and any(low <= float(value) <= high for low, high in found)


def value_in(name: str) -> Callable[[Mapping[str, Any]], Any]:
    """The function that finds the value of a property in an event; None where it is absent."""
    first, *others = name.split(".")
    if not others:
        return lambda event: event.get(first)

    def found(event: Mapping[str, Any]) -> Any:
        value = event.get(first)
        for part in others:
            value = value.get(part) if isinstance(value, Mapping) else None
        return value

    return found


def _text_test(values: Values) -> Callable[[Any], bool]:
    if len(values.points) == len(values.spans):
        listed = frozenset(values.points)
        return lambda value: isinstance(value, str) and value in listed
    return lambda value: isinstance(value, str) and any(low <= (0, value, 0) < high for low, high in values.spans)


def _from(cut: Cut) -> float:
    if cut == FIRST:
        return -_LARGEST
    return math.nextafter(cut[1], math.inf) if cut[2] else float(cut[1])


def _to(cut: Cut) -> float:
    if cut == LAST:
        return _LARGEST
    return float(cut[1]) if cut[2] else math.nextafter(cut[1], -math.inf)


def _rank_from(cut: Cut, ranks: Ranks) -> float:
    return 0.0 if cut == FIRST else ranks.of(cut[1]) + cut[2]


def _rank_to(cut: Cut, ranks: Ranks, last: float) -> float:
    return last if cut == LAST else ranks.of(cut[1]) - 1 + cut[2]
