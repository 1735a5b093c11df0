"""Many predicates, and which of them an event matches: one question for a batch of events.

Cases of predicates that say something about the same properties are rectangles of one space, and each space has an
index of its own: a predicate on a price does not lie in the way of one on a region. Equal predicates are one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np

from thinwire.filters.where.predicate_index import Found, Group, Pairs
from thinwire.filters.where.predicate_where import Where

T = TypeVar("T", bound=Hashable)


@dataclass(slots=True)
class _Asked(Generic[T]):
    """A predicate, and who asks for it."""

    where: Where
    number: int
    who: dict[T, None] = field(default_factory=dict)


class PredicateIndex(Generic[T]):
    """Who asks for which events.

    >>> from thinwire.filters.where.parser import parse
    >>> index = PredicateIndex()
    >>> index.add("cheap", parse("price < 10")); index.add("far", parse("region != 'EU'"))
    >>> index.match([{"price": 5, "region": "EU"}, {"price": 5, "region": "US"}, {"price": 50, "region": "EU"}])
    [['cheap'], ['cheap', 'far'], []]
    """

    def __init__(self) -> None:
        self._of: dict[T, str] = {}
        self._asked: dict[str, _Asked[T]] = {}
        self._by_number: dict[int, _Asked[T]] = {}
        self._groups: dict[tuple[str, ...], Group] = {}
        self._next = 0

    def __len__(self) -> int:
        """How many ask."""
        return len(self._of)

    def add(self, who: T, where: Where) -> None:
        """Somebody asks for the events that match; each asks once."""
        self.remove(who)
        self._of[who] = where.canonical
        asked = self._asked.get(where.canonical)
        if asked is None:
            asked = self._asked[where.canonical] = self._by_number[self._next] = _Asked(where, self._next)
            self._next += 1
            for case in where.cases:
                names = tuple(case)
                self._groups.setdefault(names, Group(names)).add(asked.number, case)
        asked.who[who] = None

    def remove(self, who: T) -> None:
        """Somebody asks no more; no harm where nobody did."""
        canonical = self._of.pop(who, None)
        if canonical is None:
            return
        asked = self._asked[canonical]
        del asked.who[who]
        if not asked.who:
            del self._asked[canonical], self._by_number[asked.number]
            for names in {tuple(case) for case in asked.where.cases}:
                self._groups[names].remove(asked.number)
                if not self._groups[names]:
                    del self._groups[names]

    def match(self, events: Sequence[Mapping[str, Any]]) -> list[list[T]]:
        """Of every event, who asks for it; each once, in the order in which predicates were first asked for."""
        matched = [group.match(events) for group in self._groups.values()]
        new = [pair for pairs, _ in matched for pair in pairs]
        placed = [pairs for _, pairs in matched if pairs is not None]
        numbers = self._sorted(new, placed) if placed else sorted({*new})
        who, found = self._by_number, list[list[T]]([] for _ in events)
        for at, number in numbers:
            if number in who:
                found[at] += who[number].who
        return found

    def _sorted(self, new: list[Found], placed: list[Pairs]) -> Iterable[Found]:
        """Pairs, each once, in their order."""
        ats, numbers = zip(*placed, strict=True)
        at = np.concatenate([*ats, np.array([pair[0] for pair in new], dtype=np.int64)])
        number = np.concatenate([*numbers, np.array([pair[1] for pair in new], dtype=np.int64)])
        keys = np.unique(at * self._next + number)
        return zip((keys // self._next).tolist(), (keys % self._next).tolist(), strict=True)
