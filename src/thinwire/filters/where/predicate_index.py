"""Cases on the same properties, as rectangles in one index.

Newcomers are looked at one by one until that has cost as much as to place all of them.

Many predicates, and which of them an event matches: one question for a batch of events.

Cases of predicates that say something about the same properties are rectangles of one space, and each space has an
index of its own: a predicate on a price does not lie in the way of one on a region. Equal predicates are one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from thinwire.filters.where.predicate import NUMBERS, Case, Ranks, Where, sides, test_of, value_in

if TYPE_CHECKING:
    from thinwire.filters.rectangle_index import RectangleIndex


FEW = 16
"""cases that are looked at one by one; an index needs compiled kernels, which cost half a second to load"""
WORTH = 8
"""looks at a newcomer that cost as much as to place one case"""

Column = Callable[[Sequence[Mapping[str, Any]]], list[float] | NDArray[np.float64]]
Found = tuple[int, int]
"""the place of an event, and the number of a predicate that it matches"""
Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]
"""the same of many, as columns"""


class Group:
    """Cases that say something about the same properties, each of a predicate that has a number.

    names: the properties
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self._cases: dict[int, list[Case]] = {}
        self._newcomers: dict[int, list[Callable[[Mapping[str, Any]], bool]]] = {}
        self._index: RectangleIndex | None = None
        self._numbers = self._starts = np.zeros(0, dtype=np.int64)
        self._columns: list[Column] = []
        self._gone = self._looked = 0

    def __bool__(self) -> bool:
        return bool(self._cases)

    def add(self, number: int, case: Case) -> None:
        """One more case, of a predicate that may have others here."""
        self._cases.setdefault(number, []).append(case)
        self._newcomers.setdefault(number, []).append(_test(case))

    def remove(self, number: int) -> None:
        """The cases of a predicate are not asked about any more."""
        if self._cases.pop(number, None) is not None and self._newcomers.pop(number, None) is None:
            self._gone += 1

    def match(self, events: Sequence[Mapping[str, Any]]) -> tuple[list[Found], Pairs | None]:
        """Pairs of events and predicates, those of newcomers and those of the index apart; some of them perhaps more
        than once, or of predicates that were removed."""
        new = [
            (at, number)
            for number, tests in self._newcomers.items()
            for test in tests
            for at, event in enumerate(events)
            if test(event)
        ]
        pairs = self._placed(events) if self._index is not None else None
        self._looked += len(self._newcomers) * len(events)
        if self._is_worth_while():
            self._arrange()
        return new, pairs

    def _placed(self, events: Sequence[Mapping[str, Any]]) -> Pairs:
        assert self._index is not None
        points = np.column_stack([column(events) for column in self._columns])
        at, found = self._index.match(points)
        first, count = self._starts[found], self._index.distinct.multiplicity[found]
        if not len(count) or count.max() == 1:
            return at, self._numbers[first]
        before = np.repeat(np.cumsum(count) - count, count)
        places = np.repeat(first, count) + np.arange(count.sum()) - before
        return np.repeat(at, count), self._numbers[places]

    def _is_worth_while(self) -> bool:
        if self._gone > max(FEW, len(self._cases)):
            return True
        return len(self._newcomers) > FEW and self._looked >= WORTH * len(self._cases)

    def _arrange(self) -> None:
        """Place all cases anew."""
        from thinwire.filters.rectangle_index import RectangleIndex

        numbers = [number for number, cases in self._cases.items() for _ in cases]
        cases = [case for several in self._cases.values() for case in several]
        ranks = [self._ranks(name, cases) for name in self.names]
        corners, of = list[tuple[tuple[float, float], ...]](), list[int]()
        for number, case in zip(numbers, cases, strict=True):
            made = list(product(*(sides(case[name], of_name) for name, of_name in zip(self.names, ranks, strict=True))))
            corners += made
            of += [number] * len(made)
        ends = np.array(corners, dtype=np.float64).reshape(len(corners), len(self.names), 2)
        self._index = RectangleIndex(ends[:, :, 0], ends[:, :, 1])
        order = np.argsort(self._index.distinct.of, kind="stable")
        self._numbers = np.array(of, dtype=np.int64)[order]
        self._starts = np.cumsum(self._index.distinct.multiplicity) - self._index.distinct.multiplicity
        self._columns = [_column(name, of_name) for name, of_name in zip(self.names, ranks, strict=True)]
        self._newcomers = {}
        self._gone = self._looked = 0

    @staticmethod
    def _ranks(name: str, cases: Sequence[Case]) -> Ranks | None:
        """The texts that a property is compared with; None where it is compared with numbers."""
        asked = [case[name] for case in cases if case[name].kind == "text"]
        if not asked:
            return None
        return Ranks(cut[1] for values in asked for span in values.spans for cut in span if not cut[0])


def _test(case: Case) -> Callable[[Mapping[str, Any]], bool]:
    tests = [(value_in(name), test_of(values)) for name, values in case.items()]
    if len(tests) == 1:
        ((value_of, test),) = tests
        return lambda event: test(value_of(event))
    return lambda event: all(test(value_of(event)) for value_of, test in tests)


def _column(name: str, ranks: Ranks | None) -> Column:
    """The function that makes a coordinate of every event; no number where the value is absent."""
    value_of = value_in(name)
    if ranks is not None:
        of = ranks.of
        return lambda events: [of(value_of(event)) for event in events]
    if "." not in name:
        return lambda events: _numbers([event.get(name) for event in events])
    return lambda events: _numbers([value_of(event) for event in events])


def _numbers(values: list[Any]) -> NDArray[np.float64]:
    if not {*map(type, values)} <= _PLAIN:
        values = [float(value) if isinstance(value, NUMBERS) else None for value in values]
    return np.array(values, dtype=np.float64)


_PLAIN = {float, int, bool, type(None)}


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
